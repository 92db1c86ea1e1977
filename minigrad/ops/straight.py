"""Piecewise linear activation functions; relu is in activation.py."""

from typing import Any

import numpy as np

from ..backends.blocks import scratch
from ..engine.primitive import elementwise, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like, widen
from .elementwise.selection import choose, clip, keep
from .elementwise.support import in_float32, ordered
from .in_place import filled_by, keep_into, one_of_two

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


def _scratch(name: int, y: Any, dtype: Any = None) -> Any:
    """Memory for the intermediate results of a fill on one block."""
    return scratch.empty(f"block {name}", y.shape, y, dtype)


def _fill_hardsigmoid(y: Any, x: Any) -> None:
    np.add(x, 3, out=y)
    np.clip(y, 0, 6, out=y)
    y *= 1 / 6


@in_float32
@filled_by(_fill_hardsigmoid)
def _hardsigmoid(x: Any) -> Any:
    return np.clip(ordered(x) + 3, 0, 6) * (1 / 6)


def _fill_hardsigmoid_dx(y: Any, g: Any, x: Any) -> None:
    inside = _scratch(1, y, np.bool_)
    np.abs(x, out=y)
    np.greater_equal(y, 3, out=inside)
    np.logical_not(inside, out=inside)
    keep_into(y, g, inside)
    y *= 1 / 6


@filled_by(_fill_hardsigmoid_dx, arrays=2)
def _hardsigmoid_dx(g: Any, x: Any) -> Any:
    return keep(g, np.logical_not(abs(x) >= 3)) * (1 / 6)  # NaN is between, as in clip


hardsigmoid = elementwise(
    _hardsigmoid,
    name="hardsigmoid",
    dx=_hardsigmoid_dx,
    doc="y = (x + 3)/6 between −3 and 3, else 0 or 1 ;  dy/dx = 1/6 strictly between, else 0",
)


def _fill_hardswish(y: Any, x: Any) -> None:
    _fill_hardsigmoid(y, x)
    y *= x


@in_float32
@filled_by(_fill_hardswish)
def _hardswish(x: Any) -> Any:
    return np.clip(ordered(x) + 3, 0, 6) * (1 / 6) * x


def _fill_hardswish_dx(y: Any, g: Any, x: Any) -> None:
    third = _scratch(0, y)
    np.clip(x, -3, 3, out=third)
    third *= third.dtype.type(1) / 3
    np.trunc(third, out=y)
    y *= -0.5
    y += third
    y += 0.5
    y *= g


@filled_by(_fill_hardswish_dx, arrays=2)
def _hardswish_dx(g: Any, x: Any) -> Any:
    """x/3 + 1/2 − trunc(x/3)/2 for x between −3 and 3: the last term is ±1/2 there alone.

    The product with 1/3, of its own dtype, is rounded to 1 for x = 3, and for no smaller x.
    """
    third = np.clip(widen(x), -3, 3)
    third = third * (third.dtype.type(1) / 3)
    return (np.trunc(third) * -0.5 + third + 0.5) * g


hardswish = elementwise(
    _hardswish,
    name="hardswish",
    dx=_hardswish_dx,
    doc="""y = x hardsigmoid(x) ;  dy/dx = x/3 + 1/2 strictly between −3 and 3, else 0 or 1

    At the kinks x = −3, 3 the derivative is the smaller one: 0, 1.
    """,
)


# -- leaky -------------------------------------------------------------------------------------


def _fill_leaky(y: Any, x: Any, slope: Any) -> None:
    if 0 < slope <= 1:
        np.multiply(x, slope, out=y)
        np.maximum(x, y, out=y)
    else:
        _fill_leaky_dx(y, x, x, slope)


@filled_by(_fill_leaky)
def _leaky(x: Any, slope: Any) -> Any:
    ordered(x)
    if type(slope) is float and 0 < slope <= 1:
        return np.maximum(x, slope * x)
    return choose(x > 0, x, slope * x)


def _fill_leaky_dx(y: Any, g: Any, x: Any, slope: Any) -> None:
    above = _scratch(1, y, np.bool_)
    np.greater(x, 0, out=above)
    one_of_two(y, above, 1, slope)
    y *= g


@filled_by(_fill_leaky_dx, arrays=2)
def _leaky_dx(g: Any, x: Any, slope: Any) -> Any:
    return op.where(x > 0, g, g * slope)


leaky = elementwise(
    _leaky,
    name="leaky",
    dx=_leaky_dx,
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


def _fill_outside(y: Any, g: Any, x: Any, lambd: float) -> None:
    inside = _scratch(1, y, np.bool_)
    np.abs(x, out=y)
    np.less_equal(y, lambd, out=inside)
    keep_into(y, g, np.logical_not(inside, out=inside))


@filled_by(_fill_outside, arrays=2)
def _outside(g: Any, x: Any, lambd: float) -> Any:
    """g where |x| > lambd (or x is NaN), else 0: the gradient of hardshrink and of softshrink."""
    return keep(g, np.logical_not(abs(x) <= lambd))


def _fill_hardshrink(y: Any, x: Any, lambd: float) -> None:
    inside = _scratch(1, y, np.bool_)
    np.abs(x, out=y)
    np.less_equal(y, lambd, out=inside)
    keep_into(y, x, np.logical_not(inside, out=inside))


@filled_by(_fill_hardshrink)
def _hardshrink(x: Any, lambd: float) -> Any:
    return keep(x, ~(abs(x) <= lambd))


@primitive(kind="elementwise")
def hardshrink(x, lambd=0.5):
    """y = x where |x| > lambd, else 0 ;  dy/dx = 1 there, else 0. NaN stays NaN."""
    return _hardshrink(x, lambd)


hardshrink.vjp("x")(_outside)


def _fill_softshrink(y: Any, x: Any, lambd: float) -> None:
    np.clip(x, -lambd, lambd, out=y)
    np.subtract(x, y, out=y)


@filled_by(_fill_softshrink)
def _softshrink(x: Any, lambd: float) -> Any:
    return x - clip(ordered(x), -lambd, lambd)


@primitive(kind="elementwise")
def softshrink(x, lambd=0.5):
    """y = x − lambd above lambd, x + lambd below −lambd, else 0 ;  dy/dx = 1 outside, else 0

    At ±lambd, too, the derivative is 0.
    """
    if not lambd >= 0:
        raise ValueError(f"lambd={lambd!r} must not be negative")
    return _softshrink(x, lambd)


softshrink.vjp("x")(_outside)
