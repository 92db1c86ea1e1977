"""Piecewise linear activation functions; relu is in activation.py."""

from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like, widen
from .elementwise.selection import choose, clip, keep
from .elementwise.support import in_float32, ordered

__all__ = [
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "prelu", "relu6",
    "softshrink",
]  # fmt: skip


@composite
def relu6(x: Any) -> Any:
    """y = min(max(x, 0), 6) ;  dy/dx = 1 strictly between, else 0"""
    return clip(ordered(x), 0, 6)


@composite
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """y = x between min_val and max_val, else the bound ;  dy/dx = 1 strictly between, else 0"""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val={min_val!r} must not be above max_val={max_val!r}")
    return clip(ordered(x), min_val, max_val)


# -- hardsigmoid and hardswish -----------------------------------------------------------------


hardsigmoid = elementwise(
    in_float32(lambda x: np.clip(ordered(x) + 3, 0, 6) * (1 / 6)),
    name="hardsigmoid",
    dx=lambda g, x: keep(g, np.logical_not(abs(x) >= 3)) * (1 / 6),  # NaN is between, as in clip
    doc="y = (x + 3)/6 between −3 and 3, else 0 or 1 ;  dy/dx = 1/6 strictly between, else 0",
)


def _hardswish_dx(g: Any, x: Any) -> Any:
    """x/3 + 1/2 − trunc(x/3)/2 for x between −3 and 3: the last term is ±1/2 there alone.

    The product with 1/3, in the dtype of x, is rounded to 1 for x = 3, and for no smaller x.
    """
    third = np.clip(widen(x), -3, 3)
    third = third * (third.dtype.type(1) / 3)
    return (np.trunc(third) * -0.5 + third + 0.5) * g


hardswish = elementwise(
    in_float32(lambda x: np.clip(ordered(x) + 3, 0, 6) * (1 / 6) * x),
    name="hardswish",
    dx=_hardswish_dx,
    doc="""y = x hardsigmoid(x) ;  dy/dx = x/3 + 1/2 strictly between −3 and 3, else 0 or 1

    At the kinks x = −3, 3 the derivative is the smaller one: 0, 1.
    """,
)


# -- leaky -------------------------------------------------------------------------------------


def _leaky(x: Any, slope: Any) -> Any:
    ordered(x)
    if type(slope) is float and 0 < slope <= 1:
        return np.maximum(x, slope * x)
    return choose(x > 0, x, slope * x)


leaky = elementwise(
    _leaky,
    name="leaky",
    dx=lambda g, x, slope: op.where(x > 0, g, g * slope),
    dslope=lambda g, x: keep(g, x <= 0) * np.minimum(x, 0),
    doc="y = x for x > 0, else slope · x ;  at 0, dy/dx = slope",
)


@composite
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """y = x for x > 0, else negative_slope · x ;  at 0, dy/dx = negative_slope"""
    return leaky(x, negative_slope)


@composite
def prelu(x: Any, weight: Any) -> Any:
    """y = x for x > 0, else weight · x, with one weight, or one for each channel (axis 1 of x).

    ∂y/∂x = 1 or weight (at 0: weight), ∂y/∂weight = min(x, 0)
    """
    x = array_like(x)
    if np.size(weight) != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if np.shape(weight) != (channels,):
            raise ValueError(
                f"prelu: weight has shape {np.shape(weight)}, x has {channels} channels (axis 1 of "
                f"{x.shape}); give one weight, or one for each channel"
            )
        weight = op.reshape(weight, shape=(channels,) + (1,) * (x.ndim - 2))
    elif np.ndim(weight) > np.ndim(x):  # one weight gives the result no axis
        weight = op.reshape(weight, shape=())
    return leaky(x, weight)


# -- shrinking ---------------------------------------------------------------------------------


@primitive(kind="elementwise")
def hardshrink(x, lambd=0.5):
    """y = x where |x| > lambd, else 0 ;  dy/dx = 1 there, else 0. NaN stays NaN."""
    return keep(x, ~(abs(x) <= lambd))


@primitive(kind="elementwise")
def softshrink(x, lambd=0.5):
    """y = x − lambd above lambd, x + lambd below −lambd, else 0 ;  dy/dx = 1 outside, else 0

    At ±lambd, too, the derivative is 0.
    """
    if not lambd >= 0:
        raise ValueError(f"lambd={lambd!r} must not be negative")
    return x - clip(ordered(x), -lambd, lambd)


@hardshrink.vjp("x")
@softshrink.vjp("x")
def outside(g: Any, x: Any, lambd: float) -> Any:
    """g where |x| > lambd (or x is NaN), else 0."""
    return keep(g, np.logical_not(abs(x) <= lambd))
