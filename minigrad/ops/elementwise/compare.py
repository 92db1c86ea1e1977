"""Comparisons and logic, which have no gradient, and rounding, whose gradient is 0."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import elementwise, primitive
from ...tensor_api.composite import composite
from ..axes import constant_array, widen
from .support import zero

__all__ = [
    "allclose", "array_equal", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "equal", "fix",
    "floor", "greater", "greater_equal", "isclose", "isfinite", "isinf", "isnan", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "nextafter",
    "not_equal", "rint", "round", "signbit", "trunc",
]  # fmt: skip

# -- no gradient: the result is not a function that varies with its arguments ------------------

equal = elementwise(np.equal, da=None, db=None, doc="y = (a == b), no gradient")
not_equal = elementwise(np.not_equal, da=None, db=None, doc="y = (a != b), no gradient")
less = elementwise(np.less, da=None, db=None, doc="y = (a < b), no gradient")
less_equal = elementwise(np.less_equal, da=None, db=None, doc="y = (a <= b), no gradient")
greater = elementwise(np.greater, da=None, db=None, doc="y = (a > b), no gradient")
greater_equal = elementwise(np.greater_equal, da=None, db=None, doc="y = (a >= b), no gradient")

logical_and = elementwise(np.logical_and, da=None, db=None, doc="y = a and b, no gradient")
logical_or = elementwise(np.logical_or, da=None, db=None, doc="y = a or b, no gradient")
logical_xor = elementwise(np.logical_xor, da=None, db=None, doc="y = a xor b, no gradient")
logical_not = elementwise(  # x == 0 is the same, and CuPy takes it for complex numbers too
    lambda x: np.equal(x, 0),
    name="logical_not",
    dx=None,
    numpy=np.logical_not,
    doc="y = not x, no gradient",
)
bitwise_and = elementwise(np.bitwise_and, da=None, db=None, doc="y = a & b, no gradient")
bitwise_or = elementwise(np.bitwise_or, da=None, db=None, doc="y = a | b, no gradient")
bitwise_xor = elementwise(np.bitwise_xor, da=None, db=None, doc="y = a ^ b, no gradient")
bitwise_invert = elementwise(np.invert, name="bitwise_invert", dx=None, doc="y = ~x, no gradient")
bitwise_left_shift = elementwise(
    np.left_shift, name="bitwise_left_shift", da=None, db=None, doc="y = a << b, no gradient"
)
bitwise_right_shift = elementwise(
    np.right_shift, name="bitwise_right_shift", da=None, db=None, doc="y = a >> b, no gradient"
)
bitwise_not = bitwise_invert

isfinite = elementwise(np.isfinite, dx=None, doc="y = x is neither ∞ nor NaN, no gradient")
isinf = elementwise(np.isinf, dx=None, doc="y = x is ∞ or −∞, no gradient")
isnan = elementwise(np.isnan, dx=None, doc="y = x is NaN, no gradient")
signbit = elementwise(np.signbit, dx=None, doc="y = x has its sign bit set (also −0), no gradient")
nextafter = elementwise(
    np.nextafter,
    da=lambda g: g,
    db=zero,
    doc="y = the next number after a towards b ;  ∂y/∂a = 1, ∂y/∂b = 0",
)


@primitive(numpy=np.isclose, differentiable=False)
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """y = |a − b| <= atol + rtol |b|, no gradient; the tolerances are constants"""
    rtol, atol = constant_array(rtol, "rtol"), constant_array(atol, "atol")
    return np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@composite(numpy=np.allclose)
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether isclose holds everywhere, as a Python bool."""
    return bool(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


@primitive(numpy=np.array_equal, differentiable=False)
def array_equal(a, b, equal_nan=False):
    """Whether a and b have the same shape and elements, as a 0-d boolean."""
    same = np.array_equal(a, b, equal_nan=equal_nan)  # NumPy gives a bool, CuPy an array
    return array_module(a).asarray(same)


# -- rounding: piecewise constant, so the gradient is 0 ----------------------------------------

floor = elementwise(np.floor, dx=zero, doc="y = ⌊x⌋ ;  the gradient is 0")
ceil = elementwise(np.ceil, dx=zero, doc="y = ⌈x⌉ ;  the gradient is 0")
trunc = elementwise(np.trunc, dx=zero, doc="y = x rounded towards 0 ;  the gradient is 0")
rint = elementwise(np.rint, dx=zero, doc="y = x rounded, halves to even ;  the gradient is 0")


@primitive(kind="elementwise", numpy=np.fix)
def fix(x):
    """y = x rounded towards 0 ;  the gradient is 0"""
    return np.trunc(x)  # NumPy 2.5 warns about its own np.fix


fix.vjp("x")(zero)


@primitive(kind="elementwise", numpy=(np.round, np.around))
def round(x, decimals=0):
    """y = x rounded to `decimals` places, halves to even ;  the gradient is 0

    16-bit floats are rounded in float32. A number that is too large for `decimals` more digits has
    no such places and stays. With decimals < 0, one far below 10^−decimals is 0.
    """
    kind = getattr(x, "dtype", np.dtype(type(x))).kind
    if decimals == 0 or kind in "biu":
        return np.round(x, decimals)
    if kind != "c":
        return _to_places(x, decimals)
    y = np.empty_like(x)
    np.copyto(y.real, _to_places(x.real, decimals))
    np.copyto(y.imag, _to_places(x.imag, decimals))
    return y


def _to_places(x, decimals):
    """Real x rounded: NumPy's x · 10^decimals / 10^decimals is inf or NaN where one overflows."""
    wide = widen(x)
    with np.errstate(over="ignore", invalid="ignore"):
        y = np.round(wide, decimals)
    if decimals > 0:
        y = np.where(np.isfinite(y), y, wide)
    else:
        y = np.where(np.isnan(y), np.where(np.isfinite(wide), np.copysign(0, wide), wide), y)
    return y.astype(getattr(x, "dtype", y.dtype), copy=False)


round.vjp("x")(zero)
