"""Running extrema: PyTorch's values, places and gradients; ties, NaN, vmap, second order."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, vmap
from minigrad.ops.reduce import running_extrema
from minigrad.testing import gradgradcheck

rng = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_values_places_and_gradients_are_pytorchs(name, axis):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = np.round(2 * rng.standard_normal((3, 9, 4)))
    x[1, 4, 2] = np.nan
    ours, theirs = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, places = getattr(mg, name)(ours, axis)
    z, expected = getattr(torch, name)(theirs, axis)
    np.testing.assert_array_equal(y.numpy(), z.detach().numpy())
    np.testing.assert_array_equal(places.numpy(), expected.numpy())
    g = rng.standard_normal(x.shape)
    y.backward(g)
    z.backward(torch.tensor(g))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12, atol=1e-13)


def test_second_order_and_vmap():
    x = rng.permutation(12).astype(float).reshape(3, 4)
    square = lambda x: mg.cummax(x, 0).values ** 2
    assert gradgradcheck(square, (x[0],))
    total = grad(lambda x: mg.sum(square(x)))
    for row, g in zip(x, vmap(total)(x).numpy(), strict=True):
        np.testing.assert_array_equal(g, total(row).numpy())


def test_a_number_has_no_axis_to_run_along():
    with pytest.raises(ValueError, match="cummin: x must have an axis"):
        mg.cummin(mg.tensor(1.0), 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "bool", mg.bfloat16])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_form_for_gpus_finds_the_same_places(dtype, axis, smallest):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (5, 40, 3)).astype(dtype)
    if x.dtype.kind not in "ib":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] = -0.0
    here = running_extrema.running_argmax(x, axis=axis, smallest=smallest)
    np.testing.assert_array_equal(here, running_extrema._in_log_n_steps(x, axis, smallest))
