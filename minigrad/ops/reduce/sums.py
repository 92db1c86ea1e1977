"""Sums and what is made of them. A sum's gradient is g seen by every element: a view, no copy."""

from math import prod
from typing import Any

import numpy as np

from ...backends.image_layout import places, turned
from ...engine.primitive import linear, primitive
from ...engine.registry import op
from ..axes import accumulate, axes_of, count, widen
from ..batching import reduction
from ..row_sums import FEW, folds, left_of, rows_along, sum_of_each_row, sum_of_rows

__all__ = ["all", "any", "count_nonzero", "mean", "sum"]


@linear(numpy=np.sum)
def sum(x, axis=None, dtype=None, keepdims=False):
    """y = Σ x over `axis` (None: all; an int; a tuple) ;  gx = g, broadcast.

    16-bit floats are added up in float32; small integers in int64, as NumPy does.
    """
    if type(axis) is tuple and len(axis) > 1 and _of_channels(x, axis, dtype):
        y = _sum_of_channels(x, axis[1:])
        return y.reshape((1, -1, *(1,) * (x.ndim - 2))) if keepdims else y
    if dtype is None and x.dtype.itemsize != 2:
        y = _sum_of_rows(x, axis, keepdims) if x.size >= FEW else None
        # np.sum asks around first, then calls this
        return x.sum(axis, None, None, keepdims) if y is None else y
    return accumulate(np.sum, x, dtype, axis=axis, keepdims=keepdims)


def _sum_of_rows(x: Any, axis: Any, keepdims: bool) -> Any:
    """Σ x over all axes but the last, or over the last ones; None where NumPy's own is as good."""
    if _of_leading(x, axis) and folds(x):
        y = sum_of_rows(x.reshape((-1, x.shape[-1])))
        return y.reshape((*(1,) * (x.ndim - 1), -1)) if keepdims else y
    rows = rows_along(x, axis)
    if rows is None:
        return None
    return sum_of_each_row(rows).reshape(left_of(x.shape, axis, keepdims))


def _of_leading(x: Any, axis: Any) -> bool:
    """Whether all axes but the last are summed over."""
    return axis == 0 if x.ndim == 2 and type(axis) is int else axis == tuple(range(x.ndim - 1))


def _of_channels(x: Any, axis: tuple, dtype: Any) -> bool:
    """Whether images and places of each channel are added up."""
    return axis == (0, *range(2, x.ndim)) and dtype is None and x.dtype.itemsize != 2


def _sum_of_channels(x: Any, axes: tuple) -> Any:
    """Σ of each channel of images x (N, C, *size) -> (C,): quicker along one axis after the other,
    first those that leave long runs.
    """
    if not turned(x):
        return x.sum(0, keepdims=True).sum(axes)[0]
    rows = places(x)
    if folds(rows):
        return sum_of_rows(rows.reshape((-1, rows.shape[-1])))
    return x.sum(axes, keepdims=True).sum(0).reshape(-1)


def keep_axes(g: Any, shape: tuple, axis: Any, keepdims: bool) -> Any:
    """g with the reduced axes put back at length 1, so that it broadcasts against `shape`."""
    if keepdims or axis is None:
        return g
    axes = axes_of(axis, len(shape))
    return g.reshape(tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def spread(g: Any, shape: tuple, axis: Any, keepdims: bool) -> Any:
    """g given to every element that was reduced: a broadcast view of `shape`, not a copy.

    A small array is filled, though: that takes a fifth of the time that making a view does.
    """
    if type(g) is np.ndarray and prod(shape) <= FEW:
        y = np.empty(shape, g.dtype)
        y[...] = keep_axes(g, shape, axis, keepdims)
        return y
    return op.broadcast_to(keep_axes(g, shape, axis, keepdims), shape=shape)


@sum.vjp("x")
def sum_dx(g, x_shape, axis, keepdims):
    return spread(g, x_shape, axis, keepdims)


@linear(numpy=np.mean)
def mean(x, axis=None, dtype=None, keepdims=False):
    """y = Σ x / n ;  gx = g / n, broadcast. Integers give float64; of no elements, NaN."""
    if dtype is None and x.ndim and x.size and x.dtype.char in "fdFD":
        return sum.forward(x, axis, None, keepdims) / count(x.shape, axis)
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
