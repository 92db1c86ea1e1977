"""Parts of complex numbers. These functions are not holomorphic: each needs a specific rule.

The gradient of a real loss L is gx = ∂L/∂Re x + i ∂L/∂Im x = 2 ∂L/∂x̄, PyTorch's convention.
"""

import math
from typing import Any

import numpy as np

from ...backends.dtypes import is_differentiable, is_floating
from ...engine.primitive import linear, primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from .selection import keep
from .support import ordered

__all__ = ["abs", "absolute", "angle", "conj", "conjugate", "fabs", "imag", "real"]


@primitive(numpy=np.abs)
def abs(x):
    """y = |x| ;  gx = g x/|x|, 0 at 0"""
    return np.abs(x)


@abs.vjp("x")
def abs_dx(g, x):
    return g * np.sign(x)


@abs.jvp
def abs_jvp(x_t, x):
    return np.real(np.sign(x).conj() * x_t)


@linear(numpy=np.real, view=True)
def real(x):
    """y = Re x ;  gx = g"""
    return np.real(x)


@real.vjp("x")
def real_dx(g):
    return g


@linear(numpy=np.imag, view=True)
def imag(x):
    """y = Im x ;  gx = i g, and 0 for a real x"""
    return np.imag(x)


@imag.vjp("x")
def imag_dx(g):
    return g * 1j  # the engine takes the real part, 0, where x is real


@linear(numpy=np.conjugate)
def conj(x):
    """y = x̄ ;  gx = ḡ"""
    return np.conjugate(x)


@conj.vjp("x")
def conj_dx(g):
    return g.conj()


@primitive(numpy=np.angle)
def angle(x, deg=False):
    """y = arg x in (−π, π], in degrees if deg ;  gx = g i x/|x|², 0 at 0 and for real x"""
    y = np.angle(x, deg)
    dtype = getattr(x, "dtype", None)  # of a bfloat16 without axes NumPy makes a float32
    return y.astype(dtype, copy=False) if dtype is not None and is_floating(dtype) else y


def _turn(x, deg):
    """∂angle as a complex number: i x/|x|², without squares that could overflow."""
    r = np.abs(x)
    zero = r == 0
    r = r + zero
    return keep(((x / r) / r) * (1j * (180 / math.pi if deg else 1)), np.logical_not(zero))


@angle.vjp("x")
def angle_dx(g, x, deg):
    return g * _turn(x, deg) if x.dtype.kind == "c" else np.zeros_like(g)


@angle.jvp
def angle_jvp(x_t, x, deg):
    return np.real(_turn(x, deg).conj() * x_t) if x.dtype.kind == "c" else np.zeros_like(x_t)


for _op in (abs, real, imag, conj, angle):
    # one example or a batch of them: the same elements
    _op.batch(lambda op, xs, batched, params: op(*xs, **params))

absolute, conjugate = abs, conj


@composite(numpy=np.fabs)
def fabs(x: Any) -> Any:
    """|x| of a real x, always floating: for integers in the float dtype that NumPy gives them."""
    x = ordered(array_like(x), "fabs")
    return abs(x if is_differentiable(x.dtype) else op.astype(x, np.result_type(x, np.float16)))
