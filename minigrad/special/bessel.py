"""Bessel functions of real order, by SciPy's names. Each order's derivative is its neighbours'.

The recurrences hold at 0 too, where y' = J₀ − J₁/x would divide by it (DLMF 10.6.1 and 10.29.1).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.primitive import primitive
from ..ops.axes import widen
from ..ops.elementwise.selection import keep
from ..ops.elementwise.support import in_float32, number, special_function
from ..tensor_api.composite import composite

__all__: list[str] = []  # the names are those of mg.special


# Far out e^−|x| Iₙ and eˣ Kₙ fall like 1/√x, and their slopes are differences that share all digits
# but those of 1/x. There √(2πx) e⁻ˣ Iₙ = Σₖ (−1)ᵏ aₖ/xᵏ and √(2x/π) eˣ Kₙ = Σₖ aₖ/xᵏ, with
# aₖ = Π_{j ≤ k} (4n² − (2j − 1)²)/(8j) (DLMF 10.40.1 and 10.40.2), are differentiated instead.

_TERMS = 16  # enough for float64 from max(30, n²) on
_FACTORS = {"ie": 1 / math.sqrt(2 * math.pi), "ke": math.sqrt(math.pi / 2)}


def _far_terms(family: str, order: float, limit: float) -> list[float]:
    """The terms of the series at x = limit, with their signs."""
    term, terms = _FACTORS[family], []
    for k in range(_TERMS):
        terms.append(term)
        term *= (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1) * limit)
        term = -term if family == "ie" else term
    return terms


def _sum_of_powers(factors: list[float], part: Any) -> Any:
    """Σₖ factorsₖ partᵏ"""
    total = 0.0
    for factor in reversed(factors):
        total = total * part + factor
    return total


def _far_value(family: str, x: Any, order: float) -> Any:
    """e^−x Iₙ(x) or eˣ Kₙ(x) for x from max(30, n²) on."""
    limit = max(30.0, order * order)
    return _sum_of_powers(_far_terms(family, order, limit), limit / x) / np.sqrt(x)


def _with_far(family: str, near: Any, x: Any, order: float) -> Any:
    """The derivative of e^−|x| Iₙ or eˣ Kₙ: near, or that of the series where it serves."""
    if x.dtype.kind == "c":
        return near
    limit = max(30.0, order * order)
    size = x if order % 1 else np.abs(x)  # of no whole order there is nothing below 0
    far = (size > limit) & (size < np.inf)
    size = np.where(far, size, limit)
    factors = [-(k + 0.5) * term for k, term in enumerate(_far_terms(family, order, limit))]
    slope = _sum_of_powers(factors, limit / size) / size / np.sqrt(size)
    if family == "ie" and order % 2 == 0:
        slope = slope * np.sign(x)  # e^−|x| Iₙ is even in x, its slope odd
    return np.where(far, slope, near)


def _forward(family: str) -> Callable:
    """J (or Y, I, K ...) of a given order; 0 and 1 have special functions: j0, i1e."""
    general = special_function(f"{family[0]}v{family[1:]}")
    special = {n: special_function(f"{family[0]}{n}{family[1:]}") for n in (0, 1)}

    @in_float32
    def forward(x: Any, order: float) -> Any:
        if not math.isfinite(order):
            return general(order, x)
        if (
            order < 0 and float(order).is_integer()
        ):  # J₋ₙ = (−1)ⁿ Jₙ, likewise Y; I₋ₙ = Iₙ, likewise K
            y = forward(x, -order)
            return -y if order % 2 and family[0] in "jy" else y
        if order < 0 and family == "y" and order % 1 == 0.5:  # Y₋ₙ₋½ = (−1)ⁿ Jₙ₊½
            y = special_function("jv")(-order, x)
            return -y if (-order - 0.5) % 2 else y
        is_complex = x.dtype.kind == "c"
        if is_complex and family == "ie":
            raise TypeError(
                "ive: x must be real: e^−|Re x| has no complex derivative. Multiply "
                "mg.special.iv(v, x) by a factor of your own"
            )
        if order in special and not is_complex:  # those are of real numbers alone
            return special[int(order)](x)
        y = general(order, x)
        if family[0] not in "ik" or is_complex:
            return y
        lost = np.isnan(y) & ~np.isnan(x)
        if family[0] == "i":
            lost |= (y == 0) & (x != 0)
        if not lost.any():
            return y
        size = np.abs(x) if family[0] == "i" and float(order).is_integer() else x
        if family[0] == "i":  # SciPy gives up for small x, where the first term is all there is
            tiny = lost & (np.abs(x) <= 1e-20) & (size >= 0)
            with np.errstate(divide="ignore"):
                first = np.power(0.5 * np.where(tiny, size, 1), order) / _gamma(float(order + 1))
            y = np.where(tiny, first, y)
        if family[1:]:  # and from x = 1e9 on
            limit = max(1e9, order * order)
            far = lost & (size > limit)
            value = _far_value(family, np.where(far, size, limit), order)
            y = np.where(far, np.where((x < 0) & (order % 2 == 1), -value, value), y)
        return y.astype(x.dtype)

    return forward


_gamma = special_function("gamma")
_j, _y, _i, _ie, _k, _ke = (_forward(family) for family in ("j", "y", "i", "ie", "k", "ke"))


# Rules take 16-bit floats to float32. For large x an order's neighbours are many times their
# difference; for small x those of K leave float16 long before the derivative does.


def _neighbours(family: Callable, x: Any, order: float) -> tuple:
    return family(x, order=order - 1), family(x, order=order + 1)


def _unrounded(family: Callable, x: Any, y: Any, order: float) -> Any:
    """y in x's dtype, computed again if it was rounded to 16 bits."""
    return y if y.dtype == x.dtype else family(x, order=order)


@primitive(kind="elementwise")
def bessel_j(x, order=0):
    """y = Jₙ(x), n = order ;  dy/dx = (Jₙ₋₁ − Jₙ₊₁)/2"""
    return _j(x, order)


@bessel_j.vjp("x")
def bessel_j_dx(g, x, order):
    below, above = _neighbours(bessel_j, widen(x), order)
    return g * 0.5 * (below - above)


@primitive(kind="elementwise")
def bessel_y(x, order=0):
    """y = Yₙ(x), n = order, x > 0 ;  dy/dx = (Yₙ₋₁ − Yₙ₊₁)/2"""
    return _y(x, order)


@bessel_y.vjp("x")
def bessel_y_dx(g, x, order):
    below, above = _neighbours(bessel_y, widen(x), order)
    return g * 0.5 * (below - above)


@primitive(kind="elementwise")
def bessel_i(x, order=0):
    """y = Iₙ(x), n = order, the modified function ;  dy/dx = (Iₙ₋₁ + Iₙ₊₁)/2"""
    return _i(x, order)


@bessel_i.vjp("x")
def bessel_i_dx(g, x, order):
    below, above = _neighbours(bessel_i, widen(x), order)
    return g * (0.5 * below + 0.5 * above)  # their sum may overflow


@primitive(kind="elementwise")
def bessel_ie(x, order=0):
    """y = e^−|x| Iₙ(x), n = order ;  dy/dx = (yₙ₋₁ + yₙ₊₁)/2 − sign(x) y"""
    return _ie(x, order)


@bessel_ie.vjp("x")
def bessel_ie_dx(g, x, y, order):
    x = widen(x)
    below, above = _neighbours(bessel_ie, x, order)
    near = 0.5 * (below + above) - np.sign(x) * _unrounded(bessel_ie, x, y, order)
    return g * _with_far("ie", near, x, order)


@primitive(kind="elementwise")
def bessel_k(x, order=0):
    """y = Kₙ(x), n = order, the modified function of the second kind, x > 0

    dy/dx = −(Kₙ₋₁ + Kₙ₊₁)/2
    """
    return _k(x, order)


@bessel_k.vjp("x")
def bessel_k_dx(g, x, order):
    below, above = _neighbours(bessel_k, widen(x), order)
    return g * (-0.5 * below - 0.5 * above)


@primitive(kind="elementwise")
def bessel_ke(x, order=0):
    """y = eˣ Kₙ(x), n = order, x > 0 ;  dy/dx = y − (yₙ₋₁ + yₙ₊₁)/2"""
    return _ke(x, order)


@bessel_ke.vjp("x")
def bessel_ke_dx(g, x, y, order):
    x = widen(x)
    below, above = _neighbours(bessel_ke, x, order)
    mean = 0.5 * below + 0.5 * above
    # near 0 both are infinite, or as good as: the mean is by far the larger
    near = keep(_unrounded(bessel_ke, x, y, order), mean < np.inf) - mean
    return g * _with_far("ke", near, x, order)


def _order(name: str, v: Any) -> float:
    v = number(name, "the order v", v)
    return v if v % 1 else int(v)


@composite
def jv(v: float, x: Any) -> Any:
    """y = Jᵥ(x), the Bessel function of the first kind of order v, a number."""
    return bessel_j(x, order=_order("jv", v))


@composite
def yv(v: float, x: Any) -> Any:
    """y = Yᵥ(x), the Bessel function of the second kind of order v, a number; x > 0."""
    return bessel_y(x, order=_order("yv", v))


@composite
def iv(v: float, x: Any) -> Any:
    """y = Iᵥ(x), the modified Bessel function of the first kind of order v, a number."""
    return bessel_i(x, order=_order("iv", v))


@composite
def ive(v: float, x: Any) -> Any:
    """y = e^−|x| Iᵥ(x), which does not overflow."""
    return bessel_ie(x, order=_order("ive", v))


@composite
def kv(v: float, x: Any) -> Any:
    """y = Kᵥ(x), the modified Bessel function of the second kind of order v, a number; x > 0."""
    return bessel_k(x, order=_order("kv", v))


@composite
def kve(v: float, x: Any) -> Any:
    """y = eˣ Kᵥ(x), which does not underflow; x > 0."""
    return bessel_ke(x, order=_order("kve", v))


def _at_order(n: int, family: Callable, name: str, doc: str, **means: Any) -> Any:
    """The function of x alone that a family has for one order, by SciPy's name."""

    def at_order(x: Any) -> Any:
        return family(x, order=n)

    return composite(at_order, name=name, doc=doc, **means)


j0 = _at_order(0, bessel_j, "j0", "y = J₀(x) ;  dy/dx = −J₁(x)")
j1 = _at_order(1, bessel_j, "j1", "y = J₁(x) ;  dy/dx = (J₀(x) − J₂(x))/2")
y0 = _at_order(0, bessel_y, "y0", "y = Y₀(x), x > 0 ;  dy/dx = −Y₁(x)")
y1 = _at_order(1, bessel_y, "y1", "y = Y₁(x), x > 0 ;  dy/dx = (Y₀(x) − Y₂(x))/2")
i0 = _at_order(0, bessel_i, "i0", "y = I₀(x) ;  dy/dx = I₁(x)", numpy=np.i0)
i1 = _at_order(1, bessel_i, "i1", "y = I₁(x) ;  dy/dx = (I₀(x) + I₂(x))/2")
i0e = _at_order(0, bessel_ie, "i0e", "y = e^−|x| I₀(x) ;  dy/dx = e^−|x| I₁(x) − sign(x) y")
i1e = _at_order(
    1, bessel_ie, "i1e", "y = e^−|x| I₁(x) ;  dy/dx = e^−|x| (I₀(x) + I₂(x))/2 − sign(x) y"
)
k0 = _at_order(0, bessel_k, "k0", "y = K₀(x), x > 0 ;  dy/dx = −K₁(x)")
k1 = _at_order(1, bessel_k, "k1", "y = K₁(x), x > 0 ;  dy/dx = −(K₀(x) + K₂(x))/2")
k0e = _at_order(0, bessel_ke, "k0e", "y = eˣ K₀(x), x > 0 ;  dy/dx = y − eˣ K₁(x)")
k1e = _at_order(1, bessel_ke, "k1e", "y = eˣ K₁(x), x > 0 ;  dy/dx = y − eˣ (K₀(x) + K₂(x))/2")
