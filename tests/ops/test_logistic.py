"""σ(x), x σ(x) and their derivatives in few passes: the functions that they are, at every x."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import logistic

MARGIN = {"f": 110, "d": 750}  # beyond, all four are 0 or linear
UNITS = 1 << 15


def exact(name, x):
    """In the widest float that NumPy has, which overflows nowhere here."""
    x = x.astype(np.longdouble)
    s, below = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    return {
        "sigmoid": s,
        "sigmoid_derivative": s * below,
        "silu": x * s,
        "silu_derivative": s * (1 + x * below),
    }[name]


NAMES = ["sigmoid", "sigmoid_derivative", "silu", "silu_derivative"]
wide_enough = pytest.mark.skipif(
    np.finfo(np.longdouble).maxexp <= np.finfo(float).maxexp, reason="no float wider than float64"
)


@wide_enough
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", NAMES)
def test_each_is_within_four_roundings_of_its_terms_and_warns_of_nothing(name, dtype):
    x = np.linspace(-MARGIN[dtype], MARGIN[dtype], UNITS).astype(dtype)
    assert logistic.takes(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = getattr(logistic, name)(x)
    found = np.finfo(dtype)
    # what is subnormal has a rounding of its own, |x| times in what multiplies it by x
    atol = (1 + MARGIN[dtype]) * found.smallest_subnormal
    scale = exact(name.replace("silu_derivative", "sigmoid"), x) * np.maximum(1, abs(x))
    scale = abs(exact(name, x)) if name != "silu_derivative" else scale
    assert (abs(y - exact(name, x)) <= 4 * found.eps * scale + atol).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_entry_depends_on_the_others(name):
    near, far = np.linspace(-5, 5, UNITS), np.linspace(-900, -600, UNITS)
    both = getattr(logistic, name)(np.concatenate([near, far]))
    np.testing.assert_array_equal(both[:UNITS], getattr(logistic, name)(near))
    np.testing.assert_array_equal(both[UNITS:], getattr(logistic, name)(far))


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_infinities_and_nan(dtype):
    x = np.resize(np.array([np.inf, -np.inf, np.nan, 0.0], dtype), UNITS)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(logistic.sigmoid(x)[:4], [1, 0, np.nan, 0.5])
        np.testing.assert_array_equal(logistic.sigmoid_derivative(x)[:4], [0, 0, np.nan, 0.25])
        np.testing.assert_array_equal(logistic.silu(x)[:4], [np.inf, np.nan, np.nan, 0])


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
def test_small_and_large_arrays_agree_to_rounding(name):
    x = np.linspace(-30, 30, UNITS)
    whole = getattr(mg, name)(x) if name == "sigmoid" else mg.nn.functional.silu(mg.tensor(x))
    few = mg.tensor(x[::97].copy())
    parts = mg.sigmoid(few) if name == "sigmoid" else mg.nn.functional.silu(few)
    np.testing.assert_allclose(np.asarray(whole)[::97], parts.numpy(), rtol=1e-15)
