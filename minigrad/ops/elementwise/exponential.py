"""Exponentials and logarithms. The rows hold for real and complex numbers alike."""

import math
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import common_dtype, is_differentiable
from ...engine.primitive import elementwise
from ...engine.registry import op
from .near_one import complex_log_of_1_plus
from .support import are_finite, by_other_means, recorded, with_fractions

__all__ = [
    "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "xlog1py", "xlogy",
]  # fmt: skip

LN2 = math.log(2)
LN10 = math.log(10)

exp = elementwise(np.exp, dx=lambda y: y, doc="y = eˣ ;  dy/dx = y")


def _exp2_by_halves(x: Any) -> Any:
    half = np.exp2(0.5 * x)
    with np.errstate(over="ignore"):  # the value was infinite already
        return half * LN2 * half


def _exp2_dx(x: Any, y: Any) -> Any:
    """y log 2, and where y is infinite, which this may not be, by 2^x/2."""
    if type(y) is not np.ndarray and recorded(x, y):
        endless = y == np.inf
        return op.where(endless, _exp2_by_halves(op.where(endless, x, 0)), y * LN2)
    if not isinstance(y, np.ndarray) or y.dtype.char not in "efd":
        return _exp2_by_halves(x)
    slope = y * LN2
    if not y.size or slope.item(slope.argmax()) < np.inf:
        return slope
    return by_other_means(slope == np.inf, slope, _exp2_by_halves, x)


exp2 = elementwise(
    np.exp2, dx=_exp2_dx, doc="y = 2ˣ ;  dy/dx = y log 2, finite a little beyond the largest y"
)
# y + 1 would lose all digits of a small derivative: expm1(−50) + 1 is 0
expm1 = elementwise(np.expm1, dx=lambda x: np.exp(x), doc="y = eˣ − 1 ;  dy/dx = eˣ")

log = elementwise(np.log, dx=lambda g, x: g / x, doc="y = log x ;  dy/dx = 1/x")
log2 = elementwise(np.log2, dx=lambda g, x: g / (x * LN2), doc="y = log₂ x ;  dy/dx = 1/(x log 2)")
log10 = elementwise(
    np.log10,
    dx=lambda g, x: g / LN10 / x,  # x log 10 may overflow
    doc="y = log₁₀ x ;  dy/dx = 1/(x log 10)",
)


def _log1p(x: Any) -> Any:
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return complex_log_of_1_plus(x) if x.dtype.kind == "c" else np.log1p(x)


log1p = elementwise(
    _log1p, name="log1p", numpy=np.log1p,
    dx=lambda g, x: g / (1 + x), doc="y = log(1 + x) ;  dy/dx = 1/(1 + x)",
)  # fmt: skip


def _ahead(a: Any, b: Any, y: Any) -> Any:
    """a − b, of which σ is a's share of the sum eᵃ + eᵇ; −∞ where both are −∞, 0 where both +∞."""
    if are_finite(y):
        return a - b
    both = np.logical_and(a == np.inf, b == np.inf)
    return np.where(both, 0, a) - np.where(np.logical_or(both, y == -np.inf), 0, b)


logaddexp = elementwise(
    np.logaddexp,
    da=lambda a, b, y: op.sigmoid(_ahead(a, b, y)),
    db=lambda a, b, y: op.sigmoid(_ahead(b, a, y)),
    doc="""y = log(eᵃ + eᵇ) ;  ∂y/∂a = σ(a − b), ∂y/∂b = σ(b − a)

    Two arguments of −∞ give −∞ with gradient 0, two of +∞ share alike.
    """,
)


logaddexp2 = elementwise(
    np.logaddexp2,
    da=lambda a, b, y: op.sigmoid(_ahead(a, b, y) * LN2),
    db=lambda a, b, y: op.sigmoid(_ahead(b, a, y) * LN2),
    doc="y = log₂(2ᵃ + 2ᵇ) ;  ∂y/∂a = 2ᵃ/(2ᵃ + 2ᵇ), likewise b; two −∞ give −∞, gradient 0",
)


def product_with_log(a: Any, b: Any, logarithm: Any, one: int) -> Any:
    """a · logarithm(b), 0 where a = 0 unless b is NaN; `one` is where the logarithm is 0."""
    if not hasattr(b, "dtype"):  # np.where does not take a Python number as weak
        b = array_module(a).asarray(b, common_dtype(a, b))
    zero = (a == 0) & ~np.isnan(b)
    with np.errstate(divide="ignore", invalid="ignore"):  # as scipy.special: −∞ and NaN say it
        # the new array on the left: see _power_da in arithmetic.py
        y = np.where(zero, 0, logarithm(np.where(zero, one, with_fractions(b))) * a)
    dtype = common_dtype(*[x.dtype for x in (a, b) if hasattr(x, "dtype")])
    return y.astype(dtype, copy=False) if is_differentiable(dtype) else y  # log of ints: floats


def _origin(a: Any, b: Any, singular: float) -> Any:
    """Where both a = 0 and b sits at (or beyond) the logarithm's singular point."""
    return np.logical_and(a == 0, b <= singular)


xlogy = elementwise(
    lambda a, b: product_with_log(a, b, np.log, 1),
    name="xlogy",
    da=lambda a, b: np.log(np.where(_origin(a, b, 0), 1, with_fractions(b))),
    db=lambda a, b: a / np.where(_origin(a, b, 0), 1, b),
    doc="""y = a log b, 0 where a = 0 ;  ∂y/∂a = log b, ∂y/∂b = a/b

    At a = 0, b ≤ 0 both partials are 0.
    """,
)
xlog1py = elementwise(
    lambda a, b: product_with_log(a, b, np.log1p, 0),
    name="xlog1py",
    da=lambda a, b: np.log1p(np.where(_origin(a, b, -1), 0, with_fractions(b))),
    db=lambda a, b: a / (1 + np.where(_origin(a, b, -1), 0, b)),
    doc="""y = a log(1 + b), 0 where a = 0 ;  ∂y/∂a = log(1 + b), ∂y/∂b = a/(1 + b)

    At a = 0, b ≤ −1 both partials are 0.
    """,
)
