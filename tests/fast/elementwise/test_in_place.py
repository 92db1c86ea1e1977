"""Functions in place: the bits of their expressions at every size, and no memory beside y."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.blocks import LARGE
from minigrad.engine.registry import op
from minigrad.engine.rule import argument_names
from minigrad.fast.elementwise.in_place import FEW, filled, keep_into, one_of_two

F = mg.nn.functional
AWKWARD = [0.0, -0.0, 0.5, -0.5, 1, -1, 3, -3, 1e-45, 700, -700, np.inf, -np.inf, np.nan]
FUNCTIONS = {
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "leaky_relu that turns": lambda x: F.leaky_relu(x, -0.3),
    "leaky_relu that is steeper below": lambda x: F.leaky_relu(x, 2.5),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "elu": F.elu,
    "elu that is steeper below": lambda x: F.elu(x, 1.7),
    "huber_terms": lambda x: op.huber_terms(x, delta=0.5),
}


def value_and_gradient(f, x, g):
    x = mg.tensor(x, requires_grad=True)
    with np.errstate(invalid="ignore"):
        y = f(x)
        return y.numpy(), mg.grad(y, x, g).numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_elements_have_the_bits_of_few(name, dtype):
    rng = np.random.default_rng(0)
    few = np.concatenate([np.array(AWKWARD, dtype), (3 * rng.standard_normal(50)).astype(dtype)])
    g = rng.standard_normal(few.size).astype(dtype)
    times = FEW // few.size + 1
    small = value_and_gradient(FUNCTIONS[name], few, g)
    large = value_and_gradient(FUNCTIONS[name], np.tile(few, times), np.tile(g, times))
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(np.tile(a, times), b)
        known = np.tile(~np.isnan(a), times)
        np.testing.assert_array_equal(np.signbit(np.tile(a, times))[known], np.signbit(b)[known])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_array_of_several_blocks_has_the_values_of_each(name):
    x = np.random.default_rng(1).standard_normal(LARGE + 12345).astype(np.float32)
    whole = value_and_gradient(FUNCTIONS[name], x, np.ones_like(x))
    end = value_and_gradient(FUNCTIONS[name], x[-FEW:].copy(), np.ones_like(x[-FEW:]))
    for a, b in zip(whole, end, strict=True):
        np.testing.assert_array_equal(a[-FEW:], b)


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish", "leaky_relu", "elu"])
def test_a_step_makes_its_value_and_its_gradient_and_no_array_beside_them(name):
    x = mg.tensor(np.linspace(-5, 5, 1 << 19, dtype=np.float32), requires_grad=True)
    g = mg.ones_like(x.detach())
    FUNCTIONS[name](x).backward(g)  # scratch memory is kept from here on
    x.grad = None
    tracemalloc.start()
    try:
        FUNCTIONS[name](x).backward(g)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.25 * x.data.nbytes


def _fill(y, a, b, scale):
    np.multiply(a, scale, out=y)
    y += b


sum_of_two = filled(_fill, arrays=2)


def test_large_arrays_of_one_shape_and_dtype_are_filled():
    a, b = np.ones((2, FEW), np.float32), np.full((2, FEW), 0.5, np.float32)
    y = sum_of_two(a, b, 2)
    assert y.dtype == np.float32 and y.shape == a.shape and (y == 2.5).all()


@pytest.mark.parametrize(
    "a, b",
    [
        (np.ones(FEW - 1), np.ones(FEW - 1)),
        (np.ones(FEW), np.ones(FEW, np.float32)),
        (np.ones(FEW), np.ones((2, FEW))),
        (np.ones((64, FEW)), np.ones((FEW, 64)).T),
        (np.ones(FEW), np.broadcast_to(1.0, (FEW,))),
        (np.ones(FEW, np.float16), np.ones(FEW, np.float16)),
        (np.ones(FEW, int), np.ones(FEW, int)),
        (np.ones(FEW), 1.0),
    ],
)
def test_all_others_are_left_to_the_expression(a, b):
    assert sum_of_two(a, b, 2.0) is None


def test_a_number_that_is_an_array_is_for_the_expression():
    assert sum_of_two(np.ones(FEW), np.ones(FEW), np.ones(FEW)) is None


def test_a_rule_in_place_asks_for_what_its_fill_reads():
    assert argument_names(sum_of_two) == ("a", "b", "scale")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_kept_keeps_its_bits_and_the_rest_is_0(dtype):
    x = np.array([1.5, -0.0, np.inf, np.nan, -np.inf, np.nan], dtype)
    y = np.empty_like(x)
    keep_into(y, x, np.array([True, True, True, True, False, False]))
    assert y.tobytes() == np.array([1.5, -0.0, np.inf, np.nan, 0, 0], dtype).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_place_has_one_of_two_numbers(dtype):
    y = np.empty(4, dtype)
    one_of_two(y, np.array([True, False, False, True]), 1, -0.3)
    assert y.tobytes() == np.array([1, -0.3, -0.3, 1], dtype).tobytes()
