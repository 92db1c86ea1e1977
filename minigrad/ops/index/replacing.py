"""Changed copies: entries inserted, deleted or chosen by position. Positions are constants."""

import operator
from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype, is_number, weak_scalars
from ...engine.graph import raw
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import (
    array_beside,
    array_like,
    axis_of,
    constant_array,
    constant_like,
    goes_into,
    number_in,
    on_host,
)
from .items import boolean, one_value, require_mask_of

__all__ = [
    "choose", "compress", "delete", "extract", "index_copy", "index_fill",
    "insert", "masked_scatter", "partition", "piecewise", "resize", "select", "diagonal_scatter",
    "select_scatter", "slice_scatter",
]  # fmt: skip


def _key(axis: int, index: Any) -> tuple:
    """x[_key(axis, index)] indexes one axis."""
    return (*(slice(None),) * axis, index)


def _beside(places: Any, x: Any) -> Any:
    """Constant places in a NumPy array as an array on the device of x."""
    return constant_like(places, x) if isinstance(places, np.ndarray) else places


def _flat(x: Any, axis: int | None) -> tuple[Any, int]:
    """(x, axis), x flattened where axis is None."""
    x = array_like(x)
    return (op.reshape(x, shape=-1), 0) if axis is None else (x, axis_of(axis, x.ndim))


# -- NumPy's ----------------------------------------------------------------------------------


@composite(numpy=np.insert)
def insert(x: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """x with `values` inserted before the positions obj along axis (None: of x flattened)

    obj: a number, a slice or numbers (n,). The values broadcast to the number of inserted slices,
    which for one place is the length of values along axis.
    """
    x, axis = _flat(x, axis)
    values = array_beside(number_in(values, x.dtype, "values"), x)
    values = op.reshape(values, shape=(*(1,) * (x.ndim - values.ndim), *values.shape))
    n = x.shape[axis]
    places = _places(obj, n)
    if places.ndim == 0:
        values = op.moveaxis(values, 0, axis)  # NumPy: one number takes all of values' first axis
    count = values.shape[axis] if places.size == 1 else places.size
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = op.broadcast_to(op.astype(values, dtype=x.dtype), shape=shape)
    order = np.insert(np.arange(n), places, np.arange(n, n + count))
    return op.take(op.concatenate([x, values], axis=axis), constant_like(order, x), axis=axis)


def _places(obj: Any, n: int) -> np.ndarray:
    """What obj names of an axis of n elements, as np.insert reads it."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(n))
    places = np.asarray(on_host(constant_array(obj, "obj")))
    if places.dtype == bool and places.ndim == 1:
        return np.flatnonzero(places)
    return places.astype(np.intp) if isinstance(obj, list | tuple) and not places.size else places


@composite(numpy=np.delete)
def delete(x: Any, obj: Any, axis: int | None = None) -> Any:
    """x without the slices at positions obj (a number, a slice, numbers or a mask) along axis."""
    x, axis = _flat(x, axis)
    if not isinstance(obj, slice | int | list | tuple):  # NumPy takes [] for no places: as it is
        obj = on_host(constant_array(obj, "obj"))
    kept = np.delete(np.arange(x.shape[axis]), obj)
    return op.take(x, constant_like(kept, x), axis=axis)


@composite(numpy=np.compress)
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """The slices of x along axis where the condition (n,) is true; the rest of the axis is cut."""
    x, axis = _flat(x, axis)
    places = np.flatnonzero(on_host(constant_array(array_like(condition), "condition")))
    return op.take(x, constant_like(places, x), axis=axis)


@composite(numpy=np.extract)
def extract(condition: Any, x: Any) -> Any:
    """The entries of x, flattened, where the condition of x's size is true."""
    return compress(op.reshape(array_like(condition), shape=-1), x)


@composite(numpy=np.select)
def select(condlist: Sequence, choicelist: Sequence, default: Any = 0) -> Any:
    """For each place the entry of the first choice whose condition is true there, else default."""
    if not hasattr(condlist, "__len__") or not hasattr(choicelist, "__len__"):
        raise TypeError(
            "select: condlist and choicelist are lists of arrays, as np.select takes them; what "
            "stands at one index along an axis is mg.take(x, index, axis=axis)"
        )
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError(
            f"select: needs as many conditions as choices, at least one; got {len(condlist)} and "
            f"{len(choicelist)}"
        )
    y, like = default, next((c for c in choicelist if hasattr(c, "shape")), 0)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        y = op.where(_beside(condition, like), choice, y)
    return y


@composite(numpy=np.choose)
@on_its_gpu
def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """y[i] = choices[a[i]][i]: for each place the entry of the choice that a names

    a and the choices broadcast. mode "raise", "wrap" or "clip": numbers beyond the last choice.
    """
    if not len(choices):
        raise ValueError("choose: needs at least one choice")
    numbers = (int, float, complex)
    home = next((c for c in (*choices, a) if not is_number(c)), a)
    choices = weak_scalars([c if type(c) in numbers else array_beside(c, home) for c in choices])
    dtype = common_dtype(*[getattr(c, "dtype", c) for c in choices])
    choices = [constant_like(np.asarray(c, dtype), home) if is_number(c) else c for c in choices]
    choices = op.broadcast_arrays(*choices)
    a = _beside(array_like(a), choices[0])
    shape = np.broadcast_shapes(a.shape, choices[0].shape)
    stacked = op.stack([op.broadcast_to(c, shape=shape) for c in choices])
    a = op.broadcast_to(a if a.dtype != bool else op.astype(a, dtype=np.intp), shape=shape)
    n = len(choices)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"choose: mode={mode!r}: choose 'raise', 'wrap' or 'clip'")
    a = op.clip(a, 0, n - 1) if mode == "clip" else a % n if mode == "wrap" else a
    named = raw(a)  # under vmap those of all examples
    if mode == "raise" and bool(((named < 0) | (named >= n)).any()):
        raise ValueError(f"choose: a names choices beyond 0..{n - 1}; mode='wrap' or 'clip'")
    return op.take_along_axis(stacked, op.expand_dims(a, axis=0), axis=0)[0]


@composite(numpy=np.resize)
def resize(x: Any, new_shape: Any) -> Any:
    """x's entries in order, over and over, in the new shape; zeros where x has none."""
    x = op.reshape(array_like(x), shape=-1)
    sizes = new_shape if np.iterable(new_shape) else (new_shape,)
    shape = tuple(map(operator.index, sizes))
    if min(shape, default=0) < 0:
        raise ValueError(f"resize: no length of the new shape may be negative, got {shape}")
    if not x.size:
        return constant_like(np.zeros(shape, x.dtype), x)
    places = np.arange(prod(shape)) % x.size
    return op.reshape(op.take(x, constant_like(places, x)), shape=shape)


@composite(numpy=np.partition)
def partition(x: Any, kth: Any, axis: int | None = -1) -> Any:
    """x with the entry of rank kth (a number or several) in its place, smaller ones before it."""
    x, axis = _flat(x, axis)
    return op.take_along_axis(x, op.argpartition(x, kth=kth, axis=axis), axis=axis)


def _is_one_condition(condlist: Any, ndim: int) -> bool:
    """Whether this is one condition and no list of them, by the rule of np.piecewise."""
    if not isinstance(condlist, list | tuple):
        return np.ndim(condlist) == 0 or (ndim > 0 and np.ndim(condlist) == 1)
    return bool(ndim and len(condlist)) and isinstance(condlist[0], bool | int | np.generic)


def _condition_over(x: Any, condition: Any) -> Any:
    """A condition in x's shape: one with fewer axes is about the first ones, as x[condition] is.

    Numbers are truths, as in NumPy: as an index they would be places.
    """
    shape = condition.shape
    if shape != x.shape[: len(shape)]:
        raise ValueError(
            f"piecewise: a condition {shape} must have the shape of x, {x.shape}, or its first axes"
        )
    condition = _beside(condition, x).reshape((*shape, *(1,) * (x.ndim - len(shape))))
    return op.broadcast_to(condition.astype(bool), shape=x.shape)


@composite(numpy=np.piecewise)
@on_its_gpu
def piecewise(x: Any, condlist: Sequence, funclist: Sequence, *args: Any, **kwargs: Any) -> Any:
    """f_i(x) where condition i holds (the last one that does), f_n or 0 where none does

    A function sees only the entries of its condition, so no other branch can bring NaN; a number
    is taken as it is. A single condition, one truth value or an array (n,) for x (n,), needs no
    list.
    """
    x = array_like(x)
    condlist = [condlist] if _is_one_condition(condlist, x.ndim) else condlist
    conditions = [_condition_over(x, array_like(constant_array(c))) for c in condlist]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        conditions.append(op.logical_not(reduce(op.logical_or, conditions)))
    if len(functions) != len(conditions):
        raise ValueError(
            f"piecewise: {len(conditions)} conditions take as many functions or one more, got "
            f"{len(functions)}"
        )
    y = op.zeros_like(x)
    for condition, f in zip(conditions, functions, strict=True):
        value = f(x[condition], *args, **kwargs) if callable(f) else f
        y = op.setitem(y, value, index=condition)
    return y


# -- PyTorch's --------------------------------------------------------------------------------


@composite
def index_copy(x: Any, axis: int, index: Any, source: Any) -> Any:
    """x with the slices of source in place of those at a 1-d index along axis."""
    x = array_like(x)
    source = goes_into(source, x)
    return op.setitem(x, source, index=_key(axis_of(axis, x.ndim), index))


@composite
def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    """x with one value (a number or a 0-d tensor) in the slices at a 1-d index along axis."""
    one_value("index_fill", value, "mg.index_copy(x, axis, index, source)")
    return op.setitem(array_like(x), value, index=_key(axis_of(axis, np.ndim(x)), index))


@composite
@on_its_gpu
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """x with the first entries of source, in order, where the mask, broadcast to x, is true."""
    x = array_like(x)
    source = op.reshape(array_like(goes_into(source, x)), shape=-1)
    mask = boolean("masked_scatter", constant_array(mask))
    require_mask_of("masked_scatter", mask, x)
    mask = op.broadcast_to(mask, shape=x.shape)
    count = int(mask.sum())
    if count > source.size:
        raise ValueError(f"masked_scatter: the mask has {count} places, source {source.size}")
    return op.setitem(x, source[:count], index=mask)


@composite
def select_scatter(x: Any, src: Any, axis: int, index: int) -> Any:
    """x with src in place of x[:, …, index]; the index is the one of `axis`."""
    return op.setitem(array_like(x), src, index=_key(axis_of(axis, np.ndim(x)), index))


@composite
def slice_scatter(
    x: Any, src: Any, axis: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """x with src in place of the slice start:end:step along axis."""
    return op.setitem(
        array_like(x), src, index=_key(axis_of(axis, np.ndim(x)), slice(start, end, step))
    )


@composite
@on_its_gpu
def diagonal_scatter(x: Any, src: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """x with src (…, n) on the diagonal of the axes: the inverse of mg.diagonal."""
    x = array_like(x)
    rows = op.moveaxis(x, (axis1, axis2), (-2, -1))
    i = np.arange(max(0, min(rows.shape[-2] + min(offset, 0), rows.shape[-1] - max(offset, 0))))
    i = constant_like(i, x)
    y = op.setitem(rows, src, index=(..., i - min(offset, 0), i + max(offset, 0)))
    return op.moveaxis(y, (-2, -1), (axis1, axis2))
