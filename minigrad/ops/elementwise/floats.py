"""Mantissa and exponent, neighbouring floats; integer arithmetic without derivatives."""

from typing import Any

import numpy as np

from ...engine.primitive import elementwise, primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from .compare import bitwise_invert, bitwise_left_shift, bitwise_right_shift

__all__ = [
    "bitwise_count", "frexp", "gcd", "invert", "lcm", "ldexp", "left_shift", "right_shift",
    "spacing",
]  # fmt: skip


@primitive(differentiable=False)
def binary_exponent(x):
    """The integer e of x = m 2ᵉ with ½ ≤ |m| < 1; 0 for 0, inf and NaN."""
    return np.frexp(x)[1]


@binary_exponent.batch
def binary_exponent_batch(op_, xs, batched, params):
    return op_(*xs)


@composite(numpy=np.frexp)
def frexp(x: Any) -> tuple:
    """(m, e): x = m 2ᵉ, ½ ≤ |m| < 1, e an integer ;  gx = g_m 2⁻ᵉ, e is piecewise constant"""
    x = array_like(x)
    exponent = binary_exponent(x)
    return ldexp(x, -exponent), exponent


@primitive(kind="elementwise", numpy=np.ldexp, arrays="x exponent", constants=["exponent"])
def ldexp(x, exponent):
    """y = x 2^exponent for integer exponents ;  gx = g 2^exponent"""
    y = np.ldexp(x, exponent)  # of bfloat16 with int64 in float32
    return y.astype(x.dtype) if getattr(x, "dtype", y.dtype).kind == "V" else y


@ldexp.vjp("x")
def ldexp_dx(g, exponent):
    return op.ldexp(g, exponent)


spacing = elementwise(
    np.spacing, dx=None, doc="y = the distance from x to the next number of its dtype, no gradient"
)
gcd = elementwise(np.gcd, da=None, db=None, doc="y = the greatest common divisor, of integers")
lcm = elementwise(np.lcm, da=None, db=None, doc="y = the least common multiple, of integers")
bitwise_count = elementwise(
    np.bitwise_count, dx=None, doc="y = how many bits of |x| are 1, for integers; no gradient"
)

# NumPy's names
invert, left_shift, right_shift = bitwise_invert, bitwise_left_shift, bitwise_right_shift
