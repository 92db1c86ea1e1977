"""x[index] and assignment, as functions: basic and advanced indices, masks."""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import is_number, require_fit
from ...engine.graph import raw
from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.methods import each_of
from ..axes import array_beside, array_like, both_arrays, goes_into, module_of, sum_to
from ..batching import full
from .scattering import add_at, batched_key, last_writes, plain_key, write_at

__all__ = ["getitem", "index_put", "masked_fill", "masked_select", "setitem"]


@linear(view=True)
def getitem(x, *, index):
    """y = x[index], as NumPy: a view for basic indices, a copy for arrays and masks.

    gx: g put back at `index` in zeros; an entry that was read twice gets both gradients. Of tensors
    in the index the values count.
    """
    key = plain_key(index, array_module(x))
    if type(key) is np.ndarray is type(x) and key.dtype.kind == "i" and key.ndim and x.ndim:
        return x.take(key, axis=0)  # the same, up to ten times as fast
    return x[key]


@getitem.vjp("x")
def getitem_dx_rule(g, index, x_shape):
    return op.getitem_dx(g, index=index, shape=x_shape)


@linear
def getitem_dx(x, *, index, shape):
    """Zeros of `shape` with x added at `index`: the transpose of x[index]. Repeats add up."""
    xp = array_module(x)
    key = plain_key(index, xp)
    if not x.size:  # NumPy reads nothing without a look at the other indices, but adds with one
        y = xp.zeros(shape, x.dtype)
        if y[key].shape == x.shape:
            return y
    return add_at(x, key, shape)


@getitem_dx.vjp("x")
def getitem_dx_dg(g, index):
    return op.getitem(g, index=index)


@linear
def setitem(x, value, *, index):
    """A copy of x with x[index] = value; of two writes to one place the last wins.

    gx = g with zeros at `index` ;  gvalue = g[index], for the writes that have won.
    """
    xp = array_module(x)
    # in x's memory order; a scalar, as a cotangent may be, has a copy() that takes no item
    y = xp.array(x, order="K")
    write_at(y, plain_key(index, xp), value)
    return y


@setitem.vjp("x")
def setitem_dx(g, index):
    return op.setitem(g, 0, index=index)


@setitem.vjp("value")
def setitem_dvalue(g, index, x_shape, value_shape, xp):
    won = last_writes(plain_key(index, xp), x_shape, xp)
    return written(op.getitem(g, index=index), won, value_shape)


def written(c: Any, won: Any, shape: tuple) -> Any:
    """The gradient of assigned values: c where the write has won, summed over broadcasting."""
    if won is not True:
        c = np.where(won, c, 0)
    ones = max(len(shape) - c.ndim, 0)  # x[i] = v ignores leading axes of length 1 of v
    return sum_to(c, shape[ones:]).reshape(shape)


@getitem.batch
def getitem_batch(op, xs, batched, params):
    (x,) = xs
    key, place = batched_key(plain_key(params["index"], module_of(x)), x.ndim - 1)
    return np.moveaxis(op(x, index=key), place, 0)


@getitem_dx.batch
def getitem_dx_batch(op, xs, batched, params):
    (x,), shape = xs, params["shape"]
    key, place = batched_key(plain_key(params["index"], module_of(x)), len(shape))
    return op(np.moveaxis(x, 0, place), index=key, shape=(x.shape[0], *shape))


@setitem.batch
def setitem_batch(op, xs, batched, params):
    x, value = xs
    key, place = batched_key(plain_key(params["index"], module_of(x)), np.ndim(x) - batched[0])
    if not batched[0]:
        x = full(xs, batched)[0]
    # an example of value broadcasts against one of x[key] from the last axis. Its leading axes of
    # length 1 beyond x[key]'s do not count; others would meet the batch axis
    ndim = module_of(x).empty(x.shape, bool)[key].ndim - 1
    shape = np.shape(value)[1 if batched[1] else 0 :]
    extra = max(len(shape) - ndim, 0)
    if prod(shape[:extra]) != 1:
        raise ValueError(
            f"setitem under vmap: value {shape} does not broadcast against x[index], which has "
            f"{ndim} axes in each example"
        )
    if batched[1] or shape:
        rest = (1,) * (ndim - len(shape)) + shape[extra:]
        value = value.reshape((len(value) if batched[1] else 1, *rest))
        value = np.moveaxis(value, 0, place)
    return op(x, value, index=key)


@composite
@on_its_gpu
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy of x with x[indices] = values, or with accumulate x[indices] += values.

    indices: a tuple, one entry per axis, or a mask. Repeated places: the last write wins and it
    alone gets the gradient; with accumulate they add up.
    """
    x = array_like(array_beside(x, values))
    values = array_like(goes_into(values, x))
    if not accumulate:
        return op.setitem(x, values, index=indices)
    if each := each_of(indices):  # under vmap
        return each.add(x, values.astype(x.dtype))
    xp = module_of(x)
    shape = xp.empty(x.shape, bool)[plain_key(indices, xp)].shape
    added = op.broadcast_to(values.astype(x.dtype), shape=shape)
    return x + op.getitem_dx(added, index=indices, shape=x.shape)


@composite
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """x, with `value` (a number or a 0-d tensor) where the mask, broadcast to x, is true.

    gx = 0 there, g elsewhere ;  gvalue = Σ g there.
    """
    x, mask = both_arrays(x, mask)
    require_mask_of("masked_fill", mask, x)
    one_value("masked_fill", value, "mg.where(mask, value, x)")
    if hasattr(value, "dtype") and value.dtype != x.dtype:
        if value.dtype.kind == "c" != x.dtype.kind:
            raise TypeError(
                f"masked_fill: x, {x.dtype}, has no place for the imaginary part of the value, "
                f"{value.dtype}; say value.real, or make x complex"
            )
        if is_number(value) or isinstance(raw(value), np.ndarray):
            require_fit(raw(value), x.dtype)
        value = value.astype(x.dtype)
    return op.where(mask, value, x)


def require_mask_of(name: str, mask: Any, x: Any) -> None:
    """ValueError where a mask does not broadcast to x."""
    sizes = zip(reversed(mask.shape), reversed(x.shape), strict=False)
    if mask.ndim > x.ndim or any(m not in (1, n) for m, n in sizes):
        raise ValueError(
            f"{name}: the mask of shape {mask.shape} does not broadcast to x of shape {x.shape}; "
            "the mask may be no larger than x"
        )


def one_value(name: str, value: Any, instead: str) -> None:
    """ValueError for an array of values, which would be spread over the places, or even over x."""
    if np.ndim(value):
        raise ValueError(
            f"{name}: value must be a number or a 0-d tensor, got shape {np.shape(value)}; for "
            f"different values write {instead}"
        )


@composite
def masked_select(x: Any, mask: Any) -> Any:
    """The elements of x where the mask is true, in order, as one axis; the two broadcast."""
    x, mask = op.broadcast_arrays(x, boolean("masked_select", mask))
    return x[mask]


def boolean(name: str, mask: Any) -> Any:
    """The mask, checked: x[mask] of whole numbers would take them for places."""
    mask = array_like(mask)
    if mask.dtype.kind != "b":
        raise TypeError(f"{name}: the mask must be boolean, got {mask.dtype}; say mask != 0")
    return mask
