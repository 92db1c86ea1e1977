"""x[index] and x[index] = v under vmap where integers in the index, or a mask that is the
whole index, differ between examples.

An index has one item for each axis: slices, None, and positions (integers, arrays of them). The
axes with positions are moved to the front and become one, whose entries are rows. The positions
become row numbers, which are arguments of take and put_along_axis, and so may differ. The slices
and None are the same for all examples, and are applied before. A write to a mask is mg.where; a
read would have another length in each example.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..engine.graph import raw
from ..engine.registry import op as ops
from ..errors import TransformError
from ..ops.axes import constant_like

__all__ = ["EachIndex", "each_index"]


def each_index(index: Any) -> "EachIndex | EachMask | None":
    """The index, if it is a mask, or made of positions, slices, None and an Ellipsis alone."""
    mask: Any = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if hasattr(mask, "dtype") and mask.dtype.kind == "b":
        return EachMask(mask)
    items = [_as_position(item) for item in (index if isinstance(index, tuple) else (index,))]
    known = all(item is None or isinstance(item, slice | _ELLIPSIS) or _is_position(item)
                for item in items)  # fmt: skip
    return EachIndex(items) if known else None


_ELLIPSIS = type(Ellipsis)


def _as_position(item: Any) -> Any:
    """A list of integers as an array of them."""
    numbers = isinstance(item, list) and all(isinstance(i, int | np.integer) for i in item)
    return np.asarray(item, np.intp) if numbers and bool not in map(type, item) else item


def _is_position(item: Any) -> bool:
    if isinstance(item, bool | int):
        return not isinstance(item, bool)
    return hasattr(item, "dtype") and item.dtype.kind in "iu"


class EachIndex:
    """An index some of whose positions differ from example to example."""

    def __init__(self, items: Sequence):
        self.items = items

    def read(self, x: Any) -> Any:
        """x[index]; IndexError beyond an axis, in any example."""
        rows = _Rows(x, self.items)
        found = ops.take(rows.values, rows.positions, axis=0)
        return ops.moveaxis(found, source=rows.front, destination=rows.middle)

    def write(self, x: Any, value: Any) -> Any:
        """A copy of x with x[index] = value; of two writes to one position the last wins."""
        rows, value = _Rows(x, self.items), _there(value, x)
        shape = rows.values.shape
        count = prod(rows.positions.shape)
        positions = ops.reshape(rows.positions, shape=(count, *(1,) * (len(shape) - 1)))
        value = ops.reshape(rows.fitted(value), shape=(count, *shape[1:]))
        written = ops.put_along_axis(rows.values, positions, value, axis=0)
        return ops.setitem(x, rows.back(written), index=rows.basic)

    def add(self, x: Any, value: Any) -> Any:
        """x with value added at x[index]; repeats add up."""
        rows = _Rows(x, self.items)
        added = ops.take_dx(rows.fitted(value), rows.positions, axis=0, shape=rows.values.shape)
        return x + ops.getitem_dx(rows.back(added), index=rows.basic, shape=x.shape)


class EachMask:
    """A mask that differs from example to example, as the whole index."""

    def __init__(self, mask: Any):
        self.mask = mask

    def read(self, x: Any) -> Any:
        raise TransformError(
            f"x[mask] inside vmap: as many elements as the mask {describe(self.mask)} has "
            "positions that are true, so the results of the examples would differ in shape; "
            "mg.where(mask, x, other) keeps the shape (0 in a sum, -mg.inf in a maximum), and "
            "x[mask] = v and mg.setitem can write one v to all these positions"
        )

    def write(self, x: Any, value: Any) -> Any:
        """A copy of x with x[mask] = value, the same value at all positions of the mask."""
        mask, value = self._fitted(x, _there(value, x))
        return ops.where(mask, ops.astype(value, dtype=x.dtype, copy=False), x)

    def add(self, x: Any, value: Any) -> Any:
        """x with value added at x[mask]."""
        mask, value = self._fitted(x, value)
        return x + ops.where(mask, value, 0)

    def _fitted(self, x: Any, value: Any) -> tuple:
        """The mask and the value, as they broadcast against x."""
        mask, shape, rest = self.mask, np.shape(value), x.shape[self.mask.ndim :]
        if mask.shape != x.shape[: mask.ndim]:
            raise IndexError(f"x[mask]: the mask, {describe(mask)}, does not fit x, {describe(x)}")
        ahead = max(len(shape) - len(rest), 0)
        if shape[:ahead] != (1,) * ahead:
            raise TransformError(
                f"x[mask] = v inside vmap: v, {describe(value)}, has a value for each position of "
                "the mask, whose number differs from example to example; give one of shape "
                f"{rest} for all of them, or write x = mg.where(mask, v, x) with a v like x"
            )
        if np.iscomplexobj(value) and x.dtype.kind != "c":
            raise TypeError(f"x[mask] = {describe(value)}: {describe(x)} has no imaginary parts")
        value = ops.reshape(value, shape=shape[ahead:])
        return ops.reshape(mask, shape=(*mask.shape, *(1,) * len(rest))), value


def _there(value: Any, x: Any) -> Any:
    """A value that is not an array, such as the 0 of x[i] = 0, as one where x is."""
    return value if hasattr(value, "dtype") else constant_like(np.asarray(value), x)


class _Rows:
    """x as rows, and which of them an index names.

    values   the rows, along the first axis of what the slices of the index leave of x
    positions   numbers of rows
    front, middle   the axes of the positions in what is read row by row, and in x[index]
    basic    the index with a whole slice in place of each position
    """

    def __init__(self, x: Any, items: Sequence):
        items = _one_for_each_axis(x, items)
        self.named = [k for k, item in enumerate(items) if _is_position(item)]
        self.basic = tuple([slice(None) if _is_position(item) else item for item in items])
        sliced = ops.getitem(x, index=self.basic)
        count = len(self.named)
        named_first = ops.moveaxis(sliced, source=self.named, destination=range(count))
        self.shape = named_first.shape
        lengths, self.rest = self.shape[:count], self.shape[count:]
        self.positions = _numbered([items[k] for k in self.named], lengths)
        self.values = ops.reshape(named_first, shape=(prod(lengths), *self.rest))
        # NumPy's rule: the axes of positions that stand side by side stay there, else they come
        # first
        side_by_side = self.named[-1] - self.named[0] == count - 1
        self.start = self.named[0] if side_by_side else 0
        self.front = range(self.positions.ndim)
        self.middle = range(self.start, self.start + self.positions.ndim)

    def fitted(self, value: Any) -> Any:
        """value, as it is assigned to x[index], with the axes of the positions in front."""
        start, rest = self.start, self.rest
        shape = (*rest[:start], *self.positions.shape, *rest[start:])
        ones = max(np.ndim(value) - len(shape), 0)  # x[i] = v ignores axes of length 1 before v's
        if ones and np.shape(value)[:ones] == (1,) * ones:
            value = ops.reshape(value, shape=np.shape(value)[ones:])
        value = ops.broadcast_to(value, shape=shape)
        return ops.moveaxis(value, source=self.middle, destination=self.front)

    def back(self, rows: Any) -> Any:
        """Rows like `values` in the order that x has where the slices are applied."""
        rows = ops.reshape(rows, shape=self.shape)
        return ops.moveaxis(rows, source=range(len(self.named)), destination=self.named)


def _one_for_each_axis(x: Any, items: Sequence) -> list:
    """The items with slices in place of an Ellipsis and of what is left out at the end."""
    items = list(items)
    given = sum(item is not None and item is not Ellipsis for item in items)
    if given > x.ndim:
        raise IndexError(f"x[index]: {given} indices for {describe(x)}")
    at = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(at) > 1:
        raise IndexError("x[index]: an index has one Ellipsis, '...', at the most")
    at = at or [len(items)]
    return [*items[: at[0]], *[slice(None)] * (x.ndim - given), *items[at[0] + 1 :]]


def _numbered(items: Sequence, lengths: Sequence) -> Any:
    """Positions along several axes as numbers along the one that these become."""
    number: Any = 0
    for k, (item, n) in enumerate(zip(items, lengths, strict=True)):
        values = np.asarray(item) if isinstance(item, int) else raw(item)
        if ((values < -n) | (values >= n)).any():
            raise IndexError(
                f"x[index]: position {k} of the index is beyond its axis, of length {n}"
            )
        item = ops.astype(item if hasattr(item, "astype") else values, dtype=np.intp)  # int8 ends
        number = number * n + ops.where(item < 0, item + n, item)
    return number
