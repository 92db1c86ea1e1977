"""Sliding windows over images, on plain arrays: what convolution and pooling are built from.

`columns` copies every window of an image, so that a convolution becomes one matrix product; `fold`
is its transpose and adds the copies back into the image. Both go axis by axis: 3 × 3 windows are
windows of 3 along the rows of windows of 3 along the columns. Each step then moves long contiguous
runs, where copying 3 × 3 windows at once would move short ones.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..backends.blocks import scratch
from ..backends.device import array_module
from ..backends.image_layout import scratch_like

Sizes = int | Sequence[int]  # one for all spatial axes, or one for each
Padding = Sizes | Sequence[tuple[int, int]] | str  # also (before, after) pairs, "same", "valid"

IDLE = (1, 1, (0, 0), 1)  # kernel, stride, padding, dilation along an axis without windows
MANY = 128  # positions in a row of a tile: of fewer, one axis after the other takes less time
compiled: Any = None  # kernels while mg.accelerate is on: columns, fold, winograd


def use_compiled(kernels: Any) -> None:
    """Let `kernels` do what they can of windows; None: NumPy does.

    columns, fold   as those of this file, or None as a result
    winograd        the transforms of Winograd's convolution, for the form that has them
    """
    global compiled
    compiled = kernels


def compiled_kernels() -> Any:
    """These kernels, or None."""
    return compiled


class Windows(NamedTuple):
    """How windows lie on an image, one entry for each spatial axis (the last axes of the image).

    Window i covers the places stride·i + dilation·k − before, k < kernel, of the padded image.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # (before, after)
    dilation: tuple[int, ...]

    @classmethod
    def from_axes(cls, axes: Iterable[tuple]) -> "Windows":
        """From one (kernel, stride, padding, dilation) for each axis."""
        return cls(*zip(*axes, strict=True))

    def axes(self) -> Iterable[tuple]:
        """One (kernel, stride, padding, dilation) for each axis."""
        return zip(*self, strict=True)

    @property
    def tiling(self) -> bool:
        """Whether windows neither overlap nor leave places between them, nor take padding."""
        if self.stride != self.kernel or any(map(any, self.padding)):
            return False
        return set(self.dilation) == {1}

    def are_large_tiles(self, size: tuple[int, ...]) -> bool:
        """Whether each is the whole image of this size, or they tile it without a rest in rows of
        so many positions that a reduction over these as axes takes less time than other forms.
        """
        if self.kernel == size:
            return self.tiling
        if self.kernel[-1] < MANY or not self.tiling:
            return False
        return not any(n % k for n, k in zip(size, self.kernel, strict=True))

    def count(self, op: str, size: tuple[int, ...]) -> tuple[int, ...]:
        """The number of windows along each axis of an image of this size."""
        counts = []
        for n, (kernel, stride, padding, dilation) in zip(size, self.axes(), strict=True):
            room = n + sum(padding) - dilation * (kernel - 1) - 1
            if room < 0:
                raise ValueError(
                    f"{op}: the kernel {self.kernel} (dilation {self.dilation}) is larger than the "
                    f"padded input (size {tuple(size)}, padding {self.padding}); use a smaller "
                    "kernel or more padding"
                )
            counts.append(room // stride + 1)
        return tuple(counts)

    def covering(self, size: tuple[int, ...]) -> "Windows":
        """These windows padded so that a last, partial one counts, if it starts in x or before."""
        pairs = []
        for n, (kernel, stride, (before, after), dilation) in zip(size, self.axes(), strict=True):
            span = dilation * (kernel - 1) + 1
            last = ceil((n + before + after - span) / stride)
            if last * stride >= n + before:
                last -= 1
            pairs.append((before, max(after, last * stride + span - n - before)))
        return self._replace(padding=tuple(pairs))


def windows(
    op: str, kernel: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Windows:
    """Windows from what users write: numbers, one for each axis or one for all; 'same', 'valid'."""
    kernel = per_axis(op, "kernel_size", kernel, len(kernel), least=1)
    stride = per_axis(op, "stride", stride, len(kernel), least=1)
    dilation = per_axis(op, "dilation", dilation, len(kernel), least=1)
    if isinstance(padding, str):
        padding = _named(op, padding, kernel, stride, dilation)
    if not _plain(padding) and _ndim(padding) == 2 and len(padding) == len(kernel):
        pairs = tuple(per_axis(op, "padding", pair, 2, least=0) for pair in padding)
    else:
        pairs = tuple((p, p) for p in per_axis(op, "padding", padding, len(kernel), least=0))
    return Windows(kernel, stride, pairs, dilation)  # type: ignore[arg-type]


def _named(op: str, padding: str, kernel: tuple, stride: tuple, dilation: tuple) -> Padding:
    """What 'same' and 'valid' stand for: pairs that leave as many windows as places, and none."""
    if padding not in ("same", "valid"):
        raise ValueError(f"{op}: padding must be numbers, 'same' or 'valid', got {padding!r}")
    if padding == "valid":
        return 0
    if any(s != 1 for s in stride):
        raise ValueError(f"{op}: padding 'same' needs stride 1, got {stride}")
    spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]


def per_axis(op: str, name: str, value: Any, axes: int, least: int) -> tuple[int, ...]:
    """An int, or one int for each axis, as a tuple of ints."""
    if _plain(value) and len(value) == axes and min(value) >= least:
        return value  # so layers give it: NumPy is not asked
    values = (value,) * axes if _ndim(value) == 0 else tuple(value)
    whole = all(isinstance(v, int | np.integer) and v >= least for v in values)
    if len(values) != axes or not whole:
        raise ValueError(f"{op}: {name} must be an int ≥ {least}, or {axes} of them, got {value!r}")
    return tuple(int(v) for v in values)


def _ndim(value: Any) -> int:
    """np.ndim; 1 for a list of which NumPy makes no array, since its entries are unlike."""
    try:
        return np.ndim(value)
    except ValueError:
        return 1


def _plain(value: Any) -> bool:
    """Whether this is a tuple of Python's ints."""
    return type(value) is tuple and len(value) > 0 and {int}.issuperset(map(type, value))


def padded(x: Any, padding: tuple, value: float = 0, name: str = "") -> Any:
    """x with `value` around its last axes; x itself where the padding is empty.

    With a name, the result lies in that scratch memory.
    """
    if not any(map(any, padding)):
        return x
    fixed = x.ndim - len(padding)
    size = [n + sum(pair) for n, pair in zip(x.shape[fixed:], padding, strict=True)]
    shape = (*x.shape[:fixed], *size)
    y = scratch_like(name, shape, x) if name else array_module(x).empty(shape, dtype=x.dtype)
    y[...] = value
    y[inside(padding, x.shape[fixed:])] = x
    return y


def inside(padding: tuple, size: tuple) -> tuple:
    """The index of an image of this size within its padding."""
    return (..., *(slice(pair[0], pair[0] + n) for pair, n in zip(padding, size, strict=True)))


def every(start: int, step: int, count: int) -> slice:
    """start, start + step, ...: `count` of them."""
    return slice(start, start + step * (count - 1) + 1, step)


def positions(how: Windows, out: tuple) -> list[tuple]:
    """For each position in a window, where it lies in all windows of a padded image: an index.

    out: the number of windows along each axis.
    """
    return [
        (..., *[every(k * d, s, n) for k, (_, s, _, d), n in zip(at, how.axes(), out, strict=True)])
        for at in product(*map(range, how.kernel))
    ]


def _along(axis: int, index: Any) -> tuple:
    """x[_along(axis, index)] indexes one axis."""
    return (*(slice(None),) * axis, index)


def columns(x: Any, how: Windows, out: tuple, at: int) -> Any:
    """The windows of x (..., *size) as an array (..., *kernel, ..., *out), in scratch memory.

    `at` is the place of the kernel's axes, `out` the number of windows along each axis.
    """
    if compiled is not None and (y := compiled.columns(x, how, out, at)) is not None:
        return y
    xp = array_module(x)
    x = padded(x, how.padding, name="padded")
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
    """The transpose of `columns`: every entry of a window is added to the place it came from.

    The result may lie in scratch memory.
    """
    if compiled is not None and (y := compiled.fold(x, how, size, at)) is not None:
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
        apart = stride > dilation * (kernel - 1)  # no place lies in two windows
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
