"""Arithmetic. One line each, as in a calculus table: the op, and its partial derivatives."""

import math
from typing import Any

import numpy as np

from ...engine.primitive import elementwise, primitive
from ...tensor_api.composite import composite
from ..axes import in_wide, widen
from .selection import keep
from .support import recorded, with_fractions, zero

__all__ = [
    "add", "arctan2", "atan2", "cbrt", "copysign", "deg2rad", "degrees", "div", "divide", "divmod",
    "floor_divide", "fma", "fmod", "hypot", "lerp", "mod", "modf", "mul", "multiply", "neg",
    "negative", "rad2deg", "radians", "reciprocal", "remainder", "rsqrt", "sign", "sqrt", "square",
    "sub", "subtract", "true_divide",
]  # fmt: skip


def _or_one(x: Any) -> Any:
    """x, but 1 in place of 0: a harmless denominator where the numerator is 0 as well."""
    return x + (x == 0)


add = elementwise(
    np.add,
    name="add",
    da=lambda g: g,
    db=lambda g: g,
    doc="y = a + b ;  ∂y/∂a = ∂y/∂b = 1",
)
sub = elementwise(
    np.subtract,
    name="sub",
    da=lambda g: g,
    db=lambda g: -g,
    doc="y = a − b ;  ∂y/∂a = 1, ∂y/∂b = −1",
)
mul = elementwise(
    np.multiply,
    name="mul",
    da=lambda b: b,
    db=lambda a: a,
    doc="y = a b ;  ∂y/∂a = b, ∂y/∂b = a",
)
div = elementwise(
    np.divide,
    name="div",
    da=lambda g, b: g / b,
    db=lambda g, y, b: -g * (y / b),
    doc="y = a / b ;  ∂y/∂a = 1/b, ∂y/∂b = −y/b",
)
neg = elementwise(np.negative, name="neg", dx=lambda g: -g, doc="y = −x ;  dy/dx = −1")

reciprocal = elementwise(np.reciprocal, dx=lambda y: -y * y, doc="y = 1/x ;  dy/dx = −y²")
square = elementwise(np.square, dx=lambda x: 2 * x, doc="y = x² ;  dy/dx = 2x")
sqrt = elementwise(np.sqrt, dx=lambda y: 0.5 / y, doc="y = √x ;  dy/dx = 1/(2y), ∞ at 0")
rsqrt = elementwise(
    lambda x: 1 / np.sqrt(x),
    name="rsqrt",
    dx=lambda x, y: (-0.5 * y) / x,
    doc="y = 1/√x ;  dy/dx = −y/(2x)",
)
cbrt = elementwise(
    np.cbrt,
    dx=lambda y: (1 / y) / (3 * y),  # 1/y² may overflow, in float16, where a third of it does not
    doc="y = ∛x ;  dy/dx = 1/(3y²), ∞ at 0",
)


# -- division with a whole quotient ----------------------------------------------------------

floor_divide = elementwise(
    np.floor_divide, da=zero, db=zero, doc="y = ⌊a/b⌋ ;  piecewise constant: the gradient is 0"
)
# Not ⌊⌋ of the rounded a/b, which could fall on the other side of a whole number: 1.0 // 0.1 is 9,
# while 1.0 / 0.1 is 10.0. Also, the derivative of a/b overflows for tiny b, and 0 · ∞ is NaN.
remainder = elementwise(
    np.remainder,
    da=lambda g: g,
    db=lambda a, b: -floor_divide(a, b),
    doc="y = a − b ⌊a/b⌋, of b's sign ;  ∂y/∂a = 1, ∂y/∂b = −⌊a/b⌋",
)
fmod = elementwise(
    np.fmod,
    da=lambda g: g,
    db=lambda a, b: -np.copysign(floor_divide(np.abs(a), np.abs(b)), a * b),
    doc="y = a − b trunc(a/b), of a's sign ;  ∂y/∂a = 1, ∂y/∂b = −trunc(a/b)",
)


@composite(numpy=np.divmod)
def divmod(a: Any, b: Any) -> tuple:
    """(⌊a/b⌋, a − b ⌊a/b⌋), as Python's divmod."""
    return floor_divide(a, b), remainder(a, b)


@primitive(numpy=np.modf, outputs=2)
def modf(x):
    """(fraction, whole part), both of x's sign ;  the fraction has derivative 1, the whole 0."""
    return np.modf(x)


@modf.vjp("x")
def modf_dx(g):
    fraction, whole = g
    return np.zeros_like(whole) if fraction is None else fraction


# -- signs, angles, combinations -------------------------------------------------------------


@primitive(numpy=np.sign)
def sign(x):
    """y = x/|x|, 0 at 0 ;  real: piecewise constant, the gradient is 0 (also at 0).

    Complex: gx = (g − y Re(ȳ g)) / |x|, the part of g across the direction of x; 0 at 0.
    """
    return np.sign(x)


@sign.vjp("x")
def sign_dx(g, x, y):
    if x.dtype.kind != "c":
        return np.zeros_like(g)
    r = np.abs(x)
    across = g - y * np.real(y.conj() * g)
    return keep(across / _or_one(r), r != 0)


@sign.jvp
def sign_jvp(x_t, x, y):
    return sign_dx(x_t, x, y)  # the map is its own adjoint


for _op in (sign, modf):
    # one example or a batch of them: the same elements
    _op.batch(lambda op, xs, batched, params: op(*xs))


copysign = elementwise(
    np.copysign,
    da=lambda a, b: np.sign(a) * np.copysign(1.0, b),
    db=zero,
    doc="y = |a| with b's sign ;  ∂y/∂a = ±1, 0 at a = 0",
)


def _hypot_slope(a: Any, b: Any, y: Any = None) -> Any:
    y = np.hypot(a, b) if y is None else y
    return keep(a / _or_one(y), y != 0)


def _hypot_bend(first: Any, second: Any, a: Any, b: Any) -> Any:
    """The product of two slopes over h; 0 at infinity, where slopes may be ∞/∞."""
    h = hypot(a, b)
    return keep(first * second / _or_one(h), (h != 0) & (h != np.inf))


hypot_slope = elementwise(  # a separate op, as 1/y − a²/y³ has no digits for a far above b
    _hypot_slope,
    name="hypot_slope",
    da=lambda a, b: _hypot_bend(hypot_slope(b, a), hypot_slope(b, a), a, b),
    db=lambda a, b: -_hypot_bend(hypot_slope(a, b), hypot_slope(b, a), a, b),
    doc="y = a/h, h = √(a² + b²) ;  ∂y/∂a = b²/h³, ∂y/∂b = −a b/h³, all 0 at (0, 0)",
)
hypot = elementwise(
    np.hypot,
    da=lambda a, b, y: hypot_slope(a, b) if recorded(a, b, y) else _hypot_slope(a, b, y),
    db=lambda a, b, y: hypot_slope(b, a) if recorded(a, b, y) else _hypot_slope(b, a, y),
    doc="y = √(a² + b²) ;  ∂y/∂a = a/y, ∂y/∂b = b/y, both 0 at (0, 0)",
)


def _over_squared_length(u: Any, a: Any, b: Any) -> Any:
    """u/(a² + b²) without squares, which could overflow or vanish; 0 at (0, 0) and at infinity."""
    h = np.hypot(widen(a), widen(b))
    h = keep(h, h != np.inf)  # where u may be infinite as well
    r = _or_one(h)
    return keep((u / r) / r, h != 0)


arctan2 = elementwise(
    np.arctan2,
    da=lambda a, b: _over_squared_length(b, a, b),
    db=lambda a, b: _over_squared_length(-with_fractions(a), a, b),
    doc="y = the angle of (b, a) ;  ∂y/∂a = b/(a² + b²), ∂y/∂b = −a/(a² + b²), both 0 at (0, 0)",
)
deg2rad = elementwise(
    np.deg2rad,
    numpy=np.radians,
    dx=lambda g: g * (math.pi / 180),
    doc="y = x π/180",
)
rad2deg = elementwise(
    np.rad2deg,
    numpy=np.degrees,
    dx=lambda g: g * (180 / math.pi),
    doc="y = x 180/π",
)


@composite
def fma(a: Any, b: Any, c: Any) -> Any:
    """y = a b + c, rounded twice as NumPy does."""
    return a * b + c


def _lerp(a: Any, b: Any, weight: Any) -> Any:
    """From the nearer end, as in PyTorch: a + (b − a) has lost a b that is far below a."""

    def between(a: Any, b: Any, weight: Any) -> Any:
        if type(weight) in (float, int, np.ndarray) and not np.ndim(weight):  # one of both will do
            return a + (b - a) * weight if abs(weight) < 0.5 else b - (b - a) * (1 - weight)
        from_a, from_b = a + (b - a) * weight, b - (b - a) * (1 - weight)
        return np.where(np.abs(weight) < 0.5, from_a, from_b)

    return in_wide(between, a, b, with_fractions(weight))


lerp = elementwise(
    _lerp,
    name="lerp",
    da=lambda weight: 1 - with_fractions(weight),
    db=lambda weight: weight,
    dweight=lambda a, b: b - a,
    doc="""y = a + weight (b − a), a for 0, b for 1 ;  ∂y/∂a = 1 − weight, ∂y/∂b = weight

    ∂y/∂weight = b − a
    """,
)

# NumPy's and the array API's names for the same ops
subtract, multiply, negative, mod = sub, mul, neg, remainder
divide = true_divide = div
atan2, radians, degrees = arctan2, deg2rad, rad2deg
