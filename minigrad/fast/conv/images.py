"""Images as matrices and back, on plain arrays: the layouts of every convolution."""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import scratch, spans
from ...backends.device import array_module
from ...ops.windows import Windows
from ..small_products import multiply
from ..windows import IDLE, columns, fold

BLOCK_BYTES = 2 << 20  # of columns that a thread makes at a time
BLOCK_BYTES_ON_GPU = 1 << 30  # here small blocks leave most of the chip idle
LANES = 4  # sums of the weights' gradient that threads fill side by side
FEW_WINDOWS = 100  # images with fewer windows than this are multiplied together, not one by one


class Images:
    """Images (n, groups · c, *size) as matrices whose columns are pixels.

    One matrix (c, pixels) for each image and group. If images have few pixels, one for each group,
    with the pixels of all images side by side: a product of tiny matrices is slow.
    """

    def __init__(self, groups: int, places: int):
        self.groups = groups
        self.merged = places < FEW_WINDOWS
        self.at = 2 if self.merged else 3  # the position of the kernel's axes: after the channels

    def split(self, x: Any) -> Any:
        """(n, groups, c, *size), or (groups, c, n, *size) where images are merged. A view."""
        x = x.reshape((len(x), self.groups, x.shape[1] // self.groups, *x.shape[2:]))
        return x.transpose((1, 2, 0, *range(3, x.ndim))) if self.merged else x

    def matrix(self, x: Any) -> Any:
        """(n, groups, c, pixels) or (groups, c, n · pixels)."""
        x = self.split(x)
        lead = x.shape[: self.at]
        return x.reshape((*lead, prod(x.shape[self.at :])))

    def columns(self, x: Any, how: Windows, out: tuple) -> Any:
        """The windows of x, one column each: (n, groups, c · kernel, windows) or merged."""
        cols = columns(self.split(x), how, out, self.at)
        lead, rest = cols.shape[: self.at - 1], cols.shape[self.at + len(out) :]
        return cols.reshape((*lead, cols.shape[self.at - 1] * prod(how.kernel), prod(rest)))

    def product(self, weight: Any, cols: Any, y: Any) -> None:
        """y = weight · cols, in the images' order."""
        if self.merged:
            view = self.split(y)
            view[...] = self.times(weight, cols).reshape(view.shape)
        else:
            lead = (len(y), self.groups, y.shape[1] // self.groups)
            multiply(weight, cols, y.reshape((*lead, prod(y.shape[2:]))))

    def times(self, weight: Any, cols: Any) -> Any:
        """weight · cols, in scratch memory."""
        shape = (*cols.shape[:-2], weight.shape[-2], cols.shape[-1])
        y = scratch.empty("product", shape, cols)
        multiply(weight, cols, y)
        return y

    def fold(self, cols: Any, how: Windows, middle: tuple, y: Any) -> None:
        """y = the images of these columns, windows added up: the transpose of `columns`."""
        view = self.split(y)
        lead, batch = view.shape[: self.at], view.shape[self.at : -len(middle)]
        x = cols.reshape((*lead, *how.kernel, *batch, *middle))
        view[...] = fold(x, how, y.shape[2:], self.at)


def transposed_windows(how: Windows, out: tuple, size: tuple) -> tuple:
    """The steps of conv_dx along each axis: (flips, windows to gather, windows to scatter, the size
    between the two). A flip says that the axis is gathered.
    """
    flips, gather, scatter, middle = [], [], [], []
    for i, (kernel, stride, (before, after), dilation) in enumerate(how.axes()):
        span = dilation * (kernel - 1)
        mirrored = (span - before, span - after)
        flip = stride == 1 and min(mirrored) >= 0 and i < len(out) - 1
        flips.append(flip)
        gather.append((kernel, 1, mirrored, dilation) if flip else IDLE)
        scatter.append(IDLE if flip else (kernel, stride, (before, after), dilation))
        middle.append(size[i] if flip else out[i])
    return flips, Windows.from_axes(gather), Windows.from_axes(scatter), tuple(middle)


def mirrored(how: Windows) -> Windows | None:
    """The windows that make the transpose of windows at stride 1 a convolution.

    None for a larger stride, or for a padding where some windows see only zeros.
    """
    axes = []
    for kernel, stride, (before, after), dilation in how.axes():
        span = dilation * (kernel - 1)
        if stride > 1 or max(before, after) > span:
            return None
        axes.append((kernel, 1, (span - before, span - after), dilation))
    return Windows.from_axes(axes)


def mirrored_weight(w: Any, groups: int) -> Any:
    """The weight for which conv_dx with `mirrored` windows is conv with w."""
    w = w.reshape((groups, len(w) // groups, *w.shape[1:])).swapaxes(1, 2)
    w = w[(..., *(slice(None, None, -1),) * (w.ndim - 3))]
    return w.reshape((groups * w.shape[1], *w.shape[2:]))


def transposed_weight(w: Any, flips: list, groups: int) -> Any:
    """w (groups · o, c, *kernel) as (groups, c · scattered kernel, o · flipped gathered kernel)."""
    o, c, kernel = len(w) // groups, w.shape[1], w.shape[2:]
    w = w[(..., *(slice(None, None, -1 if flip else 1) for flip in flips))]
    w = w.reshape((groups, o, c, *kernel))
    gathered = [3 + i for i, flip in enumerate(flips) if flip]
    scattered = [3 + i for i, flip in enumerate(flips) if not flip]
    w = w.transpose((0, 2, *scattered, 1, *gathered))
    rows, columns = (prod(kernel[i - 3] for i in axes) for axes in (scattered, gathered))
    return w.reshape((groups, c * rows, o * columns))


def blocks(x: Any, nbytes: int) -> list[slice]:
    """Slices of the batch x whose columns, of `nbytes` an image, take about BLOCK_BYTES each."""
    if array_module(x) is not np:
        return spans(len(x), max(1, BLOCK_BYTES_ON_GPU // max(1, nbytes)))
    return spans(len(x), images_at_once(len(x), nbytes, BLOCK_BYTES))


def images_at_once(n: int, nbytes: int, limit: int) -> int:
    """How many of n images, of nbytes each, make a block of about `limit` bytes.

    Half of them, where all would be one large block: BLAS would compute its product on several
    threads, and one of these would go on spinning during the next call.
    """
    most = max(1, limit // max(1, nbytes))
    return min(most, -(-n // 2)) if n * nbytes > limit // 4 else most


def lanes(cut: list) -> list[list]:
    """The blocks distributed over at most LANES sums, independent of the number of threads."""
    return [cut[i::LANES] for i in range(min(LANES, len(cut)))]


def beside(b: Any, out: tuple) -> Any:
    """A bias (O,) that broadcasts against images with O channels."""
    return None if b is None else b.reshape((-1, *(1,) * len(out)))
