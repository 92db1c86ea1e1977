"""The largest and the smallest. Elements that tie share the gradient equally."""

from operator import index
from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...tensor_api.composite import composite
from ..axes import widen
from ..batching import along, reduction
from .sums import keep_axes

__all__ = ["amax", "amin", "argmax", "argmin", "max", "min", "ptp"]


@primitive(numpy=(np.max, np.amax))
def max(x, axis=None, keepdims=False):
    """y = max x over `axis` ;  gx = g / (number of ties) where x = y, else 0.

    A slice with NaN gives NaN, and its NaN entries share the gradient. No elements: ValueError.
    """
    return np.max(x, axis=axis, keepdims=keepdims)


@primitive(numpy=(np.min, np.amin))
def min(x, axis=None, keepdims=False):
    """y = min x over `axis` ;  gx = g / (number of ties) where x = y, else 0. NaN as in max."""
    return np.min(x, axis=axis, keepdims=keepdims)


@max.vjp("x")
@min.vjp("x")
def extremum_dx(g, x, y, axis, keepdims):
    y = keep_axes(y, x.shape, axis, keepdims)
    g = keep_axes(g, x.shape, axis, keepdims)
    return share(g, x, y, axis)


def share(g: Any, x: Any, y: Any, axis: Any) -> Any:
    """g shared equally among the elements of x that equal y, over `axis` (kept at length 1)."""
    ties = np.logical_or(x == y, x != x)  # x != x: a NaN, which is in slices with y = NaN alone
    g = widen(g)  # a float16 cannot count beyond 2,048
    return np.where(ties, g / np.sum(ties, axis=axis, keepdims=True).astype(g.dtype), 0)


@composite
def amax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """max, by NumPy's other name."""
    return max(x, axis=axis, keepdims=keepdims)


@composite
def amin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """min, by NumPy's other name."""
    return min(x, axis=axis, keepdims=keepdims)


@composite(numpy=np.ptp)
def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Peak to peak: max x − min x."""
    return max(x, axis=axis, keepdims=keepdims) - min(x, axis=axis, keepdims=keepdims)


@primitive(numpy=np.argmax, differentiable=False)
def argmax(x, axis=None, keepdims=False):
    """Where the first of the largest elements stands (flattened for axis=None). No gradient."""
    return np.argmax(x, axis=axis, keepdims=bool(index(keepdims)))


@primitive(numpy=np.argmin, differentiable=False)
def argmin(x, axis=None, keepdims=False):
    """Where the first of the smallest elements stands (flattened for axis=None). No gradient."""
    return np.argmin(x, axis=axis, keepdims=bool(index(keepdims)))


for _op, _rule in ((max, reduction), (min, reduction), (argmax, along), (argmin, along)):
    _op.batch(_rule)
