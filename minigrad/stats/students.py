"""Student's t distribution in mg.stats.

The more degrees of freedom ν, the closer it is to the normal distribution, which is that of ν = ∞.
From 10⁶ on its shares are taken from there, by the expansion in 1/ν: the incomplete beta function,
from which they come below, has only the digits there that 1 + z/√ν has left, and no slope in ν.
Abramowitz and Stegun, 1964, 26.7.5, and its inverse.
"""

import math
from typing import Any

import numpy as np

from .. import special
from ..backends.dtypes import finfo
from ..engine.registry import op
from .base import HALF_LOG_2PI, Continuous, inside_of, quantile, standard

_LARGE = 1e6
_REMOTE = 50.0  # shares beyond so many deviations are 0 in float64, of large ν


def _sides(z: Any, df: Any) -> tuple:
    """Whether |z| > √ν, then z/√ν where it is not, √ν/|z| and its logarithm where it is: none
    overflows. Elsewhere they are 0, 1 and 0."""
    root, size = op.sqrt(df), op.abs(z)
    far = size > root
    size = op.where(far, size, 1.0)
    v = op.where(far, root / size, 1.0)
    log_v = op.where(far, 0.5 * op.log(df) - op.log(size), 0.0)
    return far, op.where(far, 0.0, z) / root, v, log_v


class _T(Continuous):
    """Student's t distribution with df degrees of freedom."""

    def logpdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−log B(ν/2, ½) − log(ν)/2 − (ν+1)/2 log(1 + z²/ν) − log scale"""
        z, df, scale = standard(x, loc, scale, df)
        is_normal = df == np.inf
        df = op.where(is_normal, 1.0, df)

        def log_density(z: Any) -> Any:
            far, near, v, log_v = _sides(z, df)
            log = op.where(far, op.log1p(op.square(v)) - 2 * log_v, op.log1p(op.square(near)))
            y = -special.betaln(df / 2, 0.5) - 0.5 * op.log(df) - (df + 1) / 2 * log
            return op.where(is_normal, -0.5 * op.square(z) - HALF_LOG_2PI, y)

        return inside_of(op.logical_not(op.isinf(z)), z, log_density) - op.log(scale)

    def cdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """By the incomplete beta function; for ν ≥ 10⁶ by the normal distribution."""
        z, df, _ = standard(x, loc, scale, df)
        nearly_normal, large, df = _by_size(df)
        score = op.where(nearly_normal, op.clip(z, -_REMOTE, _REMOTE), 0.0)
        by_normal = special.ndtr(_normal_score(score, large))
        infinite, above = op.isinf(z), z > 0
        far, near, v, log_v = _sides(op.where(infinite, 0.0, z), df)
        remote = v < finfo(v.dtype).eps ** 0.5
        # w = z/√(ν + z²) has the symmetric beta distribution on (−1, 1): smooth through z = 0, but
        # with no digit of a small probability; in the tails ν/(ν + z²) has the beta distribution,
        # of which far out only the power is left
        w = near / op.sqrt(1 + op.square(near))
        middle = special.betainc(df / 2, df / 2, (w + 1) / 2)
        x = op.square(op.where(remote, 1.0, v))
        tail = 0.5 * special.betainc(df / 2, 0.5, x / (1 + x))
        power = op.exp(df * log_v - op.log(df) - special.betaln(df / 2, 0.5))
        tail = op.where(infinite, 0.0, op.where(remote, power, tail))
        y = op.where(far | infinite, op.where(above, 1 - tail, tail), middle)
        return op.where(nearly_normal, by_normal, y)

    def sf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """cdf(−z), accurate far above 0"""
        z, df, _ = standard(x, loc, scale, df)
        return self.cdf(-z, df)

    def ppf(self, q: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """By the inverse of the incomplete beta function."""
        return quantile(_t_quantile, q, loc, scale, df)

    def isf(self, q: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−ppf(q), accurate for small q"""
        return quantile(lambda q, df: -_t_quantile(q, df), q, loc, scale, df)


def _t_quantile(q: Any, df: Any) -> Any:
    """Of the smaller share: B = (1 + z/√(ν + z²))/2, which has the beta distribution, is then the
    smaller half, with all its digits; far out, where it may underflow, z is a power of q."""
    nearly_normal, large, df = _by_size(df)
    above = q > 0.5
    q = op.where(above, 1 - q, q)
    none = q == 0
    end = op.log(op.where(none, q, 1.0))  # −∞ for any ν, with the slope ∞ in q
    q = op.where(none, 0.5, q)
    by_normal = _quantile_of_score(special.ndtri(op.where(nearly_normal, q, 0.5)), large)
    # u = z/√ν = −(q ν B(ν/2, ½))^(−1/ν) (1 + O(1/u²))
    log_size = -(op.log(q) + op.log(df) + special.betaln(df / 2, 0.5)) / df
    remote = log_size > -0.5 * math.log(finfo(q.dtype).eps)
    half = special.betaincinv(df / 2, df / 2, op.where(remote, 0.5, q))
    u = (half - 0.5) / op.sqrt(half * (1 - half))
    u = op.where(remote, -op.exp(op.where(remote, log_size, 0.0)), u)
    z = op.where(none, end, op.where(nearly_normal, by_normal, u * op.sqrt(df)))
    return op.where(above, -z, z)


def _by_size(df: Any) -> tuple:
    """Whether ν is large, then ν where it is, and where it is not; elsewhere they are harmless."""
    limit = min(_LARGE, float(finfo(df.dtype).max))
    is_large = df >= limit
    return is_large, op.where(is_large, df, limit), op.where(is_large, 1.0, df)


def _normal_score(z: Any, df: Any) -> Any:
    """w with Φ(w) = cdf(z), |z| ≤ 50: z − (z³ + z)/4ν + (13z⁵ + 8z³ + 3z)/96ν² − …"""
    s, r = op.square(z), 1 / df
    first, second = -(s + 1) / 4, ((13 * s + 8) * s + 3) / 96
    third = -(((35 * s + 19) * s + 1) * s - 15) / 384
    return z + z * r * (first + r * (second + r * third))


def _quantile_of_score(w: Any, df: Any) -> Any:
    """z with cdf(z) = Φ(w): w + (w³ + w)/4ν + (5w⁵ + 16w³ + 3w)/96ν² + …"""
    s, r = op.square(w), 1 / df
    first, second = (s + 1) / 4, ((5 * s + 16) * s + 3) / 96
    third = (((3 * s + 19) * s + 17) * s - 15) / 384
    return w + w * r * (first + r * (second + r * third))


t = _T()
