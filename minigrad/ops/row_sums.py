"""Sums and maxima over axes on plain arrays that keep the axes; sums along rows are BLAS's."""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..core.cuts import FOLDED, divisor, small_buffer
from .blocks import scratch

FEW = 1 << 12  # elements, below which finding rows takes longer than NumPy's sum
FEW_MAXIMA = 1 << 10  # and its maximum
SHORT_ROW = 24  # entries of a row up to which rows had better be columns


def as_rows(a: Any, axis: tuple) -> Any:
    """a with `axis` made one last axis, a view; None where that is no view or not NumPy's."""
    trailing = axis == tuple(range(a.ndim - len(axis), a.ndim))
    if not axis or not trailing or not a.flags.c_contiguous or array_module(a) is not np:
        return None
    return a.reshape((*a.shape[: a.ndim - len(axis)], -1))


def _short_rows(a: Any, axis: tuple, many: int) -> Any:
    """a's rows as the columns of a matrix, if `axis` is the last one and they are short and `many`.

    NumPy begins anew with each row, which takes longer than a short one itself, and adds whole
    columns at once: the largest of 4,096 rows of 10 179 → 20 µs with the copy, their sums 80 → 20.
    """
    if axis != (a.ndim - 1,) or not many * a.shape[-1] <= a.size > 0 or a.shape[-1] > SHORT_ROW:
        return None
    if type(a) is not np.ndarray or not (a.ndim == 2 or a.flags.c_contiguous):
        return None
    return a.reshape((-1, a.shape[-1])).T.copy()


LEAST_FOLDED = 256  # rows, for that


def folds(a: Any) -> bool:
    """Whether sum_of_rows is for the rows of a: floats of NumPy, and many short rows."""
    m = a.shape[-1]
    return (
        0 < 2 * m <= FOLDED
        and a.size >= max(LEAST_FOLDED * m, FEW)
        and isinstance(a, np.ndarray)  # or stands in for one while a tape is traced
        and a.dtype.char in "fdFD"
        and a.flags.c_contiguous
    )


def sum_of_rows(a: Any) -> Any:
    """Σ of the rows of a matrix (n, m) -> (m,).

    NumPy adds up row by row, and begins anew with each. Several rows as one are fewer and longer
    ones, and a sum of sums is also more exact. µs of 8,192×64 156 → 38, 4,096×10 69 → 16, 512×512
    36 → 23.
    """
    n, m = a.shape
    together = divisor(n, FOLDED // m)
    return np.add.reduce(np.add.reduce(a.reshape((n // together, -1))).reshape((together, m)))


MANY = 1 << 17  # elements, from which rows of 128 and more are worth the folding, too


def on_each_row(function: np.ufunc, a: Any, row: Any) -> None:
    """a = function(a, row) for every row of a contiguous matrix a, in place.

    NumPy copies a and the row through a buffer first, if its rows are short (see BUFFER). Several
    rows as one are taken as they lie. µs of a + b in float32, 512×512 37 → 25, 8,192×128 181 → 78,
    4,096×10 22 → 11.
    """
    n, m = a.shape
    together = divisor(n, FOLDED // m) if a.size >= MANY and 2 * m <= FOLDED else 1
    if together * m < FOLDED // 2 or type(a) is not np.ndarray or row.dtype != a.dtype:
        function(a, row, out=a)
        return
    rows = np.empty((together, m), row.dtype)
    rows[...] = row
    folded = a.reshape((n // together, together * m))
    with small_buffer():
        function(folded, rows.reshape(-1), out=folded)


def _kept(a: Any, axis: tuple) -> list:
    """a's shape with length 1 along `axis`."""
    return [1 if k in axis else n for k, n in enumerate(a.shape)]


def sum_over(a: Any, axis: tuple, wide: Any) -> Any:
    """Σ a over `axis`, which keeps its place, in the dtype `wide`.

    Along rows it is a product with ones, at a third of the time of a sum.
    """
    columns = _short_rows(a, axis, many=128) if a.dtype == wide else None
    if columns is not None:
        return np.add.reduce(columns).reshape(_kept(a, axis))
    if a.size < FEW:
        return a.sum(axis, keepdims=True, dtype=wide)
    trailing = tuple([k for k in axis if {*range(k, a.ndim)} <= {*axis}])
    if a.dtype == wide and (rows := as_rows(a, trailing)) is not None:
        sums = np.vecdot(np.ones(rows.shape[-1], wide), rows)  # which conjugates its first
        a = sums.reshape((*sums.shape, *(1,) * len(trailing)))
        axis = tuple([k for k in axis if k not in trailing])
    return a.sum(axis, keepdims=True, dtype=wide) if axis else a


def sum_of_product(a: Any, b: Any, axis: tuple) -> Any:
    """Σ a b over `axis`, which keeps its place."""
    if a.size < FEW:
        return (a * b).sum(axis, keepdims=True)
    rows, others = as_rows(a, axis), as_rows(b, axis)
    if a.dtype.kind == "c" or b.dtype.kind == "c":  # vecdot would conjugate a
        return sum_over(a * b, axis, np.result_type(a, b))
    if rows is not None and others is not None:
        return np.vecdot(rows, others).reshape(_kept(a, axis))
    product = np.multiply(a, b, out=scratch.empty("block 2", a.shape, b))
    return sum_over(product, axis, b.dtype)


def largest_over(a: Any, axis: tuple) -> Any:
    """max a over `axis`, which keeps its place; NaN where there is one.

    A reduction of NumPy's takes 50 ns to begin with each row, and `reduceat` 20: 119 and 57 µs for
    2,048 rows of 64.
    """
    columns = _short_rows(a, axis, many=32)
    if columns is not None:
        return np.maximum.reduce(columns).reshape(_kept(a, axis))
    rows = as_rows(a, axis) if a.size >= FEW_MAXIMA else None
    if rows is None:
        return a.max(axis, keepdims=True)
    starts = np.arange(0, a.size, rows.shape[-1])
    return np.maximum.reduceat(a.reshape(-1), starts).reshape(_kept(a, axis))
