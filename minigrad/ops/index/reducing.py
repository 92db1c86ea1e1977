"""Values that go to the same place, combined there: their sum, product, mean or extremum."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...backends.device import device_of, to_device, to_host
from ...backends.dtypes import common_dtype, is_floating
from ...core.primitive import composite, primitive
from ...core.registry import op
from ..axes import array_beside, array_like, axis_of, constant_array, constant_like

__all__ = ["index_reduce", "scatter_reduce"]


@primitive(differentiable=False, outputs=3)
def scatter_rows(index, *, axis, shape, lead=0):
    """(places, reads, there): what each place of a scatter gets, as a row of flat numbers

    index (…, k, l) with `lead` axes of examples in front; shape: that of x, into which src goes.
    places (…, t): the flat places of x that some src goes to; reads (…, t, m): the flat places of
    src that go there, where `there` (…, t, m). An example with fewer places repeats its last one.
    """
    device, index = device_of(index), to_host(index)
    examples, own = index.shape[:lead], index.shape[lead:]
    index = index.reshape((prod(examples), *own))
    if index.size and not (0 <= index.min() and index.max() < shape[axis]):
        raise ValueError(
            f"index has numbers from {index.min()} to {index.max()}, but x {tuple(shape)} has "
            f"places 0..{shape[axis] - 1} along axis {axis}"
        )
    key = list(np.indices(own, sparse=True))
    key[axis] = index
    goal = np.ravel_multi_index(key, shape).reshape((len(index), prod(own)))
    order = np.argsort(goal, axis=1, kind="stable")
    goal = np.take_along_axis(goal, order, 1)
    first = np.ones(goal.shape, bool)
    first[:, 1:] = goal[:, 1:] != goal[:, :-1]
    row, count = np.cumsum(first, 1) - 1, np.arange(goal.shape[1])
    column = count - np.maximum.accumulate(np.where(first, count, 0), 1)
    size = (len(index), row.max(initial=-1) + 1, column.max(initial=0) + 1)
    places, reads, there = (
        np.zeros(size[:2], np.intp),
        np.zeros(size, np.intp),
        np.zeros(size, bool),
    )
    example = np.arange(len(index))[:, None]
    places[example, row] = goal
    reads[example, row, column] = order
    there[example, row, column] = True
    line = np.minimum(np.arange(size[1]), row[:, -1:])
    return tuple(
        [
            to_device(y[example, line].reshape((*examples, *y.shape[1:])), device)
            for y in (places, reads, there)
        ]
    )


@scatter_rows.batch
def scatter_rows_batch(op_, xs, batched, params):
    return op_(xs[0], **{**params, "lead": params["lead"] + 1})


@composite
def scatter_reduce(
    x: Any, axis: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """x with src[i, j] combined into [index[i, j], j] for axis=0: PyTorch's scatter_reduce

    reduce: sum, prod, mean, amax or amin. Without include_self, x's entry does not count where
    some src goes. Means of integers are rounded down. Ties of amax and amin share the gradient
    equally. What goes to one place is put side by side, as a row that the op of that name reduces:
    memory (places × most of one place).
    """
    x, index = array_like(x), _constant(index)
    if reduce not in _REDUCE:
        raise ValueError(f"scatter_reduce: reduce is one of {', '.join(_REDUCE)}, got {reduce!r}")
    axis, src = axis_of(axis, x.ndim), array_beside(src, x)
    if (
        index.ndim != x.ndim
        or src.ndim != x.ndim
        or any(n > m for n, m in zip(index.shape, src.shape))
        or any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape)) if i != axis)
    ):
        raise ValueError(
            f"scatter_reduce: x {x.shape}, index {index.shape} and src {src.shape} need the same "
            "number of axes, src must be as large as index, and index no larger than x but along "
            f"axis {axis}"
        )
    if not index.size:
        return x + 0
    src = src[tuple([slice(n) for n in index.shape])]
    if is_floating(x.dtype):  # the mean of whole numbers is no whole number then
        src = op.astype(src, dtype=common_dtype(src.dtype, x.dtype), copy=False)
    plan = op.scatter_rows(index, axis=axis, shape=x.shape)
    places, reads, there = [constant_like(a, x) if type(a) is np.ndarray else a for a in plan]
    function, neutral = _REDUCE[reduce]
    fill = neutral if is_floating(x.dtype) or np.isfinite(neutral) else _least(x.dtype, neutral)
    rows = op.where(there, op.take(op.reshape(src, shape=-1), reads), fill)
    flat = op.reshape(x, shape=-1)
    if include_self:
        own = op.take(flat, places)
        rows = op.concatenate([rows, op.expand_dims(own, axis=1)], axis=1)
        there = op.concatenate([there, op.expand_dims(op.ones_like(places), axis=1) > 0], axis=1)
    y = function(rows, axis=1)
    if np.isinf(neutral) and is_floating(x.dtype):  # a filled place may tie, and takes no share
        count, all_tie = op.astype(op.sum(there, axis=1), dtype=x.dtype), y == neutral
        tied = op.where(op.logical_and(there, op.expand_dims(all_tie, axis=1)), rows, 0)
        y = op.where(all_tie, op.sum(tied, axis=1) / count, y)
    if reduce == "mean":
        count = op.astype(op.sum(there, axis=1), dtype=y.dtype)
        y = y // count if y.dtype.kind in "iu" else y / count
    y = op.put_along_axis(flat, places, op.astype(y, dtype=x.dtype), axis=0)
    return op.reshape(y, shape=x.shape)


def _constant(index: Any) -> Any:
    """The index as a plain array, or as the tensor that vmap has made of it: one each example."""
    index = array_like(index)
    return index if getattr(index, "hides_axis", False) else constant_array(index, "index")


def _sum(rows: Any, axis: int) -> Any:
    return op.sum(rows, axis=axis)


# name: (how a row is reduced, the value that changes nothing)
_REDUCE: dict[str, tuple[Callable, float]] = {
    "sum": (_sum, 0),
    "mean": (_sum, 0),
    "prod": (lambda rows, axis: op.prod(rows, axis=axis), 1),
    "amax": (lambda rows, axis: op.max(rows, axis=axis), -np.inf),
    "amin": (lambda rows, axis: op.min(rows, axis=axis), np.inf),
}


def _least(dtype: Any, neutral: float) -> int:
    """The end of an integer dtype's range in place of −∞ or ∞; False or True."""
    if dtype.kind == "b":
        return neutral > 0
    ends = np.iinfo(dtype)
    return int(ends.min if neutral < 0 else ends.max)


@composite
def index_reduce(
    x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    """scatter_reduce with the slices of source and a 1-d index along axis; sum is index_add."""
    source, index = array_like(source), _constant(index)
    axis = axis_of(axis, source.ndim)
    lined = [-1 if i == axis else 1 for i in range(source.ndim)]
    places = op.broadcast_to(op.reshape(index, shape=lined), shape=source.shape)
    return scatter_reduce(x, axis, places, source, reduce, include_self)
