"""Terms of entropies and divergences, and Huber's functions, by the names of scipy.special."""

from typing import Any

import numpy as np

from ..backends.dtypes import finfo
from ..engine.primitive import elementwise
from ..engine.registry import op
from ..ops.axes import widen
from ..ops.elementwise.selection import keep
from ..ops.elementwise.support import in_float32, of_several, special_function

__all__: list[str] = []  # the names are those of mg.special

entr = elementwise(
    in_float32(special_function("entr")),
    dx=lambda x: -1 - np.log(x),
    doc="y = −x log x, 0 at 0, −∞ below ;  dy/dx = −1 − log x",
)


def _both_empty(a: Any, b: Any) -> Any:
    """Where a = b = 0, as in bins that are empty in both histograms: a/b says nothing there."""
    return np.logical_and(a == 0, b == 0)


def _log_quotient(a: Any, b: Any) -> Any:
    """log(a/b), also where a/b is beyond the numbers that there are and its logarithm is not; 0 at
    a = b = 0."""
    empty = _both_empty(a, b)
    a, b = np.where(empty, 1, widen(a)), np.where(empty, 1, b)
    quotient = a / b
    safe = (quotient >= finfo(quotient.dtype).smallest_normal) & (quotient < np.inf)
    inside = np.log(np.where(safe, a, 1) / np.where(safe, b, 1))
    return np.where(safe, inside, np.log(a) - np.log(b))


rel_entr = elementwise(
    lambda a, b: of_several("rel_entr", a, b),
    name="rel_entr",
    da=lambda a, b: _log_quotient(a, b) + np.logical_not(_both_empty(a, b)),
    db=lambda a, b: -(a / np.where(_both_empty(a, b), 1, b)),
    doc="""y = a log(a/b), 0 at a = 0, ∞ below 0 ;  ∂y/∂a = log(a/b) + 1, ∂y/∂b = −a/b

    At a = b = 0 both partials are 0, as xlogy's are.
    The terms of the relative entropy (Kullback and Leibler 1951).
    """,
)


def _kl_terms_db(a: Any, b: Any) -> Any:
    """1 − a/b: near 0 the difference first; far from it last, or ∂/∂b, a/b², would cancel."""
    b = np.where(_both_empty(a, b), 1, widen(b))
    near = b < 2 * a
    close, apart = np.where(near, b, 1), np.where(near, 1, b)
    return np.where(near, (close - a) / close, 1 - a / apart)


kl_terms = elementwise(  # kl_div is the loss
    lambda a, b: of_several("kl_div", a, b),
    name="kl_terms",
    da=_log_quotient,
    db=_kl_terms_db,
    doc="""y = a log(a/b) − a + b, b at a = 0, ∞ below 0 ;  ∂y/∂a = log(a/b), ∂y/∂b = 1 − a/b

    At a = b = 0 the partials are 0 and 1.
    The terms of the generalized Kullback-Leibler divergence, each 0 or more.
    """,
)

huber_function = elementwise(  # huber is the loss
    lambda delta, r: of_several("huber", delta, r),
    name="huber_function",
    ddelta=lambda delta, r: keep(np.abs(r) - delta, ~(np.abs(r) <= delta)),
    dr=lambda delta, r: np.where(np.abs(r) > delta, np.copysign(delta, r), r),
    doc="""y = r²/2 for |r| ≤ δ, δ |r| − δ²/2 beyond ;  ∂y/∂r = r, ±δ, ∂y/∂δ = max(|r| − δ, 0)

    Huber's loss (1964) of residuals r, which are the second argument; ∞ for δ < 0.
    """,
)


def _root_and_share(delta: Any, r: Any) -> tuple:
    """h = √(δ² + r²), 1 where that is 0, and (h − δ)/r = r/(h + δ)."""
    nothing = (delta == 0) & (r == 0)
    h = np.where(nothing, 1, np.hypot(delta, r))
    return h, r / (h + delta)


def _pseudo_huber_ddelta(delta: Any, r: Any) -> Any:
    """(h − δ)²/h, without the difference"""
    h, share = _root_and_share(delta, r)
    return r / h * r * share * share


def _pseudo_huber_dr(delta: Any, r: Any) -> Any:
    """δ r/h, the larger of δ and r divided first: the other quotient may vanish"""
    h, _ = _root_and_share(delta, r)
    return np.where(np.abs(r) > delta, delta * (r / h), r * (delta / h))


def _cubed(a: Any, b: Any) -> Any:
    share = op.hypot_slope(a, b)
    return share * share * share


pseudo_huber_slope = elementwise(
    _pseudo_huber_dr,
    name="pseudo_huber_slope",
    ddelta=lambda delta, r: _cubed(r, delta),
    dr=lambda delta, r: _cubed(delta, r),
    doc="y = δ r/h, h = √(δ² + r²) ;  ∂y/∂δ = r³/h³, ∂y/∂r = δ³/h³",
)
pseudo_huber = elementwise(
    lambda delta, r: of_several("pseudo_huber", delta, r),
    name="pseudo_huber",
    ddelta=_pseudo_huber_ddelta,
    dr=lambda delta, r: pseudo_huber_slope(delta, r),
    doc="""y = δ (h − δ), h = √(δ² + r²) ;  ∂y/∂r = δ r/h, ∂y/∂δ = (h − δ)²/h

    A smooth function between r²/2 for r far below δ and δ |r|; ∞ for δ < 0.
    """,
)
