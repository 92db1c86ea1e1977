"""The inverse of the truncated normal distribution against mpmath, in the middle and far out."""

import math

import numpy as np
import pytest

from minigrad.backends import truncated_normal
from minigrad.backends.truncated_normal import between

INTERVALS = [
    (-1.0, 2.0), (-math.inf, math.inf), (3.9, 5.0), (4.9, math.inf), (5.0, math.inf), (-8.5, -8.0),
    (40.0, 40.2), (100.0, math.inf), (-1e5, -1e5 + 1e-6), (7.0, 7.0 + 1e-6), (1e8, math.inf),
]  # fmt: skip
SHARES = np.array([1e-9, 0.01, 0.3, 0.5, 0.9, 0.999])


def share_below(z, a, b):
    """(Φ(z) − Φ(a))/(Φ(b) − Φ(a)), of the mirrored interval where a + b > 0; and its slope in z."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        z, a, b = (mpmath.mpf(float(x)) for x in ((-z, -b, -a) if a + b > 0 else (z, a, b)))
        low, high, there = (mpmath.erfc(-x / mpmath.sqrt(2)) / 2 for x in (a, b, z))
        slope = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi) / (high - low)
        return float((there - low) / (high - low)), float(slope)


@pytest.mark.parametrize("a, b", INTERVALS)
def test_each_share_of_an_interval_has_its_number(a, b):
    z, away = between(SHARES, a, b)
    for u, x in zip(SHARES, z, strict=True):
        found, slope = share_below(x, a, b)
        target = u if away is None else 1 - u  # far out they are counted from the nearer bound
        spacing = np.spacing(abs(x)) * slope  # what a rounding of z itself makes of the share
        assert abs(found - target) <= 1e-13 + 2 * spacing


def test_what_python_computes_without_scipy_is_the_same(monkeypatch):
    expected, _ = between(SHARES, -1.5, 2.5)
    monkeypatch.setattr(truncated_normal, "optional", lambda name: None)
    np.testing.assert_allclose(between(SHARES, -1.5, 2.5)[0], expected, rtol=1e-13)
    assert np.isfinite(between(np.array([0.0, 1 - 2.0**-53]), -math.inf, math.inf)[0]).all()


def test_distances_from_a_far_bound_keep_their_digits():
    _, away = between(SHARES, 1e6, math.inf)
    np.testing.assert_allclose(away, -np.log1p(-SHARES) / 1e6, rtol=1e-9)  # an exponential there
