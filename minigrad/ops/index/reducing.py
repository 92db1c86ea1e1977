"""Values that go to the same place, combined there: their sum, product, mean or extremum."""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module, device_of, to_device, to_host
from ...backends.dtypes import common_dtype, highest, is_floating, lowest
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import (
    array_like,
    axis_of,
    constant_array,
    constant_like,
    goes_into,
    module_of,
    sortable,
    widen,
)
from ..batching import full
from .taking import within

__all__ = ["index_reduce", "scatter_reduce"]

_REDUCE = ("sum", "mean", "prod", "amax", "amin")


@primitive(differentiable=False)
def scatter_places(index, *, axis, shape, lead=0):
    """The positions of the entries x[index[i, j], j] (axis=0) in x.ravel(), one after the other.

    index (…, k, l) with `lead` axes of examples in front -> (…, k l).  shape: that of x.
    """
    xp, own, axis = array_module(index), index.shape[lead:], axis_of(axis, len(shape))
    index = within(index, shape[axis], "raise").astype(np.intp, copy=False)  # room for all of x
    if index.size and not (0 <= index.min() and index.max() < shape[axis]):
        raise ValueError(
            f"index has numbers from {index.min()} to {index.max()}, but x {tuple(shape)} has "
            f"places 0..{shape[axis] - 1} along axis {axis}"
        )
    places = index * prod(shape[axis + 1 :])
    for i, n in enumerate(own):
        if i != axis:
            line = xp.arange(n) * prod(shape[i + 1 :])
            places = places + line.reshape((n, *(1,) * (len(own) - 1 - i)))
    return places.reshape((*index.shape[:lead], prod(own)))


@primitive(arrays="values index counts", constants=["index", "counts"])
def extremum_at(values, index, counts, *, size, largest=True):
    """y_k = max over index_i = k of values_i (largest=False: min), of those where `counts` alone

    values, index, counts (n,) -> y (size,), where each place needs a value that counts.
    gvalues_i = g_k / (number of ties at k) where values_i = y_k, else 0. NaN as in max.
    """
    if not counts.all():
        values, index = values[counts], index[counts]
    if array_module(values) is not np:
        return _extremum_on_device(values, index, size, largest)
    first = lowest if largest else highest
    y = np.full(size, first(values.dtype), values.dtype)
    with np.errstate(invalid="ignore"):  # .at warns of a NaN, which np.max passes on in silence
        (np.maximum if largest else np.minimum).at(y, index, values)
    return y


def _extremum_on_device(values: Any, index: Any, size: int, largest: bool) -> Any:
    """extremum_at for CuPy, by the ranks of the values: its atomics on floats of 64 bits go wrong,
    and pass NaN over.
    """
    import cupyx

    xp = array_module(values)
    order = xp.argsort(sortable(values))
    order = order if largest else order[::-1]
    rank = xp.empty_like(order)
    rank[order] = xp.arange(values.size)
    best = xp.full(size, -1, rank.dtype)
    cupyx.scatter_max(best, index, rank)
    y = values[order[best]]
    if is_floating(y.dtype):
        y[index[values != values]] = np.nan
    return y


@extremum_at.vjp("values")
def extremum_at_dvalues(g, values, index, counts, y):
    ties = np.logical_or(values == op.take(y, index), values != values)  # the latter: NaN
    ties, g = np.logical_and(ties, counts), widen(g)
    number = op.add_along_axis(ties.astype(g.dtype), index, axis=0, shape=g.shape)
    return np.where(ties, op.take(g / number, index), 0)


@extremum_at.batch
def extremum_at_batch(op_, xs, batched, params):
    """The places of all examples side by side."""
    values, index, counts = full(xs, batched)
    examples, size = values.shape[0], params["size"]
    index = index + size * module_of(index).arange(examples)[:, None]
    flat = [x.reshape(values.size) for x in (values, index, counts)]
    return op_(*flat, **{**params, "size": examples * size}).reshape((examples, size))


@primitive(differentiable=False, outputs=3)
def scatter_rows(places, *, lead=0):
    """(rows, reads, there): the values for each of the places, side by side as a row

    places (…, t) with `lead` axes of examples in front. rows (…, r): the places that occur;
    reads (…, r, m): which of the t go there, where `there` (…, r, m). An example with fewer rows
    repeats its last one.
    """
    device, places = device_of(places), to_host(places)
    examples = places.shape[:lead]
    goal = places.reshape((prod(examples), places.shape[-1]))
    order = np.argsort(goal, axis=1, kind="stable")
    goal = np.take_along_axis(goal, order, 1)
    first = np.ones(goal.shape, bool)
    first[:, 1:] = goal[:, 1:] != goal[:, :-1]
    row, count = np.cumsum(first, 1) - 1, np.arange(goal.shape[1])
    column = count - np.maximum.accumulate(np.where(first, count, 0), 1)
    size = (len(goal), row.max(initial=-1) + 1, column.max(initial=0) + 1)
    rows, reads, there = (
        np.zeros(size[:2], np.intp),
        np.zeros(size, np.intp),
        np.zeros(size, bool),
    )
    example = np.arange(len(goal))[:, None]
    rows[example, row] = goal
    reads[example, row, column] = order
    there[example, row, column] = True
    line = np.minimum(np.arange(size[1]), row[:, -1:])
    return tuple(
        [
            to_device(y[example, line].reshape((*examples, *y.shape[1:])), device)
            for y in (rows, reads, there)
        ]
    )


@scatter_places.batch
@scatter_rows.batch
def scatter_batch(op_, xs, batched, params):
    return op_(xs[0], **{**params, "lead": params["lead"] + 1})


@composite
@on_its_gpu
def scatter_reduce(
    x: Any, axis: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    """x with src[i, j] combined into [index[i, j], j] for axis=0: PyTorch's scatter_reduce

    reduce: sum, prod, mean, amax or amin. Without include_self, x's entry does not count where
    some src goes. Means of integers are rounded down. Ties of amax and amin share the gradient
    equally. Factors of a product are put side by side: memory (places × most of one place).
    """
    x, index = array_like(x), _constant(index)
    if reduce not in _REDUCE:
        raise ValueError(f"scatter_reduce: reduce is one of {', '.join(_REDUCE)}, got {reduce!r}")
    axis, src = axis_of(axis, x.ndim), goes_into(src, x)
    if (
        index.ndim != x.ndim
        or src.ndim != x.ndim
        or any(n > m for n, m in zip(index.shape, src.shape))
        or any(n > m for i, (n, m) in enumerate(zip(index.shape, x.shape)) if i != axis)
    ):
        raise ValueError(
            f"scatter_reduce: x {x.shape}, index {index.shape} and src {src.shape} need the same "
            "number of axes. Make src as large as index, and index no larger than x except along "
            f"axis {axis}"
        )
    if not index.size:
        return x + 0
    src = src[tuple([slice(n) for n in index.shape])]
    if is_floating(x.dtype):  # the mean of whole numbers is no whole number then
        src = op.astype(src, dtype=common_dtype(src.dtype, x.dtype), copy=False)
    index = constant_like(index, x) if isinstance(index, np.ndarray) else index
    places = op.scatter_places(index, axis=axis, shape=x.shape)
    how = _product if reduce == "prod" else _combined
    y = how(op.reshape(x, shape=-1), places, op.reshape(src, shape=-1), reduce, include_self)
    return op.reshape(op.astype(y, dtype=x.dtype), shape=x.shape)


def _combined(x: Any, places: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """x (n,) with src (m,) at the places (m,): x's own entries are values at their places, too."""
    xp, n = module_of(x), x.shape[0]
    own, all_of_src = xp.ones(n, bool), xp.ones(src.shape[0], bool)
    if not include_self:
        own = op.put_along_axis(own, places, False, axis=0)
    counts = op.concatenate([own, all_of_src])
    values, index = op.concatenate([x, src]), op.concatenate([xp.arange(n), places])
    if reduce in ("amax", "amin"):
        return op.extremum_at(values, index, counts, size=n, largest=reduce == "amax")
    if values.dtype.kind in "biu":  # the sum of many small ones
        values = op.astype(values, dtype=np.uint64 if values.dtype.kind == "u" else np.int64)
    values = values if include_self else op.where(counts, values, 0)
    y = op.add_along_axis(values, index, axis=0, shape=(n,))
    if reduce == "sum":
        return y
    number = op.add_along_axis(op.astype(counts, dtype=np.int64), index, axis=0, shape=(n,))
    number = op.astype(number, dtype=y.dtype)
    return y // number if y.dtype.kind in "iu" else y / number


def _product(x: Any, places: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """The same for products, whose rule knows zeros: a row of factors for each place."""
    rows, reads, there = op.scatter_rows(places)
    factors = op.where(there, op.take(src, reads), 1)
    if include_self:
        own = op.expand_dims(op.take(x, rows), axis=1)
        factors = op.concatenate([factors, own], axis=1)
    y = op.astype(op.prod(factors, axis=1), dtype=x.dtype)
    return op.put_along_axis(x, rows, y, axis=0)


def _constant(index: Any) -> Any:
    """The index as a plain array, or as the tensor that vmap has made of it: one each example."""
    index = array_like(index)
    return index if getattr(index, "hides_axis", False) else constant_array(index, "index")


@composite
@on_its_gpu
def index_reduce(
    x: Any, axis: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    """scatter_reduce with the slices of source and a 1-d index along axis; sum is index_add."""
    source, index = array_like(source), _constant(index)
    axis = axis_of(axis, source.ndim)
    lined = [-1 if i == axis else 1 for i in range(source.ndim)]
    places = op.broadcast_to(op.reshape(index, shape=lined), shape=source.shape)
    return op.scatter_reduce(x, axis, places, source, reduce, include_self)
