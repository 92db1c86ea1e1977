"""Standard normal numbers between two bounds, by the inverse of the distribution function.

A number u, uniform on (0, 1), becomes the z with Φ(z) = Φ(a) + u (Φ(b) − Φ(a)). An interval that is
mostly above 0 is first mirrored: small probabilities keep their digits, those near 1 do not. Beyond
FAR deviations z is found from the logarithm of the tail Q(t) = Φ(−t) = φ(t)/h(t):

    −log (Q(t₀ + d)/Q(t₀)) = d (t₀ + d/2) + log (h(t₀ + d)/h(t₀)) = w

It is convex in d with the slope h(t₀ + d), the hazard rate: Newton's steps converge. Φ itself may
be 0 there, and the width of the interval far below the spacing of log Q.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from .optional import optional

FAR = 5.0
_TERMS = 60  # of Laplace's fraction, enough for all digits of float64 from FAR on
_STEPS = 4  # of Newton's method; the last one changes nothing


def between(u: Any, a: float, b: float) -> Any:
    """(z, d): the numbers for u in [0, 1), and z − a, or b − z if b is nearer to 0.

    a < b, either may be infinite. d has all of its digits, even if the interval is narrow and far
    from 0. It is None if the interval comes nearer to 0 than FAR.
    """
    if a + b > 0:
        z, d = between(u, -b, -a)
        return -z, d
    if -b >= FAR:
        d = _beyond(u, -b, -a)
        return b - d, d
    low, high = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (a, b))
    p = low + np.maximum(u, 2.0**-54) * (high - low)  # u = 0 would return an infinite a
    return np.clip(_quantile(p), a, b), None


def _quantile(p: Any) -> Any:
    """Φ⁻¹(p) by SciPy, or without it by Python, which takes ten times as long."""
    special = optional("scipy.special")
    if special is not None:
        return special.ndtri(p)
    last = np.nextafter(1.0, 0.0)
    quantile = NormalDist().inv_cdf
    found = [quantile(x) for x in np.clip(p, 5e-324, last).reshape(-1).tolist()]
    return np.reshape(np.array(found, np.float64), np.shape(p))


def _hazard(t: Any) -> Any:
    """h(t) = φ(t)/Φ(−t) = t + 1/(t + 2/(t + 3/(t + …))), for t ≥ FAR."""
    h = t + 0.0
    for k in range(_TERMS, 0, -1):
        h = t + k / h
    return h


def _beyond(u: Any, near: float, far: float) -> Any:
    """d for numbers near + d of the tail between `near` ≥ FAR and `far`."""
    h = _hazard(near)
    rest = 1.0  # the share of the tail beyond `near` that is before `far`
    if far < math.inf:
        width = far - near
        rest = -math.expm1(-width * (near + width / 2) - math.log(_hazard(far) / h))
    w = -np.log1p(-u * rest)
    d = 2 * w / (near + np.hypot(near, np.sqrt(2 * w)))
    for _ in range(_STEPS):
        there = _hazard(near + d)
        d = d - (d * (near + d / 2) + np.log1p((there - h) / h) - w) / there
    return np.clip(d, 0, far - near)
