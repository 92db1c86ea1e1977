"""Softmax, related ops and sums by rows: each is a recorded expression, and one kernel."""

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator, is_floating
from ..fusion import launch
from ..fusion.launch import shaped
from ..ops.softmax import NEARLY_ALL
from .install import on_gpu

_LONGEST = 1 << 16  # elements that one block of threads adds up


def _shifted(x: Any) -> tuple:
    """(x − max x, whether the row is all −∞), as in softmax.py."""
    top = x.max(axis=-1, keepdims=True)
    masked = top == -np.inf
    return less_the_largest(x, np.where(masked, 0, top)), masked


def less_the_largest(x: Any, top: Any) -> Any:
    """x − top; where top is +∞, 0 for elements that are +∞ and −∞ for the others."""
    endless = top == np.inf
    limit = np.where(x == np.inf, 0, -np.inf).astype(x.dtype)
    return np.where(endless, limit, x - np.where(endless, 0, top))


def softmax(x: Any) -> list:
    """softmax along the last axis; a row of all −∞ gives zeros."""
    shifted, masked = _shifted(x)
    e = np.exp(shifted)
    return [e / np.where(masked, 1, e.sum(axis=-1, keepdims=True))]


def softmax_dx(a: Any, p: Any) -> list:
    return [_settled(p * (a - (a * p).sum(axis=-1, keepdims=True)), p)]


def _settled(y: Any, p: Any) -> Any:
    """y, which sums to 0; where p is nearly 1, minus the sum of the others (see softmax.py)."""
    whole = np.abs(np.abs(p).sum(axis=-1, keepdims=True) - 1) < 1e-3
    places = (p > NEARLY_ALL) & whole
    y = np.where(places, 0, y)
    return np.where(places, -y.sum(axis=-1, keepdims=True), y)


def log_softmax(x: Any) -> list:
    """[log softmax along the last axis, −∞ for a row that is all −∞; which rows are]."""
    shifted, masked = _shifted(x)
    top = shifted == 0
    others = np.where(top, 0, np.exp(shifted)).sum(axis=-1, keepdims=True)
    ties = np.where(top, 1, 0).astype(x.dtype).sum(axis=-1, keepdims=True)
    return [shifted - np.log1p(np.where(masked, 0, others + ties - 1)), masked]


def log_softmax_dx(a: Any, log_p: Any, masked: Any) -> list:
    p = np.exp(log_p)
    y = _settled(a - p * a.sum(axis=-1, keepdims=True), p)
    return [np.where(masked, 0, y)]


ROWS: dict[str, Callable] = {
    "softmax": softmax,
    "softmax_dx": softmax_dx,
    "log_softmax": log_softmax,
    "log_softmax_dx": log_softmax_dx,
}


def _along_last(words: Callable) -> Callable:
    """A forward along the last axis as one kernel that takes a row at a time."""

    def forward(*xs: Any, axis: Any = -1) -> Any:
        shape = xs[0].shape
        if not shape or not shape[-1] or axis not in (-1, len(shape) - 1, (len(shape) - 1,)):
            return None
        if not is_floating(xs[0].dtype) or len(xs) > 1 and xs[1].shape != shape:
            return None
        ys = launch.run((words,), words, xs)
        return None if ys is None else tuple(ys) if len(ys) > 1 else ys[0]

    return forward


for _name, _words in ROWS.items():
    on_gpu(_name)(_along_last(_words))


@on_gpu("sum")
def sum_(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """A sum that keeps neighbouring axes, such as the gradient of a bias, in a fixed order.

    The axes after the kept ones are summed by rows, then the axes before them by columns. A sum
    that keeps no axis is one row, if that is short enough for one block of threads.
    """
    if dtype is not None or not is_floating(x.dtype) or type(axis) not in (int, tuple, type(None)):
        return None
    axes = (axis,) if isinstance(axis, int) else axis
    way = _way(x.shape, axes, keepdims)
    if way is None:
        return None
    lead, inner, kept, full = way
    ys: list | None = [x]
    if inner > 1:
        wide = _wide(x.dtype)
        words = _row_sum(wide if lead > 1 else x.dtype, wide)
        ys = launch.run(("sum", lead > 1, wide), words, [x.reshape((lead, prod(kept), inner))])
    if ys is not None and lead > 1:
        ys = columns_sum("sum", _same, ys, lead, kept, x.dtype)
    return None if ys is None else shaped(ys[0], full)


@cache
def _wide(dtype: Any) -> Any:
    """The dtype in which elements of this dtype are summed."""
    return np.dtype(accumulator(dtype) or dtype)


@lru_cache(maxsize=1024)
def _way(shape: tuple, axes: tuple | None, keepdims: bool) -> tuple | None:
    """(elements before the axes that a sum keeps, those after them, the kept lengths, y's shape).

    None where the kept axes are not neighbours, no axis is summed, or the row is too long. None
    also where an axis does not exist or is repeated: the op then raises the error.
    """
    n = len(shape)
    axes = tuple(range(n)) if axes is None else axes
    out = {k % n for k in axes if -n <= k < n}
    if len(out) < len(axes):
        return None
    kept = [k for k in range(n) if k not in out]
    size = prod(shape)
    if not size or len(kept) == n:
        return None
    full = tuple([length if k in kept else 1 for k, length in enumerate(shape)])
    if not kept:
        return (1, size, (), full if keepdims else ()) if 1 < size <= _LONGEST else None
    if kept != list(range(kept[0], kept[-1] + 1)):
        return None
    lead, inner = prod(shape[: kept[0]]), prod(shape[kept[-1] + 1 :])
    if lead == inner == 1:
        return None
    lengths = shape[kept[0] : kept[-1] + 1]
    return lead, inner, lengths, full if keepdims else lengths


def _same(x: Any) -> Any:
    return x


@cache
def _row_sum(dtype: Any, wide: Any) -> Callable:
    return lambda x: [x.astype(wide).sum(axis=-1, keepdims=True).astype(dtype)]


def columns_sum(
    key: Any, fn: Callable, xs: list, rows: int, shape: tuple, dtype: Any = None
) -> list | None:
    """Σ over the rows of fn(…), computed in at least float32, cast to `dtype` (None: xs[0]'s).

    The arrays are reshaped to (rows, columns); smaller ones must already broadcast to that.
    """
    columns, dtype = prod(shape), dtype or xs[0].dtype
    if not rows or not columns:
        return None
    wide, full = _wide(xs[0].dtype), rows * columns
    if xs[0].shape != (rows, columns) or len(xs) > 1:
        xs = [x.reshape((rows, columns)) if x.size == full else x for x in xs]

    def summands(*symbols: Any) -> list:
        ys = fn(*[s.astype(wide) for s in symbols])
        return list(ys) if isinstance(ys, list | tuple) else [ys]

    ys = launch.run_columns((key, wide), summands, xs)
    return ys and [y if y.dtype == dtype else y.astype(dtype) for y in ys]
