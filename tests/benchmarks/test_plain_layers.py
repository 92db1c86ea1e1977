"""Layers written from an engine's own functions do the work of minigrad's nn."""

from functools import partial

import numpy as np
import plain_layers
import pytest
from engines import ENGINES
from workloads import convnet, mlp, transformer

import minigrad as mg

# A small batch and this seed: no sum comes nearer to a kink of relu or of a maximum than 7·10⁻⁶,
# where the derivative would jump with the rounding.
SEED = 7
MADE = {
    "MLP": mlp,
    "convnet": partial(convnet, batch=2),
    "transformer": partial(transformer, activation="relu"),
}


def engine(name):
    """Its namespace; skips where it is not installed."""
    try:
        return ENGINES[name](mg.get_num_threads())
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")


def trained(f, made):
    """The loss, its leaves (the same numbers for each engine with nn) and the cotangent."""
    mg.manual_seed(SEED)
    return made(f)


def gradients(f, loss, leaves, g):
    return [array(x) for x in f.step(loss, leaves, None if g is None else f.constant(g))()]


def array(x):
    """Of a tensor of any engine."""
    return x if isinstance(x, np.ndarray) else np.asarray(getattr(x, "data", x))


def assert_close(x, expected):
    """Equal to the rounding of float32 beside the largest number."""
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["autograd", "MyGrad", "JAX jit"])
@pytest.mark.parametrize("workload", MADE)
def test_loss_and_gradients_of_an_engine_are_minigrad_s(name, workload):
    f, minigrad = engine(name), engine("minigrad")
    loss, ours, g = trained(minigrad, MADE[workload])
    their_loss, theirs, _ = trained(f, MADE[workload])
    leaves = [f.leaf(x.numpy()) for x in ours]
    assert [x.shape for x in leaves] == [x.shape for x in theirs]
    value = array(their_loss(*leaves))
    assert value.dtype == np.float32
    assert_close(value, loss(*ours).numpy())
    for x, expected in zip(
        gradients(f, their_loss, leaves, g), gradients(minigrad, loss, ours, g), strict=True
    ):
        assert x.dtype == np.float32
        assert_close(x, expected)


@pytest.mark.parametrize("workload", MADE)
def test_the_tape_replays_the_steps_of_training_with_the_same_bits(workload):
    expected, replayed = (
        gradients(f, *trained(f, MADE[workload]))
        for f in (engine("minigrad"), engine("minigrad tape"))
    )
    for x, y in zip(replayed, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 3])
def test_convolution_by_shifted_images_is_conv2d(size, padding):
    draw = np.random.default_rng(0).standard_normal
    x, w, b = draw((2, 3, 7, 6)), draw((4, 3, size, size)), draw(4)
    y = plain_layers.conv2d(np, x, w, b, padding)
    np.testing.assert_allclose(y, mg.conv2d(x, w, b, padding=padding), rtol=1e-12, atol=1e-13)


def test_a_pool_by_halves_is_max_pool2d():
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 6))
    np.testing.assert_array_equal(plain_layers.max_pool2d(np, x, 2), mg.max_pool2d(x, 2))
