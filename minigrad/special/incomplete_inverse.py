"""Quantiles of the gamma and beta distributions: the inverses of incomplete.py, by SciPy's names.

By the implicit function theorem: where P(a, x) = q, dx/dq = 1/p and dx/da = −∂P/∂a / p with the
density p = ∂P/∂x; at an end of the support, where p may be 0, ∂P/∂a is too, and y does not move.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine.primitive import elementwise
from ..engine.registry import op
from ..ops.axes import widen
from ..ops.elementwise.selection import keep, zero_wins
from ..ops.elementwise.special import lgamma
from ..ops.elementwise.support import at_least, of_beta, of_several, with_fractions
from .incomplete import betainc_derivative, gammainc_derivative
from .probability import betaln

__all__: list[str] = []  # the names are those of mg.special


def _gamma_spread(a: Any, y: Any) -> Any:
    """1/p = Γ(a) y¹⁻ᵃ eʸ, its exponent, a difference of large numbers, in float64"""
    dtype = widen(y).dtype
    a, y = at_least(np.float64, with_fractions(a)), at_least(np.float64, y)
    return np.exp(y + lgamma(a) - op.xlogy(a - 1, y)).astype(dtype)


def _gamma_da(a: Any, y: Any) -> Any:
    a, y = widen(a), widen(y)
    return zero_wins(-gammainc_derivative(a, y, order=1), _gamma_spread(a, y))


def _within(name: str, a: Any, q: Any) -> Any:
    """SciPy's quantile, NaN for every q outside of [0, 1]: SciPy gives some of these a number."""
    if not hasattr(q, "dtype"):  # np.where would make NumPy's array of it, which CuPy does not take
        return of_several(name, a, q if 0 <= q <= 1 else np.nan)
    y = of_several(name, a, q)
    return np.where((q >= 0) & (q <= 1), y, y.dtype.type(np.nan))


gammaincinv = elementwise(
    lambda a, q: _within("gammaincinv", a, q),
    name="gammaincinv",
    da=_gamma_da,
    dq=_gamma_spread,
    doc="""gammainc(a, y) = q, 0 ≤ q ≤ 1 ;  ∂y/∂q = Γ(a) y¹⁻ᵃ eʸ, ∂y/∂a by a series

    The quantile of the gamma distribution of shape a.
    """,
)
gammainccinv = elementwise(
    lambda a, q: _within("gammainccinv", a, q),
    name="gammainccinv",
    da=_gamma_da,
    dq=lambda a, y: -_gamma_spread(a, y),
    doc="gammaincc(a, y) = q, 0 ≤ q ≤ 1 ;  ∂y/∂q = −Γ(a) y¹⁻ᵃ eʸ, ∂y/∂a by a series",
)


def _beta_spread(a: Any, b: Any, y: Any) -> Any:
    """1/p = B(a, b) y¹⁻ᵃ (1 − y)¹⁻ᵇ"""
    a, b, y = widen(a), widen(b), widen(y)
    return np.exp(betaln(a, b) - op.xlogy(a - 1, y) - op.xlog1py(b - 1, -y))


def _beta_by(a: Any, b: Any, y: Any, order: tuple) -> Any:
    """Of a quantile that is 0 or 1 nothing moves, and so does no derivative."""
    end = np.logical_or(y <= 0, y >= 1)
    a, b, y = widen(a), widen(b), np.where(end, 0.5, widen(y))
    slope = zero_wins(-betainc_derivative(a, b, y, order=order), _beta_spread(a, b, y))
    return keep(slope, np.logical_not(end))


def _beta_da(a: Any, b: Any, y: Any) -> Any:
    return _beta_by(a, b, y, (1, 0))


def _beta_db(a: Any, b: Any, y: Any) -> Any:
    return _beta_by(a, b, y, (0, 1))


_AGREE = 1e-10  # to which SciPy's quantiles and those by the power do, where both are right


def _by_power(a: Any, b: Any, q: Any) -> tuple:
    """Whether the quantile y is so small that of q = yᵃ/(a B(a, b)) (1 + O(b y)) only the power
    counts, and what it then is."""
    a, b, q = (at_least(np.float64, with_fractions(x)) for x in (a, b, q))
    with np.errstate(divide="ignore", invalid="ignore"):  # the logarithms of q ≤ 0 say it
        log = (np.log(q) + np.log(a) + betaln(a, b)) / a
    return (b > 0) & (log < np.log(0.1 * _AGREE) - np.log(np.maximum(b, 1))), np.exp(log)


def _betaincinv(a: Any, b: Any, q: Any) -> Any:
    """SciPy's, but for small quantiles: of one in eight it gives NaN, of others wrong digits."""
    y = of_beta("betaincinv", a, b, q)
    small, power = _by_power(a, b, q)
    wrong = small & ~(np.abs(y - power) <= _AGREE * power)
    return np.where(wrong, power, y).astype(y.dtype)


betaincinv = elementwise(
    _betaincinv,
    name="betaincinv",
    da=_beta_da,
    db=_beta_db,
    dq=_beta_spread,
    doc="""betainc(a, b, y) = q, 0 ≤ q ≤ 1 ;  ∂y/∂q = B(a, b) y¹⁻ᵃ (1 − y)¹⁻ᵇ

    The quantile of the beta distribution. ∂y/∂a and ∂y/∂b by a continued fraction.
    """,
)


def _betainccinv(a: Any, b: Any, q: Any) -> Any:
    """SciPy's, but where it is NaN since 1 less the quantile is small."""
    if array_module(q) is not np:
        return 1 - _betaincinv(b, a, q)  # CuPy has no other: a y below ε is lost
    y = of_beta("betainccinv", a, b, q)
    small, power = _by_power(b, a, q)
    return np.where(small & np.isnan(y), 1 - power, y).astype(y.dtype)


betainccinv = elementwise(
    _betainccinv,
    name="betainccinv",
    da=_beta_da,
    db=_beta_db,
    dq=lambda a, b, y: -_beta_spread(a, b, y),
    doc="betaincc(a, b, y) = q, 0 ≤ q ≤ 1 ;  ∂y/∂q = −B(a, b) y¹⁻ᵃ (1 − y)¹⁻ᵇ",
)
