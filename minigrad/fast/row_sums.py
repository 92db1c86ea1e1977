"""Sums and extrema along rows on plain arrays.

NumPy's reductions start their loop again for each row: `einsum` adds up short rows, or they are
turned into columns.
"""

from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..backends.blocks import scratch
from ..backends.cuts import FOLDED, divisor, small_buffer
from ..backends.device import array_module
from ..ops.axes import axes_of

FEW = 1 << 12  # elements; below, finding rows takes longer than NumPy's sum
FEW_MAXIMA = 1 << 10  # the same for NumPy's maximum
SHORT_ROW = 24  # entries; the maxima of rows up to this length are faster as columns
SHORT_SUM = 8  # the same for their sums


def as_rows(a: Any, axis: tuple) -> Any:
    """a with `axis` as one last axis, a view; None if no view has this shape or a is not
    NumPy's."""
    trailing = axis == tuple(range(a.ndim - len(axis), a.ndim))
    if not axis or not trailing or not a.flags.c_contiguous or array_module(a) is not np:
        return None
    return a.reshape((*a.shape[: a.ndim - len(axis)], -1))


def _short_rows(a: Any, axis: tuple, many: int, longest: int) -> Any:
    """a's rows as the columns of a matrix; None if `axis` is not the last one, or if the rows are
    longer than `longest` or, `many` times their length, larger than a.

    Starting NumPy's loop takes longer than a short row itself; whole columns are added at once.
    """
    if axis != (a.ndim - 1,) or not many * a.shape[-1] <= a.size > 0 or a.shape[-1] > longest:
        return None
    if type(a) is not np.ndarray or not (a.ndim == 2 or a.flags.c_contiguous):
        return None
    return a.reshape((-1, a.shape[-1])).T.copy()


LEAST_FOLDED = 256  # rows that are worth folding


def folds(a: Any) -> bool:
    """Whether sum_of_rows suits the rows of a: NumPy floats, and many short rows."""
    m = a.shape[-1]
    return (
        0 < 2 * m <= FOLDED
        and a.size >= max(LEAST_FOLDED * m, FEW)
        and isinstance(a, np.ndarray)  # or a traced array, which claims to be an ndarray
        and a.dtype.char in "fdFD"
        and a.flags.c_contiguous
    )


def sum_of_rows(a: Any) -> Any:
    """Σ of the rows of a matrix (n, m) -> (m,).

    NumPy adds up row by row, and starts its loop again for each. Several rows joined into one make
    fewer and longer rows, and a sum of sums is also more exact.
    """
    n, m = a.shape
    together = divisor(n, FOLDED // m)
    return np.add.reduce(np.add.reduce(a.reshape((n // together, -1))).reshape((together, m)))


MANY = 1 << 17  # elements; from here on rows of 128 and more are worth folding, too


def on_each_row(function: np.ufunc, a: Any, row: Any) -> None:
    """a = function(a, row) for every row of a contiguous matrix a, in place.

    If rows are short, NumPy first copies a and the row through a buffer (see BUFFER). Several rows
    joined into one are read in place.
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


LEAST_ROWS = 16  # rows from which this is faster
LONGEST_RUN, SHORTEST_RUN = 256, 16


def rows_along(x: Any, axis: Any) -> Any:
    """x as a matrix whose rows lie along `axis` (an int or a tuple: its last axes), a view; None
    where no such view exists, or NumPy's own reduction is as fast.
    """
    if x.size < FEW or axis is None or not isinstance(x, np.ndarray) or x.dtype.char not in "fd":
        return None
    if isinstance(axis, list):  # NumPy raises the error
        return None
    axes, start = axes_of(axis, x.ndim), x.ndim
    start -= len(axes)
    if not axes or not x.flags.c_contiguous or {*axes} != {*range(start, x.ndim)}:
        return None
    n = prod(x.shape[:start])
    return x.reshape((n, -1)) if n >= LEAST_ROWS else None


def left_of(shape: tuple, axis: Any, keepdims: bool) -> tuple:
    """The shape that remains when its last axes, as many as `axis` names, are reduced."""
    count = len(axis) if type(axis) is tuple else 1
    return (*shape[: len(shape) - count], *(1,) * (count if keepdims else 0))


def sum_of_each_row(a: Any) -> Any:
    """Σ of each row of a contiguous matrix (n, m) -> (n,).

    `einsum` adds up 64 float32 columns side by side, which is more exact than NumPy's sum for rows
    of up to LONGEST_RUN. Longer rows are cut, and the sums of the parts are added up in the same
    way.
    """
    n, m = a.shape
    run = divisor(m, LONGEST_RUN)
    if run == m:
        return np.einsum("ij->i", a)
    if run < SHORTEST_RUN:
        return a.sum(1)
    return sum_of_each_row(np.einsum("ij->i", a.reshape((-1, run))).reshape((n, -1)))


def sum_over(a: Any, axis: tuple, wide: Any) -> Any:
    """Σ a over `axis`, which is kept, in the dtype `wide`."""
    columns = _short_rows(a, axis, 128, SHORT_SUM) if a.dtype == wide else None
    if columns is not None:
        return np.add.reduce(columns).reshape(_kept(a, axis))
    if a.size < FEW:
        return a.sum(axis, keepdims=True, dtype=wide)
    trailing = tuple([k for k in axis if {*range(k, a.ndim)} <= {*axis}])
    if a.dtype == wide and (rows := as_rows(a, trailing)) is not None:
        sums = sum_of_each_row(rows.reshape((-1, rows.shape[-1])))
        a = sums.reshape((*rows.shape[:-1], *(1,) * len(trailing)))
        axis = tuple([k for k in axis if k not in trailing])
    return a.sum(axis, keepdims=True, dtype=wide) if axis else a


# OpenBLAS shares longer products of float64 vectors between its threads, whose number would show in
# the last bits.
THREADED = 10_000


def sum_of_product(a: Any, b: Any, axis: tuple) -> Any:
    """Σ a b over `axis`, which is kept."""
    if a.size < FEW:
        return (a * b).sum(axis, keepdims=True)
    rows, others = as_rows(a, axis), as_rows(b, axis)
    if a.dtype.kind == "c" or b.dtype.kind == "c":  # vecdot would conjugate a
        return sum_over(a * b, axis, np.result_type(a, b))
    if rows is not None and others is not None:
        threaded = rows.shape[-1] > THREADED and rows.dtype.char == "d"
        dot = partial(np.einsum, "...k,...k->...") if threaded else np.vecdot
        return dot(rows, others).reshape(_kept(a, axis))
    product = np.multiply(a, b, out=scratch.empty("block 2", a.shape, b))
    return sum_over(product, axis, b.dtype)


def largest_over(a: Any, axis: tuple) -> Any:
    """max a over `axis`, which is kept; NaN where there is one."""
    columns = _short_rows(a, axis, 32, SHORT_ROW)
    if columns is not None:
        return np.maximum.reduce(columns).reshape(_kept(a, axis))
    rows = as_rows(a, axis) if a.size >= FEW_MAXIMA else None
    if rows is None:
        return a.max(axis, keepdims=True)
    return _extremum_of_each(np.maximum, rows).reshape(_kept(a, axis))


def extremum_of_each_row(function: np.ufunc, a: Any) -> Any:
    """The largest (np.maximum) or smallest of each row of a contiguous matrix (n, m) -> (n,)."""
    columns = _short_rows(a, (1,), 32, SHORT_ROW)
    return _extremum_of_each(function, a) if columns is None else function.reduce(columns)


def _extremum_of_each(function: np.ufunc, rows: Any) -> Any:
    """The same for rows of any length: `reduceat` needs less time to start with each row."""
    starts = np.arange(0, rows.size, rows.shape[-1])
    return function.reduceat(rows.reshape(-1), starts)
