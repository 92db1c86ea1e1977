"""log(1 + t) and eˣ − 1 by parts: as exact as promised, at both ends, and in the ops they serve."""

import math

import mpmath
import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.elementwise import near_one

DOWN = -np.geomspace(1e-38, 100, 200_001)  # from next to 0 to beyond where eˣ matters


def units_off(y: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of float32."""
    return float(np.max(np.abs(y - exact) / np.spacing(np.abs(exact).astype(np.float32))))


def test_the_logarithm_by_parts_is_off_by_4_units_at_most():
    t = np.exp(DOWN[DOWN > -87]).astype(np.float32)
    assert units_off(near_one.log_by_parts(t), np.log1p(t.astype(float))) <= 4


def test_the_exponential_by_tanh_is_off_by_4_units_at_most():
    x = DOWN.astype(np.float32)
    assert units_off(near_one.exp_minus_1_by_tanh(x), np.expm1(x.astype(float))) <= 4


@pytest.mark.parametrize("t", [0.0, 1.0, np.nan])
def test_the_logarithm_at_the_ends_is_numpys(t):
    t = np.float32([t])
    np.testing.assert_array_equal(near_one.log_by_parts(t), np.log1p(t))


@pytest.mark.parametrize("x", [0.0, -0.0, -np.inf, np.nan])
def test_the_exponential_at_the_ends_is_numpys(x):
    x = np.float32([x])
    y = near_one.exp_minus_1_by_tanh(x)
    np.testing.assert_array_equal(y, np.expm1(x))
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


def test_the_argument_stays_as_it_was():
    x = DOWN.astype(np.float32)
    t = np.exp(x)
    before = x.copy(), t.copy()
    near_one.log_by_parts(t), near_one.exp_minus_1_by_tanh(x)
    np.testing.assert_array_equal((x, t), before)


@pytest.mark.parametrize("name", ["softplus", "logsigmoid", "elu", "selu"])
@pytest.mark.parametrize("by_parts", [True, False])
def test_both_ways_give_the_same_function_to_a_few_units(name, by_parts, monkeypatch):
    monkeypatch.setattr(near_one, "LOG1P_BY_ELEMENT", by_parts)
    monkeypatch.setattr(near_one, "EXPM1_BY_ELEMENT", by_parts)
    x = np.linspace(-30, 30, 10_001)
    y = getattr(mg, name)(mg.tensor(x.astype(np.float32))).numpy()
    np.testing.assert_allclose(y, getattr(mg, name)(mg.tensor(x)).numpy(), rtol=2e-6)


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e-6, 0.3])
def test_log1p_of_a_small_complex_number_has_all_digits_of_both_parts(size):
    z = size * np.array([1 + 1j, -1 + 2j, 0.5 - 3j, -1e-4 - 1j])
    with mpmath.workdps(40):
        expected = np.array([complex(mpmath.log1p(mpmath.mpc(x))) for x in z])
    y = mg.log1p(mg.tensor(z)).numpy()
    np.testing.assert_allclose(y.real, expected.real, rtol=1e-14)
    np.testing.assert_allclose(y.imag, expected.imag, rtol=1e-14)


@pytest.mark.parametrize("z", [-2 + 0j, complex(-2, -0.0), complex(0, -0.0), 3 - 4j, math.inf + 1j])
def test_log1p_of_other_complex_numbers_is_numpys(z):
    y, expected = mg.log1p(mg.tensor(z)).item(), np.log1p(np.array(z))
    assert y == expected
    assert math.copysign(1, y.imag) == math.copysign(1, expected.imag)


@pytest.mark.parametrize("x", [-40 + 1j, -20 + 2j])
def test_the_tail_of_a_complex_softplus_has_its_digits(x):
    assert mg.softplus(mg.tensor(x)).item() == pytest.approx(np.exp(x), rel=1e-8)
    assert mg.logsigmoid(mg.tensor(-x)).item() == pytest.approx(-np.exp(x), rel=1e-8)
