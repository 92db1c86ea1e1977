"""The direct form of a convolution, columns (im2col) and a product, for images in C order.

At stride 1 there are two ways. The first copies windows along all axes and multiplies them by the
weight. The second copies them along all axes except the last. The product then has an entry for
each kernel position along the last axis, and these are added to their results. For a 5 × 5 kernel
it copies a pixel 5 times and not 25, for 5 times as many entries of the product.

The same two ways serve the transpose, which is a convolution with the mirrored kernel. The gradient
of the weights is a product of two such copies: of the images along all axes except the last, and of
the results along the last.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import on_threads
from ...backends.device import array_module
from ...backends.window_kernels import compiled_kernels
from ...ops.windows import Windows
from ..windows import IDLE
from .images import (
    Images,
    beside,
    blocks,
    lanes,
    mirrored,
    mirrored_weight,
    transposed_weight,
    transposed_windows,
)
from .winograd_tiles import all_finite

# The second way pays if windows of all axes make at least this many times its columns. The weights'
# gradient needs no additions, and pays sooner.
WORTH_ADDING, WORTH_COPYING = 2.0, 1.25


def forward(
    x: Any, w: Any, b: Any, how: Windows, groups: int, y: Any, left: list | None = None
) -> None:
    """y = conv(x, w, b) for the images `left` (None: all)."""
    pays = _second_pays(how, w.shape[1], len(w) // groups, WORTH_ADDING)
    if pays and (back := _either_way(x, how, w)) is not None:
        _folded(x, mirrored_weight(w, groups), b, back, groups, y, left)
    else:
        _gathered(x, w, b, how, groups, y, left)


def transposed(a: Any, w: Any, how: Windows, groups: int, y: Any, left: list | None = None) -> None:
    """y = conv_dx(a, w) for the images `left` (None: all)."""
    pays = _second_pays(how, len(w) // groups, w.shape[1], WORTH_ADDING)
    if not pays and (back := _either_way(a, how, w)) is not None:
        _gathered(a, mirrored_weight(w, groups), None, back, groups, y, left)
    else:
        _folded(a, w, None, how, groups, y, left)


def of_weight(a: Any, x: Any, how: Windows, groups: int) -> Any:
    """conv_dw(a, x)."""
    out, inputs, outputs = a.shape[2:], x.shape[1] // groups, a.shape[1] // groups
    pays = _second_pays(how, inputs, outputs, WORTH_COPYING)
    if pays and (back := _either_way(x, how, x, a)) is not None:
        return _of_weight_by_both(a, x, how, back, groups)
    images = Images(groups, prod(out))
    shares = lanes(blocks(x, x.shape[1] * prod(how.kernel) * prod(out) * x.itemsize))
    sides = [outputs, inputs * prod(how.kernel)]
    flat = sides[0] < sides[1]  # BLAS is up to 1.2 times as fast at the transpose of such a product
    shape = (groups, *(reversed(sides) if flat else sides))
    sums = array_module(x).zeros((max(1, len(shares)), *shape), x.dtype)

    def work(lane: int) -> None:
        for block in shares[lane]:
            pair = [images.matrix(a[block]), images.columns(x[block], how, out)]
            tall, wide = reversed(pair) if flat else pair
            part = images.times(tall, wide.swapaxes(-1, -2))
            sums[lane] += part if images.merged else part.sum(0)

    on_threads(work, list(range(len(shares))), x)
    y = sums.sum(0)
    return y.swapaxes(-1, -2) if flat else y


def _either_way(x: Any, how: Windows, *factors: Any) -> Windows | None:
    """The mirrored windows, with which conv and conv_dx can replace each other; else None.

    None on a GPU, and with compiled loops, where copies cost less than sums. None also where a
    factor is not finite: the two ways multiply different zeros of the padding.
    """
    if type(x) is not np.ndarray or compiled_kernels() is not None or not all_finite(*factors):
        return None
    return mirrored(how)


def _second_pays(how: Windows, inputs: int, outputs: int, worth: float) -> bool:
    """Whether the second way pays for these numbers of input and output channels."""
    last, others = how.kernel[-1], prod(how.kernel[:-1])
    return inputs * others * last > worth * (inputs * others + outputs * last)


def _gathered(x: Any, w: Any, b: Any, how: Windows, groups: int, y: Any, left: list | None) -> None:
    """y = conv(x, w, b): the windows copied along all axes, and a product."""
    out = y.shape[2:]
    weight = w.reshape((groups, len(w) // groups, prod(w.shape[1:])))
    images, bias = Images(groups, prod(out)), beside(b, out)

    def work(block: slice) -> None:
        images.product(weight, images.columns(x[block], how, out), y[block])
        if bias is not None:
            y[block] += bias

    image = x.shape[1] * prod(how.kernel) * prod(out) * x.itemsize
    on_threads(work, blocks(x, image) if left is None else left, x)


def _folded(a: Any, w: Any, b: Any, how: Windows, groups: int, y: Any, left: list | None) -> None:
    """y = conv_dx(a, w) + b: windows copied along some axes, the product added up along the others.

    With stride 1 they are copied along all axes except the last. Each side of the product then
    exceeds its image only by the kernel positions along those axes, or along the last one.
    """
    flips, gather, scatter, middle = transposed_windows(how, a.shape[2:], y.shape[2:])
    weight, images = transposed_weight(w, flips, groups), Images(groups, prod(middle))
    widest = max(a.shape[1] * prod(gather.kernel), y.shape[1] * prod(scatter.kernel))
    bias = beside(b, y.shape[2:])

    def work(block: slice) -> None:
        cols = images.times(weight, images.columns(a[block], gather, middle))
        images.fold(cols, scatter, middle, y[block])
        if bias is not None:
            y[block] += bias

    every = blocks(a, widest * prod(middle) * a.itemsize) if left is None else left
    on_threads(work, every, a)


def _of_weight_by_both(a: Any, x: Any, how: Windows, back: Windows, groups: int) -> Any:
    """conv_dw(a, x): columns of x along all axes except the last, of a along the last one,
    mirrored.

    y[o, c, (j, k)] = Σ_{i, l} a[o, i, l − k] x[c, i + j, l], where l runs over the image's last
    axis. A 5 × 5 kernel then takes 5 copies of each and not 25 of x.
    """
    last = len(how.kernel) - 1
    of_x = Windows.from_axes([IDLE if i == last else axis for i, axis in enumerate(how.axes())])
    of_a = Windows.from_axes([axis if i == last else IDLE for i, axis in enumerate(back.axes())])
    middle = (*a.shape[2:-1], x.shape[-1])
    images = Images(groups, prod(middle))
    widest = max(a.shape[1] * how.kernel[-1], x.shape[1] * prod(how.kernel[:-1]))
    shares = lanes(blocks(x, widest * prod(middle) * x.itemsize))
    sides = [a.shape[1] // groups * how.kernel[-1], x.shape[1] // groups * prod(how.kernel[:-1])]
    sums = array_module(x).zeros((max(1, len(shares)), groups, *sides), x.dtype)

    def work(lane: int) -> None:
        for block in shares[lane]:
            of_block = images.columns(a[block], of_a, middle)
            pair = of_block, images.columns(x[block], of_x, middle)
            part = images.times(pair[0], pair[1].swapaxes(-1, -2))
            sums[lane] += part if images.merged else part.sum(0)

    on_threads(work, list(range(len(shares))), x)
    y = sums.sum(0).reshape((a.shape[1], how.kernel[-1], x.shape[1] // groups, *how.kernel[:-1]))
    y = y[:, ::-1]  # a's windows are mirrored
    return y.transpose((0, *range(2, y.ndim), 1))
