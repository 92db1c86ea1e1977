"""Sliding windows along an axis, as a view, and their transpose."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axis_of, widen
from ..batching import behind

__all__ = ["sliding_window_view", "unfold"]


@linear(arrays="x", view=True)
def unfold(x, axis, size, step=1):
    """Windows of `size` elements, `step` apart, along `axis`: a read-only view.

    y.shape[axis] = ⌊(n − size)/step⌋ + 1; the windows' own axis comes last. gx: each element gets
    the sum over the windows that hold it.
    """
    axis = axis_of(axis, x.ndim)
    if not 0 < size <= x.shape[axis] or step < 1:
        raise ValueError(
            f"size={size}, step={step} does not fit axis {axis} of shape {x.shape}: need "
            f"1 <= size <= {x.shape[axis]} and step >= 1"
        )
    windows = array_module(x).lib.stride_tricks.sliding_window_view(x, size, axis=axis)
    return windows[(*(slice(None),) * axis, slice(None, None, step))]


@unfold.vjp("x")
def unfold_dx_rule(g, axis, size, step, x_shape):
    return op.unfold_dx(g, axis=axis, size=size, step=step, shape=x_shape)


@unfold.batch
def unfold_batch(op, xs, batched, params):
    return op(*xs, **{**params, "axis": behind(params["axis"], xs[0].ndim - 1)})


@linear
def unfold_dx(x, *, axis, size, step, shape):
    """Zeros of `shape` with each window in x added in its place: the transpose of unfold.

    One addition of a whole slice for each place in a window, or for each window if there are fewer.
    The sums of 16-bit floats are taken in float32.
    """
    axis = axis_of(axis, len(shape))
    y = np.zeros_like(widen(x), shape=shape)
    windows = (shape[axis] - size) // step + 1
    if x.shape != (*shape[:axis], windows, *shape[axis + 1 :], size):
        raise ValueError(f"x has shape {x.shape}, which are not the windows of {shape}")
    before = (slice(None),) * axis
    if size <= windows:
        for k in range(size):
            y[(*before, slice(k, k + step * (windows - 1) + 1, step))] += x[..., k]
    else:
        for i in range(windows):
            y[(*before, slice(i * step, i * step + size))] += np.moveaxis(x[(*before, i)], -1, axis)
    return y.astype(x.dtype, copy=False)


@unfold_dx.vjp("x")
def unfold_dx_dx(g, axis, size, step):
    return op.unfold(g, axis=axis, size=size, step=step)


@unfold_dx.batch
def unfold_dx_batch(op, xs, batched, params):
    (x,), shape = xs, params["shape"]
    axis = behind(params["axis"], len(shape))
    return op(x, **{**params, "axis": axis, "shape": (x.shape[0], *shape)})


@composite(numpy=np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Any:
    """NumPy's: windows of window_shape over several axes, their own axes last; a view.

    An axis named twice has windows of windows.
    """
    x = array_like(x)
    sizes = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    axes = range(x.ndim) if axis is None else axis if np.iterable(axis) else (axis,)
    axes = [axis_of(along, x.ndim) for along in axes]
    if len(sizes) != len(axes):
        raise ValueError(f"sliding_window_view: {len(sizes)} window sizes for {len(axes)} axes")
    for along, size in zip(axes, sizes):
        x = unfold(x, axis=along, size=size)
    return x
