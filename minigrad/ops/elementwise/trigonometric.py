"""Circular and hyperbolic functions, their inverses, and sinc."""

import math
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import elementwise, primitive
from ..axes import widen
from .selection import choose, keep
from .support import by_other_means, in_float32, recorded

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin",
    "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinc", "sinh", "tan", "tanh",
]  # fmt: skip

sin = elementwise(np.sin, dx=lambda x: np.cos(x), doc="y = sin x ;  dy/dx = cos x")
cos = elementwise(np.cos, dx=lambda x: -np.sin(x), doc="y = cos x ;  dy/dx = −sin x")
tan = elementwise(np.tan, dx=lambda y: 1 + y * y, doc="y = tan x ;  dy/dx = 1 + y²")
sinh = elementwise(np.sinh, dx=lambda x: np.cosh(x), doc="y = sinh x ;  dy/dx = cosh x")
cosh = elementwise(np.cosh, dx=lambda x: np.sinh(x), doc="y = cosh x ;  dy/dx = sinh x")


@in_float32
def _slope_far_out(x: Any) -> Any:
    """4e²/(1 + e²)², e = e^−|x|: no difference in it, and no exponential that can overflow."""
    e = np.exp(np.where(x.real < 0, x, -x) if x.dtype.kind == "c" else np.minimum(x, -x))
    return np.square(2 * e / (1 + e * e))


# What 1 − t² must have for its digits to count: it loses those of t that are 1's. Of normally
# distributed numbers one in ten million has less: most blocks have none. And 1, as an array: NumPy
# would make one of a number at each call.
_FLAT = {"f": (1e-4, np.ones((), np.float32)), "d": (1e-6, np.ones(()))}
_MANY = 1 << 12  # elements
_ndarray = np.ndarray


def _tanh_dx(x: Any, y: Any) -> Any:
    """1 − y², in two passes; places where y is near ±1, which leaves that no digits, by x."""
    if not isinstance(y, _ndarray):  # a tape's stand-in says that it is one, and is not followed
        return tanh_slope(x, y) if recorded(x, y) else _slope_far_out(x)
    limits = _FLAT.get(y.dtype.char)
    if limits is None:
        return _slope_far_out(x)
    flat, one = limits
    if 0 < y.size < _MANY:
        # argmin, of which NumPy asks no Python code, takes a third of min's time on a small array
        slope = one - y * y
        least = slope.item(slope.argmin())
    else:
        slope = y * y
        np.subtract(one, slope, slope)
        least = np.minimum.reduce(slope, axis=None, initial=1)
    if least >= flat:
        return slope
    return by_other_means(slope < flat, slope, _slope_far_out, x)


@primitive(kind="elementwise", arrays="x t", constants=["t"])
def tanh_slope(x, t: Any = None):
    """y = 1 − tanh² x = 1/cosh² x, with digits in the tails too ;  dy/dx = −2y tanh x

    t: tanh x where it is known; to the rule y is a function of x all the same.
    """
    return _slope_far_out(x) if t is None else _tanh_dx(x, t)


@tanh_slope.partial("x")
def tanh_slope_dx(x, y):
    return -2 * y * np.tanh(x)


tanh = elementwise(
    np.tanh,
    dx=_tanh_dx,
    doc="""y = tanh x ;  dy/dx = 1 − y² = 1/cosh² x

    It has digits in the tails too: off by 2·10⁻¹⁰ of itself at most in float64, 10⁻³ in float32.
    """,
)

# -- the inverses ----------------------------------------------------------------------------
#
# The slopes of the inverses are separate ops. Second derivatives are then right where the slope is
# infinite, and in the last place near 0, where those of its factors cancel. x widened before it is
# squared: 300² is beyond float16. (1 − x)(1 + x) where a textbook has 1 − x²: near ±1 the
# difference of squares loses digits. x − (−1) instead of x + 1: a complex x keeps its zero's sign,
# which decides the side of a branch cut; −0 + 0 is 0.

arcsin_slope = elementwise(
    in_float32(lambda x: 1 / (np.sqrt(-x - -1) * np.sqrt(x - -1))),
    name="arcsin_slope",
    dx=lambda x, y: x * y * y * y,
    doc="y = 1/√(1 − x²), of arcsin's branch ;  dy/dx = x y³",
)
arcsin = elementwise(
    np.arcsin, dx=lambda x: arcsin_slope(x), doc="y = arcsin x ;  dy/dx = 1/√(1 − x²)"
)
arccos = elementwise(
    np.arccos, dx=lambda x: -arcsin_slope(x), doc="y = arccos x ;  dy/dx = −1/√(1 − x²)"
)


def _arctan_dx(g: Any, x: Any) -> Any:
    """g/(1 + x²), of a complex x by its factors: its square may be ∞ − ∞."""
    if x.dtype.kind == "c":
        return g / (1 - 1j * x) / (1 + 1j * x)
    return g / (1 + widen(x) * x)


arctan = elementwise(np.arctan, dx=_arctan_dx, doc="y = arctan x ;  dy/dx = 1/(1 + x²)")


@in_float32
def _arcsinh_slope(x: Any) -> Any:
    """1/√(1 + x²) as s/√(s² + (sx)²), s = 1/max(|x|, 1): x² may be beyond the numbers there are."""
    if x.dtype.kind != "c":
        size = np.abs(x)
        s = 1 / np.maximum(size, 1)
        return s / np.sqrt(s * s + np.square(np.minimum(size, 1)))
    s = 1 / np.maximum(np.maximum(np.abs(x.real), np.abs(x.imag)), 1)
    z = array_module(x).array(x)
    for part in (z.real, z.imag):  # a complex product would lose the sign of a zero
        part *= s
    return s / np.sqrt(np.square(z) - -(s * s))


arcsinh_slope = elementwise(
    _arcsinh_slope,
    name="arcsinh_slope",
    dx=lambda x, y: keep(-x * y * y * y, np.abs(x) != np.inf),
    doc="y = 1/√(1 + x²), of arcsinh's branch ;  dy/dx = −x y³",
)
arcsinh = elementwise(
    np.arcsinh, dx=lambda x: arcsinh_slope(x), doc="y = arcsinh x ;  dy/dx = 1/√(1 + x²)"
)
arccosh_slope = elementwise(
    in_float32(lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x - -1))),
    name="arccosh_slope",
    dx=lambda x, y: keep(-x * y * y * y, np.abs(x) != np.inf),
    doc="y = 1/√(x² − 1), of arccosh's branch ;  dy/dx = −x y³",
)
arccosh = elementwise(
    np.arccosh, dx=lambda x: arccosh_slope(x), doc="y = arccosh x ;  dy/dx = 1/√(x² − 1)"
)
arctanh_slope = elementwise(
    in_float32(lambda x: 1 / (1 - x) / (1 + x)),  # not by the product, which may overflow
    name="arctanh_slope",
    dx=lambda x, y: keep(x * y * 2 * y, np.abs(x) != np.inf),
    doc="y = 1/(1 − x²) ;  dy/dx = 2x y²",
)
arctanh = elementwise(
    np.arctanh, dx=lambda x: arctanh_slope(x), doc="y = arctanh x ;  dy/dx = 1/(1 − x²)"
)


# -- sinc ------------------------------------------------------------------------------------


def _sin_pi(x: Any, quarters: int = 0) -> Any:
    """sin(πx + quarters · π/2) for x of any size.

    πx rounded is off by |πx| ε, which for x = 10⁶ leaves ten digits of the sine. The difference of
    x and the nearest whole number n is exact. So sin(πx) = ± sin(π(x − n)), with + for even n, and
    cos alike.
    """
    n = np.rint(x.real)
    odd = n - 2 * np.rint(n / 2)  # ±1 for odd n, 0 for even n
    sign = 1 - 2 * np.abs(odd)
    y = (np.cos if quarters % 2 else np.sin)((x - n) * math.pi)
    return (sign if quarters % 4 < 2 else -sign) * y


@primitive(kind="elementwise", numpy=np.sinc)
def sinc(x):
    """y = sin(πx)/(πx), 1 at 0 ;  every derivative is finite there: 0, −π²/3, 0, π⁴/5 ...

    Right to 4 ULP for x of any size; np.sinc, which rounds πx first, is not.
    """
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return _sinc(x.astype(np.float64) if x.dtype.kind in "biu" else x)  # small ones too, as NumPy


@in_float32
def _sinc(x):
    zero = x == 0
    y = _sin_pi(x) / math.pi / np.where(zero, 1, x)
    return np.where(zero, 1, y + 0)  # + 0: at every other whole number 0, not −0


@sinc.vjp("x")
def sinc_dx(g, x):
    return g * sinc_derivative(x, order=1)


@primitive(kind="elementwise")
@in_float32
def sinc_derivative(x, order=1):
    """y = dⁿ/dxⁿ sinc(x), n = order.

    With z = πx and f(z) = sin(z)/z, y = πⁿ f⁽ⁿ⁾(z). Where |z| > 2, differentiating z f = sin z
    n times gives z f⁽ⁿ⁾ = sin(z + nπ/2) − n f⁽ⁿ⁻¹⁾. That difference loses digits for small z, so
    there the power series is summed.
    """
    z = x * math.pi
    near = np.abs(z) <= 2 + order
    far, x = choose(near, 1, z), choose(near, 0.5, x)
    f = _sin_pi(x) / far
    for n in range(1, order + 1):
        f = (_sin_pi(x, quarters=n) - n * f) / far
    return math.pi**order * choose(near, _sinc_series(choose(near, z, 0), order), f)


def _sinc_series(z: Any, order: int) -> Any:
    """Σ_k (−1)ᵏ z²ᵏ⁻ⁿ (2k)! / ((2k − n)! (2k + 1)!), n = order, by Horner's scheme in z²."""
    first = (order + 1) // 2
    terms = _TERMS.get(z.dtype.char, 16) + order
    square, total = z * z, np.zeros_like(z)
    for k in reversed(range(first, first + terms)):
        c = math.factorial(2 * k) / (math.factorial(2 * k - order) * math.factorial(2 * k + 1))
        total *= square
        total += (-1) ** k * c
    return total * z if order % 2 else total


_TERMS = {"f": 10, "F": 10}  # that float32 needs where |z| ≤ 2 + order, less the order; float64 16


@sinc_derivative.vjp("x")
def sinc_derivative_dx(g, x, order):
    return g * sinc_derivative(x, order=order + 1)


# the array API's names for the same ops
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh
