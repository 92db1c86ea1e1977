"""Shapes changed, elements moved, joined, read by index."""

from typing import Any

import numpy as np

from ..engine.graph import raw
from ..engine.registry import op

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip",
    "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take",
    "take_along_axis", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Any) -> list:
    """Each array as a view of the shape to which all of them broadcast."""
    return list(op.broadcast_arrays(*arrays))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast."""
    return np.broadcast_shapes(*shapes)


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    """x repeated, without a copy, up to `shape`."""
    return op.broadcast_to(x, shape=shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The arrays one after the other along `axis`; None joins them flattened."""
    return op.concatenate(arrays, axis=axis)


def expand_dims(x: Any, /, axis: int | tuple[int, ...] = 0) -> Any:
    """An axis of length 1 put in at this place of the result."""
    return op.expand_dims(x, axis=axis)


def flip(x: Any, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """The elements in reverse order along `axis`; None: along every axis."""
    return op.flip(x, axis=axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Axes moved from `source` to `destination`; the others keep their order."""
    return op.moveaxis(x, source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    """Axes permuted: y.shape[i] = x.shape[axes[i]]."""
    return op.transpose(x, axes=axes)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Each element along `axis` (None: of x flattened) several times in a row."""
    return op.repeat(x, repeats, axis=axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements under another shape.

    copy None: shared memory where that is possible; True: never shared; False: ValueError where
    it is not possible.
    """
    y = op.reshape(x, shape=shape)
    if copy is None:
        return y
    if copy:
        return op.copy(y)
    if x.size and not np.shares_memory(raw(x), raw(y)):
        raise ValueError(f"reshape: {x.shape} to {shape} needs a copy here; use copy=None")
    return y


def roll(x: Any, /, shift: Any, *, axis: int | tuple[int, ...] | None = None) -> Any:
    """Elements moved `shift` places on, those pushed off the end coming in at the start."""
    return op.roll(x, shift, axis=axis)


def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> Any:
    """The named axes, of length 1, taken out."""
    return op.squeeze(x, axis=axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Arrays of one shape side by side along a new axis."""
    return op.stack(arrays, axis=axis)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """y = x[…, indices, …] at `axis`, which a 1-d x may leave out."""
    return op.take(x, indices, axis=axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """y[i, j] = x[i, indices[i, j]] for the last axis, likewise for others."""
    return op.take_along_axis(x, indices, axis=axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    """x laid side by side repetitions[i] times along axis i."""
    return op.tile(x, repetitions)


def unstack(x: Any, /, *, axis: int = 0) -> tuple:
    """The slices of x along `axis`, without that axis."""
    return op.unstack(x, axis=axis)
