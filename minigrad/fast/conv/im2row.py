"""Convolution of images with few channels, as in a first layer, into results pixels first.

The windows are copied as rows, one row for each channel and kernel position, over all windows of
all images: long runs. The transpose of this matrix times the weight gives the results in their
order. Each product computes a few rows of the results: the copies stay in the cache.
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import Steps, on_threads, scratch, single, spans, take_steps
from ...backends.image_layout import ALIGNED, GAP, pays, places, places_first
from ...backends.pool import share
from ...ops.windows import Windows, every, inside
from ..small_products import add_product, product_steps
from .images import lanes

BLOCK_BYTES = 3 << 20  # of columns at a time
MOST_CHANNELS = 4  # as in a first layer; with more the direct form is faster
LEAST_IMAGES = 16


def suits(how: Windows, groups: int, x: Any, outputs: int, *others: Any) -> bool:
    """Whether this form applies to images x, NumPy arrays of float32 or float64.

    A stride along the last axis would make runs of single pixels.
    """
    n, inputs = x.shape[:2]
    return (
        groups == 1
        and inputs <= MOST_CHANNELS
        and n >= LEAST_IMAGES
        and how.stride[-1] == 1
        and pays(n, outputs)
        and all(a is None or type(a) is np.ndarray for a in (x, *others))
        and x.dtype.char in "fd"
    )


def forward(x: Any, w: Any, b: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w, b); y is pixels first."""
    outputs, seen = y.shape[1], _images_last(x, how)
    weight = np.empty((w[0].size + (b is not None), outputs), y.dtype)
    weight[: w[0].size] = w.reshape((outputs, -1)).T
    if b is not None:
        weight[-1] = b

    def work(rows: slice) -> None:
        strip, steps = places(y)[rows], []
        columns = _columns(seen, how, rows, strip.shape[:-2], steps, ones=b is not None)
        steps += product_steps(columns.T, weight, strip.reshape((-1, outputs)))
        take_steps(steps)

    on_threads(work, _strips(x, how, y.shape[2:]), x)


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x) as (O, C · kernel)."""
    seen, given = _images_last(x, how), places(places_first(a))
    shares = lanes(_strips(x, how, a.shape[2:]))
    sums = np.zeros((len(shares), x.shape[1] * prod(how.kernel), a.shape[1]), x.dtype)

    def work(lane: int) -> None:
        for rows in shares[lane]:
            strip, steps = given[rows], []
            columns = _columns(seen, how, rows, strip.shape[:-2], steps)
            take_steps(steps)
            add_product(columns, strip.reshape((-1, a.shape[1])), sums[lane])

    on_threads(work, list(range(len(shares))), x)
    return sums.sum(0).T


def _images_last(x: Any, how: Windows) -> Any:
    """x padded with zeros, (C, *size, N), in scratch memory."""
    n, rest = len(x), x.shape[1:]
    if x[0].nbytes % ALIGNED == 0 and x.flags.c_contiguous:
        rows = scratch.empty("block 0", (n, prod(rest) + GAP), x)[:, :-GAP]
        rows[...] = x.reshape(rows.shape)
        x = rows.reshape(x.shape)
    size = [count + sum(pair) for count, pair in zip(rest[1:], how.padding, strict=True)]
    y = scratch.empty("padded", (rest[0], *size, n), x)
    y[...] = 0
    within = inside(how.padding, rest[1:])[1:]

    def copy(channels: slice) -> None:
        y[channels][:, *within] = x[:, channels].transpose((*range(1, x.ndim), 0))

    share(copy, [slice(None)] if single(x) else spans(rest[0], 1))
    return y


def _strips(x: Any, how: Windows, out: tuple) -> list[slice]:
    """Rows of results, about as many each time, whose columns take at most BLOCK_BYTES."""
    row = x.shape[1] * prod(how.kernel) * prod(out[1:]) * len(x) * x.itemsize
    strips = -(-out[0] // max(1, BLOCK_BYTES // max(1, row)))
    return spans(out[0], max(1, -(-out[0] // max(1, strips))))


def _columns(
    seen: Any, how: Windows, rows: slice, out: tuple, steps: Steps, ones: bool = False
) -> Any:
    """The windows of these rows of results, `out` of them, as (C · kernel, windows · images).

    The array is filled by `steps`. `ones` adds a last row of ones: its weight is the bias, which
    saves adding the bias to all results.
    """
    channels, n = len(seen), seen.shape[-1]
    entries = channels * prod(how.kernel)
    whole = scratch.empty("axis 0", (entries + ones, prod(out) * n), seen)
    if ones:
        steps.append((whole[-1].fill, (1,)))
    y = whole[:entries].reshape((channels, *how.kernel, *out, n))
    starts = (rows.start, *(0,) * (len(out) - 1))
    for place in product(*map(range, how.kernel)):
        axes = zip(place, starts, out, how.axes(), strict=True)
        at = [every(k * d + first * s, s, count) for k, first, count, (_, s, _, d) in axes]
        steps.append((np.copyto, (y[(slice(None), *place)], seen[(slice(None), *at)])))
    return whole
