"""Sums and what is made of them. A sum's gradient is g seen by every element: a view, no copy."""

from typing import Any

import numpy as np

from ...engine.primitive import linear, primitive
from ..axes import accumulate, axes_of, count, widen
from ..batching import reduction

__all__ = ["all", "any", "count_nonzero", "mean", "sum"]


@linear(numpy=np.sum)
def sum(x, axis=None, dtype=None, keepdims=False):
    """y = Σ x over `axis` (None: all; an int; a tuple) ;  gx = g, broadcast.

    16-bit floats are added up in float32; small integers in int64, as NumPy does.
    """
    if dtype is None and x.dtype.itemsize != 2:
        return np.sum(x, axis=axis, keepdims=keepdims)
    return accumulate(np.sum, x, dtype, axis=axis, keepdims=keepdims)


def keep_axes(g: Any, shape: tuple, axis: Any, keepdims: bool) -> Any:
    """g with the reduced axes put back at length 1, to broadcast against `shape`."""
    if keepdims or axis is None:
        return g
    axes = axes_of(axis, len(shape))
    return g.reshape(tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def spread(g: Any, shape: tuple, axis: Any, keepdims: bool) -> Any:
    """g given to every element that was reduced: a broadcast view of `shape`, not a copy."""
    return np.broadcast_to(keep_axes(g, shape, axis, keepdims), shape)


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
