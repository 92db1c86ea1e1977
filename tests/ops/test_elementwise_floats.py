"""Mantissas and exponents, powers of short floats in float64; integer functions of NumPy."""

import numpy as np
import pytest

import minigrad as mg

SPECIAL = np.array([0.0, -0.0, 1.0, -3.0, 5e-324, 1e308, np.inf, -np.inf, np.nan, 0.1])


def test_frexp_and_ldexp_are_numpys_also_at_the_ends():
    for ours, theirs in zip(np.frexp(mg.tensor(SPECIAL)), np.frexp(SPECIAL), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
        assert ours.dtype == theirs.dtype
    m, e = mg.frexp(SPECIAL)
    np.testing.assert_array_equal(mg.ldexp(m, e), SPECIAL)


def test_a_number_put_together_again_has_derivative_1():
    x = mg.tensor([3.0, -0.7, 1e-300], requires_grad=True)
    m, e = np.frexp(x)
    y = np.ldexp(m, e)
    y.backward(np.ones(3))
    np.testing.assert_array_equal(x.grad.numpy(), np.ones(3))
    x.grad = None
    m, _ = mg.frexp(x)
    m.backward(np.ones(3))
    np.testing.assert_array_equal(x.grad.numpy(), np.ldexp(1.0, -np.frexp(x.numpy())[1]))


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_integer_functions_are_numpys(name):
    a, b = np.arange(-6, 6), np.arange(12) * 3
    np.testing.assert_array_equal(
        getattr(np, name)(mg.tensor(a), b).numpy(), getattr(np, name)(a, b)
    )


def test_what_counts_bits_or_neighbours_has_no_gradient():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert not mg.spacing(x).requires_grad
    np.testing.assert_array_equal(np.bitwise_count(mg.tensor([7, 8])).numpy(), [3, 1])
    np.testing.assert_array_equal((mg.left_shift(mg.tensor([1]), 3)).numpy(), [8])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_float_power_overflow_where_float64_does(dtype, order):
    high = 0.9 * float(np.finfo(dtype).max)  # its square and its cube are numbers of float64 alone
    a, b = np.array([high], dtype), np.array([3], dtype)
    x, n = mg.tensor(a, requires_grad=True), mg.tensor(b, requires_grad=True)
    g = float(a[0]) ** -3.0
    seen = mg.grad(mg.float_power(x, n) * g, [x, n], create_graph=order == 2)
    expected = [3 / float(a[0]), np.log(float(a[0]))]
    if order == 2:
        seen = [mg.grad(seen[0] * float(a[0]), n)]
        expected = [1 + 3 * np.log(float(a[0]))]
    for got, wanted in zip(seen, expected, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), [wanted], rtol=2e-3)


def test_lerp_of_float16_numbers_of_opposite_signs_is_finite():
    a = mg.tensor([60000.0, -5.0], dtype="float16")
    assert mg.lerp(a, -a, 0.25).tolist() == [30000.0, -2.5]
    assert mg.lerp(a, -a, a[:1] * 0 + 0.25).dtype == np.float16


def test_the_slope_of_arctan2_reaches_to_the_largest_float16():
    a = mg.tensor([60000.0], dtype="float16", requires_grad=True)
    mg.arctan2(a, a.detach()).sum().backward()
    assert a.grad.item() == pytest.approx(1 / 120000, rel=5e-3)


def test_lerp_ends_at_both_ends():
    a, b = np.array([1e20, 1.0, 0.1]), np.array([1.0, 1e20, 0.7])
    for ends in (lambda w: w, lambda w: np.full(3, w)):
        np.testing.assert_array_equal(mg.lerp(a, b, ends(0.0)), a)
        np.testing.assert_array_equal(mg.lerp(a, b, ends(1.0)), b)
    assert mg.lerp(np.uint8([1]), np.uint8([3]), np.uint8([2])).tolist() == [5]  # no wrapping round


def test_the_slope_of_cbrt_at_the_smallest_float16_numbers_is_finite():
    x = mg.tensor(np.array([6e-8, -1.2e-7], np.float16), requires_grad=True)
    slope = mg.grad(np.cbrt(x).sum(), x).numpy()
    exact = np.abs(x.numpy().astype(float)) ** (-2 / 3) / 3
    np.testing.assert_allclose(slope.astype(float), exact, rtol=2e-3)
