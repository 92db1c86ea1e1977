"""The same elements elsewhere, or several times: flip, roll, tile, repeat."""

import operator
from typing import Any

import numpy as np

from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, axis_of, constant_array, module_of
from ..batching import flat, reduction

__all__ = ["flip", "fliplr", "flipud", "repeat", "roll", "tile"]


@linear(numpy=np.flip, view=True)
def flip(x, axis=None):
    """The elements in reverse order along `axis` (None: every axis; an int; a tuple), a view.

    gx = g reversed the same way.
    """
    return np.flip(x, axis)


@flip.vjp("x")
def flip_dx(g, axis):
    return op.flip(g, axis=axis)


flip.batch(reduction)


@composite(numpy=np.flipud)
def flipud(x: Any) -> Any:
    """Rows in reverse order."""
    return op.flip(x, axis=0)


@composite(numpy=np.fliplr)
def fliplr(x: Any) -> Any:
    """Columns in reverse order."""
    return op.flip(x, axis=1)


@linear(arrays="x", numpy=np.roll)
def roll(x, shift, axis=None):
    """Elements moved on by `shift` positions; those beyond the end come in at the start.

    Several axes: a tuple of shifts. axis=None rolls x flattened. gx = g rolled back.
    """
    return np.roll(x, shift, axis)


@roll.vjp("x")
def roll_dx(g, shift, axis):
    back = tuple([-s for s in shift]) if np.iterable(shift) else -shift
    return op.roll(g, back, axis=axis)


@roll.batch
def roll_batch(op, xs, batched, params):
    (x,), shift, axis = xs, params["shift"], params["axis"]
    if axis is None:
        return op(flat(x), shift, axis=1).reshape(x.shape)
    axes = axis if np.iterable(axis) else (axis,)  # one may come several times, unlike elsewhere
    return op(x, shift, axis=tuple([1 + axis_of(i, x.ndim - 1) for i in axes]))


@composite(numpy=np.tile)
def tile(x: Any, reps: Any) -> Any:
    """x laid side by side reps[i] times along axis i; missing axes of x or reps count as 1.

    A copy, also of x laid once.
    """
    x = array_like(x)
    reps = tuple(map(operator.index, reps)) if np.iterable(reps) else (operator.index(reps),)
    if min(reps, default=0) < 0:
        raise ValueError(f"tile: reps says how often, 0 times or more, got {reps}")
    ndim = max(x.ndim, len(reps))
    shape = (1,) * (ndim - x.ndim) + x.shape
    reps = (1,) * (ndim - len(reps)) + reps
    apart = [n for length in shape for n in (1, length)]
    copies = [n for pair in zip(reps, shape) for n in pair]
    y = op.broadcast_to(op.reshape(x, shape=tuple(apart)), shape=tuple(copies))
    y = op.reshape(y, shape=tuple([r * n for r, n in zip(reps, shape)]))
    # else reshape has copied, but for axes of length 1, which it repeats as a read-only view
    return op.copy(y) if set(reps) <= {1} else op.contiguous(y)


@composite(numpy=np.repeat)
@on_its_gpu
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element along `axis` (None: of x flattened) several times in a row.

    repeats: an int, or one for each element. gx = g summed over the copies.
    """
    x = array_like(x)
    if axis is None or (x.ndim == 0 and axis in (0, -1)):
        x, axis = op.reshape(x, shape=-1), 0
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    repeats = np.asarray(constant_array(repeats))
    if repeats.size and repeats.dtype.kind not in "biu":
        raise TypeError(f"repeat: repeats says how often, in integers; got {repeats.dtype}")
    if (repeats < 0).any():
        raise ValueError(f"repeat: repeats says how often, 0 times or more, got {repeats.tolist()}")
    if repeats.size != 1:
        if repeats.shape != (n,):
            raise ValueError(
                f"repeat: repeats is one number, or one for each of the {n} elements of x "
                f"{x.shape} along axis {axis}; got shape {repeats.shape}"
            )
        places = module_of(x).asarray(np.repeat(np.arange(n), repeats))
        return op.take(x, places, axis=axis)
    times = int(repeats.item())
    if times == 1:
        return op.copy(x)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    y = op.reshape(x, shape=(*before, n, 1, *after))
    y = op.broadcast_to(y, shape=(*before, n, times, *after))
    y = op.reshape(y, shape=(*before, n * times, *after))
    return y if n > 1 else op.contiguous(y)  # of one slice the reshape is a read-only view
