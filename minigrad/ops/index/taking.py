"""Reading and writing by an array of indices, along one axis. The indices carry no gradient."""

from math import prod as size_of
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import is_floating
from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, axis_of, device_of_any, goes_into, on_host
from ..batching import behind, flat, full
from .items import written
from .scattering import add_at, along_key, write_at

__all__ = [
    "embedding", "gather", "index_add", "index_select", "put_along_axis", "scatter",
    "scatter_add", "take", "take_along_axis",
]  # fmt: skip


# -- the same indices for every row -----------------------------------------------------------


@linear(numpy=np.take, arrays="x indices", constants=["indices"])
def take(x, indices, axis=None, mode="raise"):
    """y = x[…, indices, …] at `axis` (None: of x flattened); indices of any shape.

    gx: g added up at the indices. mode: "raise" IndexError beyond the ends, "wrap" counts on
    from the other end, "clip" takes the nearest.
    """
    n = x.size if axis is None else x.shape[axis_of(axis, x.ndim)]
    return np.take(x, within(indices, n, mode), axis=axis)


@take.vjp("x")
def take_dx_rule(g, indices, axis, mode, x_shape):
    return op.take_dx(g, indices, axis=axis, mode=mode, shape=x_shape)


@linear(arrays="x indices", constants=["indices"])
def take_dx(x, indices, *, axis, mode="raise", shape):
    """Zeros of `shape` with x added at the indices along `axis`: the transpose of take."""
    key, lengths = key_of_take(indices, axis, mode, shape)
    return add_at(x, key, lengths).reshape(shape)


def key_of_take(indices: Any, axis: int | None, mode: str, shape: tuple) -> tuple[tuple, tuple]:
    """(key, lengths), for which take(x, indices, axis, mode) is x.reshape(lengths)[key]."""
    if axis is None:
        n = size_of(shape)
        return (within(indices, n, mode),), (n,)
    axis = axis_of(axis, len(shape))
    return (*(slice(None),) * axis, within(indices, shape[axis], mode)), shape


@take_dx.vjp("x")
def take_dx_dg(g, indices, axis, mode):
    return op.take(g, indices, axis=axis, mode=mode)


@take.batch
def take_batch(op, xs, batched, params):
    """One set of indices for all examples is a take; one for each is a read along an axis."""
    x, indices = xs
    if not batched[1]:
        if params["axis"] is None:
            return op(flat(x), indices, **{**params, "axis": 1})
        return op(x, indices, **{**params, "axis": behind(params["axis"], x.ndim - 1)})
    x, indices = full(xs, batched)
    x = flat(x) if params["axis"] is None else x
    axis = 0 if params["axis"] is None else axis_of(params["axis"], x.ndim - 1)
    rows = np.moveaxis(x, 1 + axis, 1)
    rest = rows.shape[2:]
    places = within(indices, rows.shape[1], params["mode"])
    read = np.take_along_axis(rows, _column(places, len(rest)), 1)
    read = read.reshape((*indices.shape, *rest))
    k = indices.ndim - 1
    return np.moveaxis(read, tuple(range(1, 1 + k)), tuple(range(1 + axis, 1 + axis + k)))


@take_dx.batch
def take_dx_batch(op, xs, batched, params):
    """take_batch the other way round."""
    (x, indices), shape = full(xs, batched), params["shape"]
    whole = params["axis"] is None
    lengths = (size_of(shape),) if whole else shape
    axis = 0 if whole else axis_of(params["axis"], len(shape))
    k, size = indices.ndim - 1, x.shape[0]
    x = np.moveaxis(x, tuple(range(1 + axis, 1 + axis + k)), tuple(range(1, 1 + k)))
    rest = (*lengths[:axis], *lengths[axis + 1 :])
    column = _column(within(indices, lengths[axis], params["mode"]), len(rest))
    x = x.reshape((size, column.shape[1], *rest))
    y = add_along_axis(x, column, axis=1, shape=(size, lengths[axis], *rest))
    return np.moveaxis(y, 1, 1 + axis).reshape((size, *shape))


def _column(indices: Any, rest: int) -> Any:
    """Each example's indices as one axis, with axes of length 1 for the rest of a row."""
    return indices.reshape((indices.shape[0], size_of(indices.shape[1:]), *(1,) * rest))


def within(indices: Any, n: int, mode: str) -> Any:
    """Indices into n places, those beyond the ends brought in by the mode."""
    dtype = getattr(indices, "dtype", np.dtype(type(indices)))  # a number with a tensor is one
    if is_floating(dtype) and not getattr(indices, "size", 1):  # an empty list has NumPy's float64
        return indices.astype(np.intp)
    if is_floating(dtype):
        raise TypeError(
            f"indices must be integers, got {dtype}: make them with dtype=mg.int64, "
            "or take indices.astype(mg.int64)"
        )
    if mode == "raise":
        return indices
    if mode == "clip":
        return np.clip(indices, 0, n - 1)
    if mode == "wrap":
        return indices % n
    raise ValueError(f"mode={mode!r}: choose 'raise', 'wrap' or 'clip'")


@composite
def index_select(x: Any, axis: int, index: Any) -> Any:
    """The slices of x along `axis` that a 1-d index names: take with PyTorch's argument order."""
    return op.take(x, index, axis=axis)


@composite
@on_its_gpu
def index_add(x: Any, axis: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """x with alpha · source added, slice by slice, at a 1-d index along `axis`; repeats add up."""
    x, source = array_like(x), array_like(source)
    at = axis_of(axis, x.ndim)
    needed = (*x.shape[:at], *np.shape(index), *x.shape[at + 1 :])
    if source.shape != needed:
        raise ValueError(
            f"index_add: source must have the slices that x {x.shape} gives at the index along "
            f"axis {axis}, {needed}; got {source.shape}. mg.broadcast_to(source, {needed}) repeats "
            "one that is shorter"
        )
    source = source if isinstance(alpha, int) and alpha == 1 else source * alpha
    return x + op.take_dx(source, index, axis=axis, shape=x.shape)


@composite
def embedding(indices: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """Rows of `weight` (n, d) by number: indices (…) → (…, d).

    gweight: g added up row by row. Row padding_idx is read like the others and gets no gradient.
    ValueError where weight has no such row. Indices do not count from the end: IndexError below 0,
    since −1 is what other code pads with (not checked on a GPU, where that would wait for it).
    """
    rows, count = op.take(weight, indices, axis=0), len(weight)
    if device_of_any(indices) == "cpu" and np.min(on_host(array_like(indices)), initial=0) < 0:
        raise IndexError(
            f"embedding: indices count from 0 to {count - 1}, got {np.min(on_host(indices))}; for "
            "padding reserve a row, padding_idx=0"
        )
    if padding_idx is not None and not -count <= padding_idx < count:
        raise ValueError(f"padding_idx={padding_idx} is not a row of weight, which has {count}")
    if padding_idx is None or not hasattr(rows, "detach"):
        return rows
    padding = array_like(indices) == padding_idx % count
    return op.where(op.expand_dims(padding, axis=-1), rows.detach(), rows)


# -- indices of their own for every row -------------------------------------------------------


@linear(numpy=np.take_along_axis, arrays="x indices", constants=["indices"])
def take_along_axis(x, indices, axis=-1):
    """y[i, j] = x[indices[i, j], j] for axis=0, and so on; x flattened for axis=None.

    x and indices broadcast in the other axes. gx: g added up at the indices.
    """
    _require_array(indices)
    return np.take_along_axis(x, indices, None if axis is None else axis_of(axis, x.ndim))


def _require_array(indices: Any) -> None:
    """TypeError for one number, whose NumPy error speaks of attributes that an int lacks."""
    if not hasattr(indices, "ndim"):
        raise TypeError(
            f"indices must be an array with as many axes as x, got the number {indices!r}; "
            "mg.take takes numbers"
        )


@take_along_axis.vjp("x")
def take_along_axis_dx(g, indices, axis, x_shape):
    return op.add_along_axis(g, indices, axis=axis, shape=x_shape)


@linear(arrays="x indices", constants=["indices"])
def add_along_axis(x, indices, *, axis, shape):
    """Zeros of `shape` with x added at the indices: the transpose of take_along_axis."""
    if axis is None:
        return add_at(x, (indices,), (size_of(shape),)).reshape(shape)
    return add_at(x, along_key(indices, axis, shape), shape)


@add_along_axis.vjp("x")
def add_along_axis_dg(g, indices, axis):
    return op.take_along_axis(g, indices, axis=axis)


@linear(arrays="x indices values", constants=["indices"])
def put_along_axis(x, indices, values, *, axis):
    """A copy of x with values written at the indices along `axis` (None: of x flattened).

    gx = g with zeros there ;  gvalues = g there, for the writes that have won: the last of each.
    """
    _require_array(indices)
    y = array_module(x).array(x, order="C")  # not x.copy(): as in setitem
    if axis is None:
        write_at(y.reshape(-1), (indices,), values)
    else:
        write_at(y, along_key(indices, axis, x.shape), values)
    return y


@put_along_axis.vjp("x")
def put_along_axis_dx(g, indices, axis):
    return op.put_along_axis(g, indices, 0, axis=axis)


@put_along_axis.vjp("values")
def put_along_axis_dvalues(g, indices, axis, x_shape, values_shape, xp):
    picked = op.take_along_axis(g, indices, axis=axis)
    order = xp.arange(size_of(picked.shape)).reshape(picked.shape)
    last = op.put_along_axis(xp.zeros(x_shape, order.dtype), indices, order, axis=axis)
    return written(picked, op.take_along_axis(last, indices, axis=axis) == order, values_shape)


@take_along_axis.batch
def take_along_axis_batch(op, xs, batched, params):
    x, indices = full(xs, batched)
    if params["axis"] is None:
        return op(flat(x), indices, axis=1)
    return op(x, indices, axis=behind(params["axis"], x.ndim - 1))


@add_along_axis.batch
def add_along_axis_batch(op, xs, batched, params):
    (x, indices), shape = full(xs, batched), params["shape"]
    if params["axis"] is None:
        y = op(x, indices, axis=1, shape=(x.shape[0], size_of(shape)))
        return y.reshape((x.shape[0], *shape))
    return op(x, indices, axis=behind(params["axis"], len(shape)), shape=(x.shape[0], *shape))


@put_along_axis.batch
def put_along_axis_batch(op, xs, batched, params):
    *_, values = xs
    x, indices = full(xs, batched)[:2]
    shape, axis = x.shape, params["axis"]
    x, axis = (flat(x), 1) if axis is None else (x, behind(axis, x.ndim - 1))
    if batched[2]:  # its examples broadcast from the last axis
        ones = (1,) * (x.ndim - values.ndim)
        values = values.reshape((values.shape[0], *ones, *values.shape[1:]))
    return op(x, indices, values, axis=axis).reshape(shape)


@composite
def gather(x: Any, axis: int, index: Any) -> Any:
    """y[i, j] = x[index[i, j], j] for axis=0: PyTorch's gather. y has the shape of index.

    In the other axes the index may be shorter than x, never longer (ValueError).
    """
    x, index = array_like(x), array_like(index)
    return op.take_along_axis(_corner(x, axis, index, "gather"), index, axis=axis)


@composite
@on_its_gpu
def scatter(x: Any, axis: int, index: Any, src: Any) -> Any:
    """A copy of x with y[index[i, j], j] = src[i, j] for axis=0: PyTorch's scatter.

    src: an array at least as large as index, or a number. Where writes meet, the last wins and
    it alone gets the gradient.
    """
    x, index = array_like(x), array_like(index)
    corner = _corner(x, axis, index, "scatter")
    y = op.put_along_axis(corner, index, _source(src, index, x, "scatter"), axis=axis)
    return y if y.shape == x.shape else op.setitem(x, y, index=_upto(y.shape))


@composite
@on_its_gpu
def scatter_add(x: Any, axis: int, index: Any, src: Any) -> Any:
    """x with src[i, j] added at [index[i, j], j] for axis=0: PyTorch's scatter_add.

    Repeats add up, 16-bit floats in float32. gx = g ;  gsrc = gather(g, axis, index).
    """
    x, index = array_like(x), array_like(index)
    shape = _corner(x, axis, index, "scatter_add").shape
    src = op.broadcast_to(_source(src, index, x, "scatter_add"), shape=index.shape)
    added = op.add_along_axis(src, index, axis=axis, shape=shape)
    if shape != x.shape:
        added = op.getitem_dx(added, index=_upto(shape), shape=x.shape)
    return x + added


def _corner(x: Any, axis: int, index: Any, name: str) -> Any:
    """x cut to the index's length in every axis but `axis`."""
    if index.ndim != x.ndim:
        raise ValueError(
            f"{name}: index {index.shape} and x {x.shape} need the same number of axes"
        )
    axis = axis_of(axis, x.ndim)
    shape = tuple([n if i == axis else m for i, (n, m) in enumerate(zip(x.shape, index.shape))])
    if shape == x.shape:
        return x
    if any(m > n for m, n in zip(shape, x.shape)):
        raise ValueError(
            f"{name}: index {index.shape} is longer than x {x.shape} in an axis other than {axis}"
        )
    return x[_upto(shape)]


def _source(src: Any, index: Any, x: Any, name: str) -> Any:
    """The values to write, of the index's shape (or of length 1 in some axis) and x's dtype."""
    src = goes_into(src, x)
    if src.ndim and src.shape != index.shape:
        fits = src.ndim == index.ndim and all(
            n == 1 or n >= m for n, m in zip(src.shape, index.shape, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{name}: src {src.shape} must have as many axes as index {index.shape} and be at "
                "least as long in each, or 1 long; or it is a number"
            )
        src = src[_upto(index.shape)]
    return src.astype(x.dtype, copy=False)


def _upto(shape: tuple) -> tuple:
    return tuple([slice(n) for n in shape])
