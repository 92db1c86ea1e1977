"""x[i] under vmap with an index of its own for each example: a take along the first axes."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..core.errors import describe
from ..core.registry import op as ops
from ..core.tensor import raw

__all__ = ["read_each", "rows_named"]


def rows_named(index: Any) -> list:
    """The items of an index that is made of whole numbers and arrays of them; [] for others."""
    items = list(index) if isinstance(index, tuple) else [index]
    while items and _is_whole(items[-1]):  # x[i, :] and x[i, ...] are x[i]
        items.pop()
    dtypes = [getattr(i, "dtype", np.dtype(type(i)) if isinstance(i, int) else None) for i in items]
    return items if all(dtype is not None and dtype.kind in "iu" for dtype in dtypes) else []


def _is_whole(item: Any) -> bool:
    return item is Ellipsis or isinstance(item, slice) and item == slice(None)


def read_each(x: Any, items: Sequence) -> Any:
    """x[items], the items whole numbers or arrays of them, one for each of x's first axes.

    The axes become one, and the items places along it. IndexError beyond an axis, in any example.
    """
    if len(items) > x.ndim:
        raise IndexError(f"x[index]: {len(items)} indices for {describe(x)}")
    lengths = x.shape[: len(items)]
    if len(items) == 1:
        return ops.take(x, items[0], axis=0)
    place: Any = 0
    for axis, (item, n) in enumerate(zip(items, lengths, strict=True)):
        values = np.asarray(raw(item)) if isinstance(item, int) else raw(item)
        if ((values < -n) | (values >= n)).any():
            raise IndexError(f"x[index]: index {axis} is beyond axis {axis}, of length {n}")
        place = place * n + ops.where(item < 0, item + n, item)
    rows = ops.reshape(x, shape=(prod(lengths), *x.shape[len(items) :]))
    return ops.take(rows, place, axis=0)
