"""Windows as columns and back, axis by axis and in scratch memory.

3 × 3 windows are windows of 3 along the rows of windows of 3 along the columns. Each step then
moves long contiguous runs; copying 3 × 3 windows at once would move short ones.
"""

from typing import Any

from ..backends.blocks import scratch
from ..backends.device import array_module
from ..backends.image_layout import scratch_like
from ..backends.window_kernels import compiled_kernels
from ..ops.windows import Windows, every, inside

IDLE = (1, 1, (0, 0), 1)  # kernel, stride, padding, dilation along an axis without windows


def padded(x: Any, padding: tuple, name: str, value: float = 0) -> Any:
    """x with `value` around its last axes, in scratch memory; x where the padding is empty."""
    if not any(map(any, padding)):
        return x
    fixed = x.ndim - len(padding)
    size = [n + sum(pair) for n, pair in zip(x.shape[fixed:], padding, strict=True)]
    y = scratch_like(name, (*x.shape[:fixed], *size), x)
    y[...] = value
    y[inside(padding, x.shape[fixed:])] = x
    return y


def _along(axis: int, index: Any) -> tuple:
    """x[_along(axis, index)] indexes one axis."""
    return (*(slice(None),) * axis, index)


def columns(x: Any, how: Windows, out: tuple, at: int) -> Any:
    """The windows of x (..., *size) as an array (..., *kernel, ..., *out), in scratch memory.

    `at` is the position of the kernel's axes, `out` the number of windows along each axis.
    """
    if (kernels := compiled_kernels()) and (y := kernels.columns(x, how, out, at)) is not None:
        return y
    xp = array_module(x)
    x = padded(x, how.padding, "padded")
    for i, (kernel, stride, _, dilation) in reversed(list(enumerate(how.axes()))):
        axis = x.ndim - len(out) + i
        if kernel == 1:
            x = x[_along(axis, every(0, stride, out[i]))][_along(at, None)]
            continue
        shape = (*x.shape[:at], kernel, *x.shape[at:axis], out[i], *x.shape[axis + 1 :])
        s = x.strides
        strides = (*s[:at], s[axis] * dilation, *s[at:axis], s[axis] * stride, *s[axis + 1 :])
        y = scratch.empty(f"axis {i}", shape, x)
        y[...] = xp.lib.stride_tricks.as_strided(x, shape, strides)
        x = y
    return x


def fold(x: Any, how: Windows, size: tuple, at: int) -> Any:
    """The transpose of `columns`: every entry of a window is added to the pixel it came from.

    The result may be in scratch memory.
    """
    if (kernels := compiled_kernels()) and (y := kernels.fold(x, how, size, at)) is not None:
        return y
    for i, (kernel, stride, padding, dilation) in enumerate(how.axes()):
        parts = [x[_along(at, k)] for k in range(kernel)]
        axis = parts[0].ndim - len(size) + i
        count, full = parts[0].shape[axis], size[i] + sum(padding)
        if kernel == 1 and count == size[i] and full == count:
            x = parts[0]
            continue
        shape = (*parts[0].shape[:axis], full, *parts[0].shape[axis + 1 :])
        y = scratch.empty(f"axis {i}", shape, x)
        apart = stride > dilation * (kernel - 1)  # no pixel lies in two windows
        if not apart or kernel * count < full:
            y[...] = 0
        for k, part in enumerate(parts):
            place = y[_along(axis, every(k * dilation, stride, count))]
            if apart:
                place[...] = part
            else:
                place += part
        x = y[_along(axis, slice(padding[0], padding[0] + size[i]))]
    return x
