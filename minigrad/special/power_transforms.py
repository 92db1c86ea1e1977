"""Powers near 1 and their inverses: Box and Cox's transform, cos x − 1, xᵖ − 1, 10ˣ.

G. Box and D. Cox (1964) make (xᵖ − 1)/p of data, log x at p = 0. The derivatives in p are quotients
of differences that vanish at p = 0, too; hypergeometric series are used instead.
"""

import math
from typing import Any

import numpy as np

from ..engine.primitive import elementwise
from ..ops.axes import widen
from ..ops.elementwise.powers import power_da, power_db
from ..ops.elementwise.support import in_float32, of_several, special_function, with_fractions
from .hypergeometric import hypergeometric

__all__: list[str] = []  # the names are those of mg.special


def _boxcox_dp(log: Any, x: Any, end: int, p: Any) -> Any:
    """l² ((t − 1) eᵗ + 1)/t², l = log(x), t = p l: the derivative of (eᵗ − 1)/t is the quotient.

    At the end of x, where l is −∞, that is 1/p² for p > 0, else ∞; at x = ∞ for p < 0, else ∞.
    """
    far = x == np.inf
    at = (x == end) | far
    log = log(np.where(at, end + 1, with_fractions(widen(x))))
    inside = 0.5 * np.square(log) * hypergeometric(widen(p * log), above=(2.0,), below=(3.0,))
    falls = at & np.where(far, p < 0, p > 0)
    at_end = np.where(falls, 1 / np.square(np.where(falls, p, 1)), np.inf)
    return np.where(at, at_end, inside)


boxcox = elementwise(
    lambda x, p: of_several("boxcox", x, p),
    name="boxcox",
    dx=lambda x, p: np.power(x, with_fractions(p) - 1),
    dp=lambda x, p: _boxcox_dp(np.log, x, 0, p),
    doc="y = (xᵖ − 1)/p, log x at p = 0, x ≥ 0 ;  ∂y/∂x = xᵖ⁻¹, ∂y/∂p = (xᵖ log x − y)/p",
)


def _boxcox1p_dx(x: Any, p: Any) -> Any:
    """(1 + x)ᵖ⁻¹, by way of log(1 + x) where 1 + x would lose digits of x"""
    x, p = widen(x), with_fractions(p) - 1
    near = np.abs(x) < 0.5
    by_log = np.exp(p * np.log1p(np.where(near, x, 0)))
    return np.where(near, by_log, np.power(1 + np.where(near, 0, x), p))


boxcox1p = elementwise(
    lambda x, p: of_several("boxcox1p", x, p),
    name="boxcox1p",
    dx=_boxcox1p_dx,
    dp=lambda x, p: _boxcox_dp(np.log1p, x, -1, p),
    doc="y = ((1 + x)ᵖ − 1)/p, log(1 + x) at p = 0, x ≥ −1 ;  ∂y/∂x = (1 + x)ᵖ⁻¹",
)


def _inv_boxcox_dp(x: Any, p: Any) -> Any:
    """y d/dp log(1 + px)/p = y (t/(1 + t) − log(1 + t))/p², t = px; near 0, where that cancels,
    y x² times a series in t. No square is formed, it could overflow. At t = −1 it is the limit.
    """
    x, p = with_fractions(widen(x)), widen(p)
    t, y = x * p, inv_boxcox(x, p)
    end = t == -1
    near = np.abs(t) < 0.5
    u, v, q = np.where(near, x, 0), np.where(near | end, 1, t), np.where(near, 1, p)
    series = hypergeometric(np.where(near, -t, 0), above=(2.0, 2.0), below=(3.0,))
    # t may be infinite where y is an ordinary number, the power being a small one
    beyond = t == np.inf
    size = np.log(np.where(beyond, np.abs(x), 1)) + np.log(np.where(beyond, np.abs(p), 1))
    logs = np.where(beyond, size, np.log1p(np.where(beyond, 1, v)))
    far = (1 / (1 + 1 / v) - logs) / q * y / q
    far = np.where(end, -_at_end(end, p) / q / q, far)
    return np.where(near, -0.5 * series * (u * (u * y)), far)


def _inv_boxcox_dx(x: Any, p: Any) -> Any:
    """(1 + px)^(1/p − 1)"""
    x = with_fractions(widen(x))
    t = x * p
    end = t == -1
    return np.where(end, _at_end(end, p), inv_boxcox(x, p) / np.where(end, 1, 1 + t))


def _at_end(end: Any, p: Any) -> Any:
    """(1 + px)^(1/p − 1) where px = −1."""
    return np.power(0.0, 1 / np.where(end, p, 1) - 1)


inv_boxcox = elementwise(
    lambda x, p: of_several("inv_boxcox", x, p),
    name="inv_boxcox",
    dx=_inv_boxcox_dx,
    dp=_inv_boxcox_dp,
    doc="y = (1 + px)^1/p, eˣ at p = 0, px ≥ −1: boxcox(y, p) = x ;  ∂y/∂x = y/(1 + px)",
)
inv_boxcox1p = elementwise(
    lambda x, p: of_several("inv_boxcox1p", x, p),
    name="inv_boxcox1p",
    dx=_inv_boxcox_dx,
    dp=_inv_boxcox_dp,
    doc="y = (1 + px)^1/p − 1: boxcox1p(y, p) = x ;  ∂y/∂x = (1 + y)/(1 + px)",
)

# -- differences from 1 ----------------------------------------------------------------------

cosm1 = elementwise(
    in_float32(special_function("cosm1")),
    dx=lambda x: -np.sin(x),
    doc="y = cos x − 1, accurate near 0 ;  dy/dx = −sin x",
)


powm1 = elementwise(
    lambda x, p: of_several("powm1", x, p),
    name="powm1",
    dx=lambda g, x, p: power_da(g, with_fractions(x), with_fractions(p)),
    # by xᵖ: 1 + y would lose the digits of a small one
    dp=lambda g, x, p: power_db(g, np.power(widen(x), widen(p)), widen(x), widen(p)),
    doc="y = xᵖ − 1, accurate near x = 1 and p = 0 ;  ∂y/∂x = p xᵖ⁻¹, ∂y/∂p = xᵖ log x, as of pow",
)
exp10 = elementwise(
    in_float32(special_function("exp10")),
    dx=lambda y: y * math.log(10),
    doc="y = 10ˣ ;  dy/dx = y log 10",
)
