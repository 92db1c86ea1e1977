"""erf x of many float32 numbers, which is not SciPy's."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import normal

MANY = 1 << 15  # elements that the rule of erf computes in place


def test_erf_of_float32_is_within_four_units_in_the_last_place():
    exact = pytest.importorskip("scipy.special").erf
    small = np.logspace(-40, 0, 50_000)
    x = np.concatenate([np.linspace(-5, 5, 1_000_001), small, -small]).astype(np.float32)
    assert normal.takes(x)
    expected = exact(x.astype(float))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = mg.erf(mg.tensor(x)).numpy()
    assert y.dtype == np.float32
    assert (np.abs(y - expected) <= 4 * unit).all()


def test_erf_is_odd_never_beyond_1_and_1_at_its_ends():
    x = np.linspace(3, 6, 1 << 16, dtype=np.float32)
    y = normal.erf(x)
    assert y.max() == 1
    np.testing.assert_array_equal(normal.erf(-x), -y)
    ends = np.resize(np.array([np.inf, 3e38, 4.5, np.nan, 0.0, -0.0, 1e-45], np.float32), 7000)
    found = normal.erf(ends)[:7]
    np.testing.assert_array_equal(found, np.array([1, 1, 1, np.nan, 0, 0, 1e-45], np.float32))
    assert np.signbit(found[4:6]).tolist() == [False, True]


@pytest.mark.parametrize("name, sign", [("erf", 1), ("erfc", -1)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_gradient_of_many_is_the_bell_curve(name, sign, dtype):
    x = mg.tensor(np.linspace(-4, 4, MANY).astype(dtype), requires_grad=True)
    g = mg.grad(getattr(mg, name)(x).sum(), x).numpy()
    expected = sign * 2 / np.sqrt(np.pi) * np.exp(-(x.detach().numpy().astype(float) ** 2))
    eps = np.finfo(dtype).eps
    assert g.dtype == dtype
    np.testing.assert_allclose(g, expected, rtol=0, atol=4 * eps)
