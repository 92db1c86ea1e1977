"""Activations of straight pieces: the compositions that they replace, and their kinks."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.dtypes import bfloat16, finfo

MANY = 1 << 15  # elements that are computed in place
F = mg.nn.functional
COMPOSED = {
    "hardsigmoid": lambda x: mg.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * (mg.clip(x + 3, 0, 6) / 6),
    "leaky_relu": lambda x: mg.where(x > 0, x, 0.01 * x),
    "hardshrink": lambda x: mg.where(abs(x.detach()) > 0.5, x, 0.0),
    "softshrink": lambda x: x - mg.clip(x, -0.5, 0.5),
}
DTYPES = ["float16", "float32", "float64"] + ["bfloat16"] * (bfloat16 is not None)


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


def gradient(f, x, g=None):
    y = f(x)
    return mg.grad(y, x, mg.ones_like(y.detach()) if g is None else g).numpy()


@pytest.mark.parametrize("size", [100, MANY])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COMPOSED)
def test_value_and_gradient_are_those_of_the_composition(name, dtype, size):
    x = leaf((4 * np.random.default_rng(0).standard_normal(size)).astype(dtype))
    g = np.random.default_rng(1).standard_normal(size).astype(dtype)
    tolerance = {"rtol": 4 * np.finfo(dtype).eps, "atol": 4 * np.finfo(dtype).eps}
    ours, composed = getattr(F, name), COMPOSED[name]
    np.testing.assert_allclose(ours(x).numpy(), composed(x).numpy(), **tolerance)
    np.testing.assert_allclose(gradient(ours, x, g), gradient(composed, x, g), **tolerance)


@pytest.mark.parametrize("size", [24, MANY])
@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish", "softshrink"])
def test_not_a_number_goes_through_as_in_the_composition(name, size):
    x = leaf(np.resize([np.nan, np.inf, -np.inf], size))
    with np.errstate(invalid="ignore"):
        ours, composed = getattr(F, name), COMPOSED[name]
        np.testing.assert_array_equal(ours(x).numpy(), composed(x).numpy())
        expected = gradient(composed, x)
        if name == "softshrink":  # a difference, in which the derivatives by a NaN cancel
            expected[np.isnan(x.numpy())] = 1
        np.testing.assert_array_equal(gradient(ours, x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [4, MANY])
def test_hardswish_bends_at_3_and_not_a_bit_before(dtype, size):
    wide = mg.tensor([3.0], dtype=dtype).numpy()
    inside = wide * (1 - finfo(wide.dtype).eps)  # the largest number below 3
    assert inside < wide
    x = leaf(np.resize(np.concatenate([wide, inside, -wide, -inside]), size))
    found = gradient(F.hardswish, x)[:4].astype(float)
    np.testing.assert_allclose(found, [1, 1.5, 0, -0.5], atol=4 * float(finfo(wide.dtype).eps))


@pytest.mark.parametrize("size", [4, MANY])
def test_softshrinks_derivative_at_its_kinks_is_0_as_in_pytorch(size):
    torch = pytest.importorskip("torch")
    data = np.resize(np.array([0.5, -0.5, 0.25, 0.75], np.float32), size)
    t = torch.tensor(data, requires_grad=True)
    torch.nn.functional.softshrink(t).sum().backward()
    found = gradient(F.softshrink, leaf(data))
    np.testing.assert_array_equal(found, t.grad.numpy())
    assert found[:4].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("size", [6, MANY])
@pytest.mark.parametrize(
    "name, slopes",
    [
        ("hardsigmoid", [0, 0, np.inf, np.inf, 0, 0]),
        ("softshrink", [np.inf, np.inf, 0, np.inf, np.inf, np.inf]),
        ("hardshrink", [np.inf, np.inf, 0, np.inf, np.inf, np.inf]),
    ],
)
def test_an_infinite_cotangent_makes_no_nan_where_the_derivative_is_0(name, slopes, size):
    x = leaf(np.resize([-4.0, -3.0, 0.0, 1.0, 3.0, 4.0], size))
    found = gradient(getattr(F, name), x, np.full(size, np.inf))
    assert found[:6].tolist() == slopes


def test_hardswishs_second_derivative_is_a_third_between_its_kinks_and_0_outside():
    x = leaf(np.array([-5.0, -3.0, -1.0, 0.2, 2.0, 3.0, 5.0]))
    first = mg.grad(F.hardswish(x), x, np.ones(7), create_graph=True)
    found = mg.grad(first, x, np.ones(7)).numpy()
    np.testing.assert_allclose(found, [0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0])


@pytest.mark.parametrize("name", COMPOSED)
def test_forward_mode_and_vmap_give_the_same(name):
    f = getattr(F, name)
    x, t = np.random.default_rng(2).standard_normal((2, 3, 5)) * 3
    _, tangent = mg.func.jvp(f, (mg.tensor(x),), (mg.tensor(t),))
    np.testing.assert_allclose(tangent.numpy(), gradient(f, leaf(x)) * t, rtol=1e-14)
    np.testing.assert_array_equal(mg.func.vmap(f)(mg.tensor(x)).numpy(), f(mg.tensor(x)).numpy())


@pytest.mark.parametrize("size", [3, 1 << 16])
def test_hardshrink_keeps_nan(size):
    x = np.full(size, np.nan, np.float32)
    x[0] = 0.2
    y = mg.hardshrink(mg.tensor(x)).numpy()
    assert y[0] == 0 and np.isnan(y[1:]).all()


@pytest.mark.parametrize("lambd", [-1.0, float("nan")])
def test_softshrink_refuses_a_negative_lambd(lambd):
    with pytest.raises(ValueError, match=r"lambd=\S+ must not be negative"):
        mg.softshrink(mg.tensor([1.0]), lambd)


def test_hardtanh_refuses_bounds_in_the_wrong_order():
    with pytest.raises(ValueError, match=r"min_val=1.0 must not be above max_val=-1.0"):
        mg.hardtanh(mg.tensor([1.0]), 1.0, -1.0)


def test_prelu_takes_a_list():
    assert mg.prelu([[1.0, -2.0]], [0.5, 0.25]).tolist() == [[1, -0.5]]


def test_hardswish_of_a_long_double_is_straight_beyond_its_kinks():
    x = mg.tensor([-4, -3, 0, 3, 5], dtype=np.longdouble, requires_grad=True)
    mg.hardswish(x).sum().backward()
    assert x.grad.dtype == np.longdouble and x.grad.tolist() == [0, 0, 0.5, 1, 1]
