"""Adding many rows into few: the gradient of every read by index is such a sum.

A key (the index in x[key]) is turned into one flat row number for each value read; then values
with the same number are added up. This needs no loop over elements, and no `np.add.at` on rows.
Single numbers take np.add.at on flat indices, rows a sparse product: the fastest of five ways
(benchmarks/lab/NOTES.md).
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.optional import optional
from ...ops.axes import widen
from ...ops.index.scattering import parts, reads_once

MANY = 4096  # fewer numbers are added faster than a sparse matrix is built


def add_at(g: Any, key: Any, shape: tuple) -> Any:
    """Zeros of `shape` with g added at `key`, as in ops/index/scattering.py, for NumPy arrays."""
    if reads_once(key):
        y = np.zeros(shape, g.dtype)
        y[key] = g
        return y
    return _add_rows(widen(g), key, shape).astype(g.dtype, copy=False)


def _add_rows(g: np.ndarray, key: Any, shape: tuple) -> np.ndarray:
    """The slices of the key select a view of y; its arrays become one flat row number."""
    slices, axes, arrays, front = parts(key, len(shape))
    y = np.empty(shape, g.dtype)
    view = y[slices]
    lengths = [view.shape[a] for a in axes]
    places = _flat(arrays, lengths)
    index = places.ravel()
    # g's axes: those of the index arrays are adjacent, in NumPy's position
    place = 0 if front else axes[0]
    picked = tuple(range(place, place + places.ndim))
    g = np.moveaxis(g, picked, range(len(picked)))
    rest = g.shape[len(picked) :]
    rows = sum_rows(g.reshape(index.size, prod(rest)), index, prod(lengths))
    whole = view.shape == shape and view.strides == y.strides  # not if a slice reverses an axis
    if whole and axes == list(range(len(axes))):
        return rows.reshape(shape)
    y[...] = 0
    np.moveaxis(view, axes, range(len(axes)))[...] = rows.reshape(*lengths, *rest)
    return y


def _flat(arrays: list[np.ndarray], lengths: list[int]) -> np.ndarray:
    """The flat number, in axes of these lengths, of each entry that the index arrays name."""
    total: Any = 0
    for i, n in zip(arrays, lengths, strict=True):
        low = least(i, n) if i.size else 0
        i = i.astype(np.intp, copy=False)
        total = total * n + (np.where(i < 0, i + n, i) if low < 0 else i)
    return total


def least(index: np.ndarray, n: int) -> Any:
    """The smallest of these numbers, which may count from the end; IndexError beyond −n … n − 1."""
    low, high = index.min(), index.max()
    if low < -n or high >= n:
        bad = low if low < -n else high
        raise IndexError(f"index {bad} is out of bounds for an axis of length {n}")
    return low


def sum_rows(rows: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    """y[k] = Σ rows[i] over the i with index[i] = k;  rows (m, d), index (m,) → y (n, d)."""
    m, d = rows.shape
    sparse = optional("scipy.sparse") if d > 1 and rows.size >= MANY else None
    if sparse is not None:  # else rows are added number by number
        if rows.dtype.kind == "c":  # as pairs of reals: a product with a complex 1 turns ∞ into NaN
            pairs = np.ascontiguousarray(rows).view(rows.dtype.char.lower())
            return sum_rows(pairs, index, n).view(rows.dtype)
        # column i of this matrix has a single 1, at row index[i]
        ones = np.ones(m, rows.dtype)
        return sparse.csc_array((ones, index, np.arange(m + 1)), shape=(n, m)) @ rows
    y = np.zeros(n * d, rows.dtype)
    places = index if d == 1 else (index[:, None] * d + np.arange(d)).ravel()
    np.add.at(y, places, rows.ravel())  # fast, since all three are one-dimensional
    return y.reshape(n, d)


def sum_weighted_rows(
    rows: np.ndarray, weights: np.ndarray, index: np.ndarray, n: int
) -> np.ndarray:
    """y[q] = Σ weights[i, k] rows[i] over the i, k with index[i, k] = q, all in 0 … n − 1.

    rows (m, d), weights and index (m, k) → y (n, d), of the rows' dtype.
    """
    m, k = index.shape
    sparse = optional("scipy.sparse") if rows.size * k >= MANY else None
    if sparse is None:
        values = weights[:, :, None] * rows[:, None, :]
        values = values.reshape((m * k, rows.shape[1])).astype(rows.dtype, copy=False)
        return sum_rows(values, index.ravel(), n)
    starts = np.arange(0, m * k + 1, max(k, 1))  # column i holds the k weights of row i
    weights = weights.astype(rows.dtype, copy=False).ravel()
    return sparse.csc_array((weights, index.ravel(), starts), shape=(n, m)) @ rows
