"""Sliding windows over images, on plain arrays: what convolution and pooling are built from.

`columns` copies every window of an image: a convolution becomes one matrix product. Its transpose
`fold` adds the copies back into the image. Both go through the positions in a window: the elements
at one position of all windows are a slice of the padded image.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from ..backends.device import array_module

Sizes = int | Sequence[int]  # one for all spatial axes, or one for each
Padding = Sizes | Sequence[tuple[int, int]] | str  # also (before, after) pairs, "same", "valid"


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
    """The meaning of 'same' and 'valid': pairs that leave as many windows as places, and none."""
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


def padded(x: Any, padding: tuple, value: float = 0) -> Any:
    """x with `value` around its last axes; x itself where the padding is empty."""
    if not any(map(any, padding)):
        return x
    fixed = x.ndim - len(padding)
    size = [n + sum(pair) for n, pair in zip(x.shape[fixed:], padding, strict=True)]
    y = array_module(x).empty((*x.shape[:fixed], *size), dtype=x.dtype)
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


def columns(x: Any, how: Windows, out: tuple, at: int) -> Any:
    """The windows of x (..., *size) as a new array (..., *kernel, ..., *out).

    `at` is the place of the kernel's axes, `out` the number of windows along each axis.
    """
    x = padded(x, how.padding)
    y = np.stack([x[index] for index in positions(how, out)], axis=at)
    return y.reshape((*y.shape[:at], *how.kernel, *y.shape[at + 1 :]))


def fold(x: Any, how: Windows, size: tuple, at: int) -> Any:
    """The transpose of `columns`: every entry of a window is added to the place it came from."""
    dims = len(size)
    out, batch = x.shape[x.ndim - dims :], x.shape[at + dims : x.ndim - dims]
    parts = np.moveaxis(x.reshape((*x.shape[:at], prod(how.kernel), *batch, *out)), at, 0)
    whole = [n + sum(pair) for n, pair in zip(size, how.padding, strict=True)]
    y = array_module(x).zeros((*x.shape[:at], *batch, *whole), dtype=x.dtype)
    for index, part in zip(positions(how, out), parts):
        y[index] += part
    return y[inside(how.padding, size)]
