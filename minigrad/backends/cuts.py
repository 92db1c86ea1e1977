"""Cutting large arrays for an elementwise function: their views, and the pieces of the views."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from .caches import cached
from .leaving import left_always

# NumPy 2.3 and later copies a broadcast operand, and the other operand, through a buffer of 8,192
# elements, even where rows are long enough to be read in place. It skips a buffer that is smaller
# than a row.
BUFFER = 512
FOLDED = 2048  # entries of a run of joined short rows
FEW_ROWS = 4  # rows from which it pays to copy the values that all rows share

# These have special loops for a row and a number; others are faster through the buffer.
_QUICK_BESIDE_A_NUMBER = {np.add, np.subtract, np.multiply, np.divide}
_AS_IT_IS = nullcontext()


class Cut(NamedTuple):
    """Views of arrays, and pieces along the first axis of the views.

    Arrays of one shape are each cut as one long run. Where some are broadcast, the views are
    matrices: of all rows, of one row, or of one column.
    """

    views: dict[int, Any]  # by id of the array
    like: Any  # the array with the shape of the results, and their order:
    order: tuple
    view: Callable[[Any], Any]  # of an array in the order of `like`
    corner: Any  # the index of the first few entries
    corner_shape: tuple
    pieces: list[slice]
    context: AbstractContextManager


def memory_order(arrays: list) -> tuple | None:
    """The axes by decreasing stride, if all arrays are contiguous in this order; else None."""
    first = arrays[0]
    if any(type(x) is not np.ndarray or x.shape != first.shape for x in arrays):
        return None
    if all(x.flags.c_contiguous for x in arrays):
        return tuple(range(first.ndim))
    order = tuple(sorted(range(first.ndim), key=lambda k: -first.strides[k]))
    return order if all(x.transpose(order).flags.c_contiguous for x in arrays) else None


def along_memory(arrays: list, block: int) -> Cut | None:
    """The cut of arrays of one shape and order into blocks of `block` elements."""
    order = memory_order(arrays)
    if order is None:
        return None

    def view(x: Any) -> Any:
        return x.transpose(order).reshape(-1)

    first = arrays[0]
    views, pieces = {id(x): view(x) for x in arrays}, spans(first.size, block)
    return Cut(views, first, order, view, slice(0, 2), (2,), pieces, _AS_IT_IS)


def in_rows(fn: Callable, arrays: list, block: int) -> Cut | None:
    """The cut where some arrays are broadcast against the largest.

    In memory order they must all broadcast along the first axes (x + bias), or all along the last
    ones (x − mean of each row). Arrays of the first kind are copied to one row. Several short rows
    are joined into one, since NumPy starts its loop again for each row.
    """
    first = max(arrays, key=lambda x: x.size)
    full = [x for x in arrays if x.shape == first.shape]
    order = memory_order(full)
    if order is None:
        return None
    shape, axes = [first.shape[k] for k in order], first.ndim
    others = {}
    for x in arrays:
        if x.shape == first.shape:
            continue
        if type(x) is not np.ndarray or x.ndim > axes:
            return None
        others[id(x)] = x.reshape((*(1,) * (axes - x.ndim), *x.shape)).transpose(order)
    span = _varying([x.shape for x in others.values()], shape)
    if span is None:
        return None
    low, high = span
    n, m, quick = prod(shape[:low]), prod(shape[low:]), True
    if n >= FEW_ROWS:
        together = divisor(n, FOLDED // m) if 2 * m <= FOLDED else 1
        n, m = n // together, m * together
        row = (together, *shape[low:])
        views = {k: filled(row, x[(0,) * low]).reshape((1, m)) for k, x in others.items()}
    else:
        n, m, quick = prod(shape[:high]), prod(shape[high:]), fn in _QUICK_BESIDE_A_NUMBER
        if m == 1 or (m <= BUFFER and first.size <= block):
            return None  # they vary along all axes; or only threads would gain
        column, first_of = shape[:high], (..., *(0,) * (axes - high))
        views = {k: filled(column, x[first_of]).reshape((n, 1)) for k, x in others.items()}

    def view(x: Any) -> Any:
        return x.transpose(order).reshape((n, m))

    views |= {id(x): view(x) for x in full}
    rows, corner = max(1, block // m), (slice(0, 1), slice(0, 2))
    return Cut(
        views, first, order, view, corner, (1, min(m, 2)), spans(n, rows),
        small_buffer() if quick and m > BUFFER else _AS_IT_IS,
    )  # fmt: skip


def _varying(shapes: list, shape: list) -> tuple[int, int] | None:
    """(low, high): arrays of these shapes vary only along the axes low..high − 1 of `shape`.

    None where one does not broadcast to it: an error, or a result larger than any argument.
    """
    low, high = len(shape), 0
    for lengths in shapes:
        for k, n in enumerate(lengths):
            if n not in (1, shape[k]):
                return None
            if n > 1:
                low, high = min(low, k), max(high, k + 1)
    return low, high


def filled(shape: Any, x: Any) -> Any:
    """A new array of this shape: x, repeated along the axes that x lacks."""
    y = np.empty(shape, x.dtype)
    y[...] = x
    return y


@cached("divisors", max_entries=1024)
def divisor(n: int, most: int) -> int:
    """The largest divisor of n up to `most`; 0 if there is none."""
    return next((d for d in range(min(n, most), 0, -1) if n % d == 0), 0)


def spans(n: int, step: int) -> list[slice]:
    """0..n in slices of `step`, the last one shorter."""
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


class small_buffer:
    """Inside, NumPy reads runs of more than BUFFER elements in place."""

    before = 0

    def __enter__(self) -> None:
        self.before = np.getbufsize()
        np.setbufsize(BUFFER)

    @left_always(attrgetter("before"))
    def __exit__(self, *exc: Any) -> None:
        np.setbufsize(self.before)
        self.before = 0
