"""Trigonometric and hyperbolic functions, sinc and hypot: awkward points, dtypes, digits."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


def test_hypot_and_arctan2_have_gradient_zero_at_the_origin():
    for f in (mg.hypot, mg.arctan2):
        a, b = leaf(0.0), leaf(0.0)
        assert [g.item() for g in mg.grad(f(a, b), [a, b])] == [0, 0]


def test_arctan2_neither_overflows_nor_vanishes():
    for size in (1e200, 1e-200):
        a, b = leaf(size), leaf(size)
        ga, gb = mg.grad(mg.arctan2(a, b), [a, b])
        assert ga.item() == pytest.approx(0.5 / size)
        assert gb.item() == pytest.approx(-0.5 / size)


def test_sinc_has_all_its_derivatives_at_zero():
    x = leaf(0.0)
    derivatives = [mg.sinc(x)]
    for _ in range(4):
        derivatives.append(mg.grad(derivatives[-1], x, create_graph=True))
    expected = [1, 0, -(math.pi**2) / 3, 0, math.pi**4 / 5]
    np.testing.assert_allclose([d.item() for d in derivatives], expected, rtol=1e-14)


@pytest.mark.parametrize("x", [1e6 + 0.5, 123456.7, -(2.0**40) - 0.25, 1e15 + 0.5])
def test_sinc_of_a_large_number_keeps_all_its_digits_and_so_do_its_derivatives(x):
    mpmath = pytest.importorskip("mpmath")
    t = leaf(x)
    y = mg.sinc(t)
    first = mg.grad(y, t, create_graph=True)
    second = mg.grad(first, t)
    for order, found in enumerate((y, first, second)):
        with mpmath.workdps(60):
            exact = float(mpmath.diff(mpmath.sincpi, mpmath.mpf(x), order))
        assert found.item() == pytest.approx(exact, rel=2e-15)


def test_sinc_is_zero_at_every_whole_number_but_zero():
    x = np.array([-3.0, -1.0, 0.0, 2.0, 1e16, 1.7e308])
    np.testing.assert_array_equal(mg.sinc(x), [0, 0, 1, 0, 0, 0])


def test_sinc_agrees_with_numpy_where_numpy_loses_no_digits():
    x = np.linspace(-0.9, 0.9, 101)
    np.testing.assert_allclose(mg.sinc(x), np.sinc(x), rtol=2e-15)


def test_sinc_has_the_same_derivatives_on_both_sides_of_the_switch_of_formulas():
    mpmath = pytest.importorskip("mpmath")
    for order in (1, 2, 3):
        for x in (0.02, 0.4, (2 + order) / math.pi - 1e-9, (2 + order) / math.pi + 1e-9, 3.3):
            y = op.sinc_derivative(np.array(x), order=order)
            exact = mpmath.diff(lambda x: mpmath.sincpi(x), x, order)
            assert y == pytest.approx(float(exact), abs=2e-13)


@pytest.mark.parametrize("f", [np.deg2rad, np.rad2deg])
def test_degrees_have_numpys_dtypes_and_no_complex_ones(f):
    for dtype in (np.int8, np.uint8, np.int16, np.int64, np.float16):
        x = np.array([3, 90], dtype)
        y = f(mg.tensor(x))
        assert y.dtype == f(x).dtype and np.array_equal(y, f(x))
    with pytest.raises(TypeError, match=r"(deg2rad|rad2deg)\(x: complex128"):
        f(mg.tensor([1j]))


@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "q", "e", "f", "d"])
def test_sinc_has_numpys_dtype(dtype):
    x = np.array([0, 1, 1], dtype)
    y = mg.sinc(mg.tensor(x))
    assert y.dtype == np.sinc(x).dtype
    np.testing.assert_allclose(y.numpy(), [1, 0, 0])


def test_slopes_of_arctan_and_arcsinh_are_not_0_where_a_float16_square_overflows():
    x = mg.tensor([300.0, -6000.0], dtype=mg.float16, requires_grad=True)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(mg.grad(np.arcsinh(x).sum(), x), [1 / 300, 1 / 6000], rtol=1e-3)
        np.testing.assert_allclose(mg.grad(np.arctan(x).sum(), x)[0], 300.0**-2, rtol=1e-2)


@pytest.mark.parametrize("a", [np.inf, -np.inf, 1.0, 0.0])
@pytest.mark.parametrize("b", [np.inf, -np.inf])
def test_arctan2_has_gradient_zero_at_infinity_as_its_limit_is(a, b):
    for x, y in ((a, b), (b, a)):
        p, q = (mg.tensor(v, requires_grad=True) for v in (x, y))
        mg.arctan2(p, q).backward()
        assert p.grad.item() == q.grad.item() == 0
