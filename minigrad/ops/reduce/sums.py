"""Sums and what is made of them. A sum's gradient is g seen by every element: a view, no copy."""

from typing import Any

import numpy as np

from ...core.primitive import linear, primitive
from ..axes import accumulate, count, spread, widen
from ..batching import reduction
from ..image_layout import turned

__all__ = ["all", "any", "count_nonzero", "mean", "sum"]


@linear(numpy=np.sum)
def sum(x, axis=None, dtype=None, keepdims=False):
    """y = Σ x over `axis` (None: all; an int; a tuple) ;  gx = g, broadcast.

    16-bit floats are added up in float32; small integers in int64, as NumPy does.
    """
    if type(axis) is tuple and len(axis) > 1 and _of_channels(x, axis, dtype):
        first, then = (axis[1:], 0) if turned(x) else (0, axis[1:])
        y = x.sum(first, keepdims=True).sum(then, keepdims=True)
        return y if keepdims else y.reshape(-1)
    if dtype is None and x.dtype.itemsize != 2:  # np.sum asks around for 1 µs, then calls this
        return x.sum(axis, None, None, keepdims)
    return accumulate(np.sum, x, dtype, axis=axis, keepdims=keepdims)


def _of_channels(x: Any, axis: tuple, dtype: Any) -> bool:
    """Whether images and places of each channel are added up: quicker one after the other, first
    along the axes that leave long runs.
    """
    return axis == (0, *range(2, x.ndim)) and dtype is None and x.dtype.itemsize != 2


@sum.vjp("x")
def sum_dx(g, x_shape, axis, keepdims):
    return spread(g, x_shape, axis, keepdims)


@linear(numpy=np.mean)
def mean(x, axis=None, dtype=None, keepdims=False):
    """y = Σ x / n ;  gx = g / n, broadcast. Integers give float64; of no elements, NaN."""
    return accumulate(np.mean, x, dtype, axis=axis, keepdims=keepdims)


@mean.vjp("x")
def mean_dx(g, x_shape, axis, keepdims):
    n = count(x_shape, axis) or 1  # of no elements there is no gradient to divide
    return spread(widen(g) / n, x_shape, axis, keepdims)


@primitive(numpy=np.any, differentiable=False)
def any(x, axis=None, keepdims=False):
    """Whether any element is nonzero (NaN is). No gradient."""
    return np.any(x, axis=axis, keepdims=keepdims)


@primitive(numpy=np.all, differentiable=False)
def all(x, axis=None, keepdims=False):
    """Whether every element is nonzero. No gradient."""
    return np.all(x, axis=axis, keepdims=keepdims)


@primitive(numpy=np.count_nonzero, differentiable=False)
def count_nonzero(x, axis=None, keepdims=False):
    """How many elements are nonzero. No gradient."""
    return np.sum(x != 0, axis=axis, dtype=np.intp, keepdims=keepdims)


for _op in (sum, mean, any, all, count_nonzero):
    _op.batch(reduction)
