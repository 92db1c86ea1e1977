"""Reads and sums along an axis, of large arrays: by one flat index, in blocks.

The index of NumPy's take_along_axis has as many arrays as x has axes.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import scratch, spans
from ...backends.pool import share
from ...ops.axes import axis_of, widen
from .rows import MANY, least


def take_along(x: Any, index: Any, axis: int) -> Any:
    """np.take_along_axis of a large array; else None."""
    if not (_are_many(index) and type(x) is np.ndarray and x.flags.c_contiguous):
        return None
    axis = axis_of(axis, x.ndim)
    if not _has_all_lines(index, axis, x.shape):
        return None
    flat, y = x.reshape(-1), np.empty(index.shape, x.dtype)
    places = _Along(index, axis, x.shape)
    # the indices are checked already: "clip" writes to y directly, "raise" through a copy
    share(lambda rows: flat.take(places(rows), out=y[rows], mode="clip"), places.pieces)
    return y


def add_along(g: Any, index: Any, axis: int, shape: tuple) -> Any:
    """Zeros of `shape` with g added at the index along `axis`, in the order of the elements of g;
    None unless it is large.
    """
    if not (_are_many(index) and type(g) is np.ndarray and g.shape == index.shape):
        return None
    axis = axis_of(axis, len(shape))
    if not _has_all_lines(index, axis, shape):
        return None
    wide, places = widen(g), _Along(index, axis, shape)
    y = np.zeros(prod(shape), wide.dtype)
    for rows in places.pieces:
        np.add.at(y, places(rows).reshape(-1), wide[rows].reshape(-1))
    return y.reshape(shape).astype(g.dtype, copy=False)


def _are_many(index: Any) -> bool:
    return type(index) is np.ndarray and index.size >= MANY and index.dtype.kind == "i"


def _has_all_lines(index: np.ndarray, axis: int, shape: tuple) -> bool:
    """Whether the index has entries for each line of an array of `shape`, without broadcasting."""
    return index.ndim == len(shape) and all(
        k == axis or m == n for k, (m, n) in enumerate(zip(index.shape, shape))
    )


class _Along:
    """The flat indices into an array of `shape` for an index along `axis`, in blocks.

    A block stays in the cache from its bounds check to its use, and the whole is never in memory.
    """

    BLOCK = 1 << 15  # indices

    def __init__(self, index: np.ndarray, axis: int, shape: tuple):
        self.index, self.axis, self.n = index, axis, shape[axis]
        self.stride = prod(shape[axis + 1 :])
        step = max(1, self.BLOCK * len(index) // index.size)
        self.pieces = spans(len(index), step)
        lines = np.arange(prod(shape) // max(self.n, 1)).reshape(
            (*shape[:axis], 1, *shape[axis + 1 :])
        )
        # line (i, k) begins at i n stride + k, where i counts along the axes before this one
        self.starts = lines % self.stride + lines // self.stride * (self.n * self.stride)

    def __call__(self, rows: slice) -> np.ndarray:
        """The flat indices of index[rows], in scratch memory of this thread."""
        index, n = self.index[rows], self.n
        low = least(index, n)
        places = scratch.empty("block 0", index.shape, index, np.intp)
        if low < 0:
            index = np.where(index < 0, index + n, index)
        if self.stride > 1:
            index = np.multiply(index, self.stride, out=places)
        starts = self.starts if self.axis == 0 else self.starts[rows]
        return np.add(index, starts, out=places)
