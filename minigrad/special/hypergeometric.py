"""Hypergeometric functions, among them (eˣ − 1)/x and the elliptic integrals.

One rule serves the family: the derivative has every parameter raised by 1 (DLMF 16.3.1). It
replaces quotients such as (E − K)/(2m), which have no correct digit left near 0.
"""

import math
from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..ops.axes import widen
from ..ops.elementwise.selection import keep
from ..ops.elementwise.support import in_dtype_of, in_float32, number, special_function
from ..tensor_api.composite import composite

__all__: list[str] = []  # the names are those of mg.special

_hyp1f1 = special_function("hyp1f1")


def _kummer(a: float, b: float, x: Any) -> Any:
    """SciPy's loops for ever where x is large, and has no limits at ±∞."""
    if a <= 0 and a == int(a):  # a polynomial
        return _hyp1f1(a, b, x)
    near = np.clip(x, -1e6, 1e6)  # e^1e6 is beyond the numbers
    if b <= a and b - a == int(b - a):  # eˣ times a polynomial; SciPy's loops below −1e11
        y = np.exp(near)
        return np.where(y == 0, y, y * _hyp1f1(b - a, b, -near))
    y = _hyp1f1(a, b, np.clip(x, -1e300, 1e6))
    return np.where(x == -np.inf, 0, y) if a > 0 else y


_BY_COUNTS = {
    (0, 1): special_function("hyp0f1"),
    (1, 1): _kummer,
    (2, 1): special_function("hyp2f1"),
}


@primitive(kind="elementwise")
@in_float32
def hypergeometric(x, above=(), below=()):
    """y = Σₖ (a₁)ₖ (a₂)ₖ …/((b)ₖ k!) xᵏ, a = above, b = below, (a)ₖ = a (a + 1) … (a + k − 1)

    dy/dx = a₁ a₂ …/b · y with every parameter raised by 1.
    """
    return in_dtype_of(x, _BY_COUNTS[len(above), len(below)](*above, *below, x))


@hypergeometric.vjp("x")
def hypergeometric_dx(g, x, above, below):
    factor = math.prod(above) / math.prod(below)
    if not factor:  # a polynomial of degree 0
        return np.zeros_like(g)
    above, below = tuple(a + 1 for a in above), tuple(b + 1 for b in below)
    return g * (factor * hypergeometric(widen(x), above=above, below=below))


def _divisor(op: str, name: str, value: Any) -> float:
    """A divisor: it must not be 0, −1, −2 …"""
    if (value := number(op, name, value)) <= 0 and value == int(value):
        raise ValueError(f"{op}: {name} divides, so it must not be 0, -1, -2 ..., got {value:g}")
    return value


@composite
def hyp0f1(v: float, x: Any) -> Any:
    """y = ₀F₁(; v; x), v a number, none of 0, −1, −2 … ;  dy/dx = ₀F₁(; v + 1; x)/v"""
    return hypergeometric(x, above=(), below=(_divisor("hyp0f1", "v", v),))


@composite
def hyp1f1(a: float, b: float, x: Any) -> Any:
    """y = ₁F₁(a; b; x), Kummer's function ;  dy/dx = a/b ₁F₁(a + 1; b + 1; x)

    a and b are numbers, b none of 0, −1, −2 …
    """
    a, b = number("hyp1f1", "a", a), _divisor("hyp1f1", "b", b)
    return hypergeometric(x, above=(a,), below=(b,))


@composite
def hyp2f1(a: float, b: float, c: float, x: Any) -> Any:
    """y = ₂F₁(a, b; c; x), Gauss's function, x ≤ 1 ;  dy/dx = ab/c ₂F₁(a + 1, b + 1; c + 1; x)

    a, b and c are numbers, c none of 0, −1, −2 …
    """
    a, b = (number("hyp2f1", name, value) for name, value in (("a", a), ("b", b)))
    return hypergeometric(x, above=(a, b), below=(_divisor("hyp2f1", "c", c),))


exprel = elementwise(
    in_float32(special_function("exprel")),
    dx=lambda x: 0.5 * hypergeometric(widen(x), above=(2.0,), below=(3.0,)),
    doc="y = (eˣ − 1)/x, 1 at 0 ;  dy/dx = ₁F₁(2; 3; x)/2",
)


# -- elliptic integrals ----------------------------------------------------------------------


def _near_and_far(m: Any, near: Any, far: Any) -> Any:
    """near(m) for |m| < ½, where differences of K and E cancel, and at 1, where they are ∞ − ∞;
    far(m) elsewhere; at −∞ both slopes are 0."""
    small, end = (np.abs(m) < 0.5) | (m == 1), m == -np.inf
    beyond = far(np.where(small | end, 0.75, m))
    return np.where(small, near(np.where(small, m, 0.25)), np.where(end, 0, beyond))


def _ellipk_far(m: Any) -> Any:
    rest = 1 - m
    return (ellipe(m) / rest - ellipk(m)) / (2 * m)


def _ellipk_dx(x: Any) -> Any:
    return _near_and_far(
        widen(x),
        lambda m: math.pi / 8 * hypergeometric(m, above=(1.5, 1.5), below=(2.0,)),
        _ellipk_far,
    )


def _ellipe_dx(x: Any) -> Any:
    return _near_and_far(
        widen(x),
        lambda m: -math.pi / 8 * hypergeometric(m, above=(0.5, 1.5), below=(2.0,)),
        lambda m: (ellipe(m) - ellipk(m)) / (2 * m),
    )


ellipk = elementwise(
    in_float32(special_function("ellipk")),
    dx=_ellipk_dx,
    doc="""y = K(x) = ∫₀^π/2 dt/√(1 − x sin² t), x ≤ 1 ;  dy/dx = (E/(1 − x) − K)/(2x), π/8 at 0

    The complete elliptic integral of the first kind of the parameter x = k² (DLMF 19.4.1).
    """,
)
ellipe = elementwise(
    in_float32(special_function("ellipe")),
    dx=_ellipe_dx,
    doc="""y = E(x) = ∫₀^π/2 √(1 − x sin² t) dt, x ≤ 1 ;  dy/dx = (E − K)/(2x), −π/8 at 0

    The complete elliptic integral of the second kind of the parameter x = k² (DLMF 19.4.2).
    """,
)


def _ellipkm1_dx(x: Any) -> Any:
    x = widen(x)
    far = x > 0.5  # from the point 1: there K is that of a small parameter
    p = np.where(far, 0.25, x)
    near_one = (keep(ellipkm1(p), p != 0) - ellipem1(p) / p) / (2 * (1 - p))
    return np.where(far, -_ellipk_dx(1 - np.where(far, x, 0.75)), near_one)


def _ellipem1_dx(x: Any) -> Any:
    x = widen(x)
    far = x > 0.5
    p = np.where(far, 0.25, x)
    near_one = (ellipkm1(p) - ellipem1(p)) / (2 * (1 - p))
    return np.where(far, -_ellipe_dx(1 - np.where(far, x, 0.75)), near_one)


ellipkm1 = elementwise(
    in_float32(special_function("ellipkm1")),
    dx=_ellipkm1_dx,
    doc="y = K(1 − x), also for x far below ε ;  dy/dx = (K(1 − x) − E(1 − x)/x)/(2(1 − x))",
)
_scipys_ellipe = special_function("ellipe")
ellipem1 = elementwise(  # of this module alone: 1 − x has lost x where x is far below ε
    in_float32(lambda x: _scipys_ellipe(1 - x)),
    name="ellipem1",
    dx=_ellipem1_dx,
    doc="y = E(1 − x), x ≥ 0 ;  dy/dx = (K(1 − x) − E(1 − x))/(2(1 − x)), π/8 at 1",
)
