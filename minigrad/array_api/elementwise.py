"""Functions of each element: the ops under the standard's names and with its signatures."""

from collections.abc import Callable
from typing import Any

from ..engine.registry import op

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def _of_one(function: Callable) -> Callable:
    """The op as a function (x, /)."""

    def apply(x: Any, /) -> Any:
        return function(x)

    return _named(apply, function)


def _of_two(function: Callable) -> Callable:
    """The op as a function (x1, x2, /); one of the two may be a Python number."""

    def apply(x1: Any, x2: Any, /) -> Any:
        return function(x1, x2)

    return _named(apply, function)


def _named(apply: Any, function: Any) -> Callable:
    apply.__name__ = apply.__qualname__ = function.__name__
    apply.__doc__ = function.__doc__
    return apply


abs = _of_one(op.abs)
acos = _of_one(op.arccos)
acosh = _of_one(op.arccosh)
asin = _of_one(op.arcsin)
asinh = _of_one(op.arcsinh)
atan = _of_one(op.arctan)
atanh = _of_one(op.arctanh)
bitwise_invert = _of_one(op.bitwise_invert)
ceil = _of_one(op.ceil)
conj = _of_one(op.conj)
cos = _of_one(op.cos)
cosh = _of_one(op.cosh)
exp = _of_one(op.exp)
expm1 = _of_one(op.expm1)
floor = _of_one(op.floor)
imag = _of_one(op.imag)
isfinite = _of_one(op.isfinite)
isinf = _of_one(op.isinf)
isnan = _of_one(op.isnan)
log = _of_one(op.log)
log10 = _of_one(op.log10)
log1p = _of_one(op.log1p)
log2 = _of_one(op.log2)
logical_not = _of_one(op.logical_not)
negative = _of_one(op.neg)
positive = _of_one(op.positive)
real = _of_one(op.real)
reciprocal = _of_one(op.reciprocal)
round = _of_one(op.round)
sign = _of_one(op.sign)
signbit = _of_one(op.signbit)
sin = _of_one(op.sin)
sinh = _of_one(op.sinh)
sqrt = _of_one(op.sqrt)
square = _of_one(op.square)
tan = _of_one(op.tan)
tanh = _of_one(op.tanh)
trunc = _of_one(op.trunc)

add = _of_two(op.add)
atan2 = _of_two(op.arctan2)
bitwise_and = _of_two(op.bitwise_and)
bitwise_left_shift = _of_two(op.bitwise_left_shift)
bitwise_or = _of_two(op.bitwise_or)
bitwise_right_shift = _of_two(op.bitwise_right_shift)
bitwise_xor = _of_two(op.bitwise_xor)
copysign = _of_two(op.copysign)
divide = _of_two(op.div)
equal = _of_two(op.equal)
floor_divide = _of_two(op.floor_divide)
greater = _of_two(op.greater)
greater_equal = _of_two(op.greater_equal)
hypot = _of_two(op.hypot)
less = _of_two(op.less)
less_equal = _of_two(op.less_equal)
logaddexp = _of_two(op.logaddexp)
logical_and = _of_two(op.logical_and)
logical_or = _of_two(op.logical_or)
logical_xor = _of_two(op.logical_xor)
maximum = _of_two(op.maximum)
minimum = _of_two(op.minimum)
multiply = _of_two(op.mul)
nextafter = _of_two(op.nextafter)
not_equal = _of_two(op.not_equal)
pow = _of_two(op.pow)
remainder = _of_two(op.remainder)
subtract = _of_two(op.sub)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """y = min(max(x, min), max) in x's dtype; a bound that is None is absent."""
    y = op.clip(x, min, max)
    return op.astype(y, dtype=x.dtype, copy=False)
