"""Fitting polynomials: what np.polyfit gives beside the coefficients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

X = np.array([-1.0, 0.5, 1.0, 2.0, 3.5])
Y = np.array([1.0, 0.0, 2.0, 3.0, 1.0])
W = np.array([1.0, 2.0, 0.5, 1.0, 1.5])


@pytest.mark.parametrize("y", [Y, np.stack([Y, Y**2], axis=1)], ids=["one", "two at once"])
@pytest.mark.parametrize("w", [None, W], ids=["", "weighted"])
@pytest.mark.parametrize("cov", [True, "unscaled"])
def test_the_covariance_of_fitted_coefficients_is_numpys(y, w, cov):
    found, expected = (np.polyfit(v, y, 2, w=w, cov=cov) for v in (mg.tensor(X), X))
    for part, theirs in zip(found, expected, strict=True):
        assert part.shape == theirs.shape
        np.testing.assert_allclose(part.numpy(), theirs, rtol=1e-9)


@pytest.mark.parametrize("cov", [True, "unscaled"])
def test_the_covariance_of_fitted_coefficients_is_differentiable(cov):
    assert gradcheck(lambda x, y, w: mg.polyfit(x, y, 1, w=w, cov=cov)[1], (X, Y, W))


def test_a_full_fit_says_what_numpys_does():
    found, expected = (np.polyfit(v, Y, 2, full=True) for v in (mg.tensor(X), X))
    for part, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(part), theirs, rtol=1e-9)


def test_as_many_coefficients_as_values_leave_no_variance_to_estimate():
    with pytest.raises(ValueError, match=r"polyfit: cov=True .* 5 coefficients leave of 5 values"):
        mg.polyfit(mg.tensor(X), Y, 4, cov=True)


def test_polyfit_takes_its_arguments_in_numpys_order():
    p = mg.polyfit(mg.tensor(X), Y, 1, None, False, W)
    np.testing.assert_allclose(p.numpy(), np.polyfit(X, Y, 1, None, False, W))


def test_the_derivative_of_small_integers_has_room_for_the_powers():
    p = np.array([200, 100, 1], np.uint8)
    y, expected = mg.polyder(mg.tensor(p)), np.polyder(p)
    assert y.tolist() == expected.tolist() == [400, 100] and y.dtype == expected.dtype


def test_the_remainder_of_a_shorter_polynomial_is_a_copy_of_it():
    u = mg.tensor([1.0, 2.0])
    _, remainder = mg.polydiv(u, mg.tensor([1.0, 2.0, 3.0]))
    remainder[...] = 0.0
    assert u.tolist() == [1, 2]


def test_a_complex_constant_makes_a_complex_integral():
    y = mg.polyint(mg.tensor([1.0, 2.0]), 2, k=[1j, 3.0])
    np.testing.assert_allclose(y.numpy(), np.polyint([1.0, 2.0], 2, k=[1j, 3.0]), rtol=1e-15)


@pytest.mark.parametrize("m", [2, 3, 4, 10**9])
def test_a_derivative_of_any_order_ends_as_soon_as_nothing_is_left(m):
    p = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(mg.polyder(p, m), np.polyder(p, min(m, 9)))
    np.testing.assert_array_equal(mg.diff(p, m), np.diff(p, min(m, 9)))
    with pytest.raises(ValueError, match="order m is at most"):
        mg.polyint(p, 10**9)
