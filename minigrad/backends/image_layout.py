"""Images with their pixels first in memory: shape (N, C, *size), strides of (*size, N, C).

For 2-d images this memory order is HWNC; the code calls it *places first*, a place being a pixel.
All channels of all images at one pixel are then neighbours in memory, so one window position of all
windows is a few long runs, and a convolution is a sum of matrix products
(pixels × channels)(channels × outputs) without a copy of its windows. So convolutions and pooling
of many images give results in this order, and take such arguments without a copy. Elementwise
results have the order of their arguments (NumPy's order="K"), so it passes through activations and
sums; ops that need C order copy it, as they would any transposed array. The order never shows in a
shape or a value: y[n, c, h, w] is the same element in either order.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .blocks import BLOCK, scratch, single, spans
from .pool import share

RUN = 256  # images times channels: shorter runs are slower than what the other order costs
# Rows a multiple of ALIGNED bytes apart share few places of the cache: a copy with GAP entries more
# between them is quicker to read across.
ALIGNED, GAP = 1024, 16
_chosen = True


def choose(chosen: bool) -> None:
    """Whether results may have this order. Compiled loops need C order and gain nothing by it."""
    global _chosen
    _chosen = chosen


def places(x: Any) -> Any:
    """A view (*size, N, C) of x (N, C, *size)."""
    return x.transpose((*range(2, x.ndim), 0, 1))


def lies_places_first(x: Any) -> bool:
    """Whether x lies in memory as places(x) would. An image of one place does so in any order."""
    return type(x) is np.ndarray and x.ndim > 2 and places(x).flags.c_contiguous


def turned(x: Any) -> bool:
    """Whether x (N, C, *size) has all channels and images of a place side by side, and not rows.

    So do images places first, and some of their places or images.
    """
    if type(x) is not np.ndarray or x.ndim < 3 or x.flags.c_contiguous:
        return False
    return x.strides[:2] == (x.shape[1] * x.itemsize, x.itemsize)


def pays(n: int, *channels: int) -> bool:
    """Whether n images with such numbers of channels had better lie places first."""
    return _chosen and n * min(channels) >= RUN


def empty(shape: tuple, dtype: Any) -> np.ndarray:
    """An uninitialised array of this shape, places first, which is not a view."""
    n, channels, *size = shape
    order = np.empty((*size, n, channels), np.bool_)  # never touched: it says the order alone
    return np.empty_like(order.transpose((-2, -1, *range(len(size)))), dtype=dtype)


def places_first(x: np.ndarray) -> np.ndarray:
    """x, or a copy of it, that lies places first."""
    if lies_places_first(x):
        return x
    y = empty(x.shape, x.dtype)
    if single(x):
        _copy(x, y)
    else:
        blocks = spans(len(x), max(1, BLOCK * len(x) // x.size))
        share(lambda images: _copy(x[images], y[images]), blocks)
    return y


def in_rows(x: Any) -> Any:
    """x as an array in rows: a copy where it is not, for images places first in a third of the time
    that NumPy takes for one.
    """
    if type(x) is not np.ndarray or x.flags.c_contiguous:
        return x
    k = turned_at(x)
    if not k:
        return np.ascontiguousarray(x)
    y = np.empty(x.shape, x.dtype)
    rows = y.reshape((prod(x.shape[:k]), -1))
    runs = x.transpose((*range(k, x.ndim), *range(k))).reshape(rows.shape[::-1])

    def copy(some: slice) -> None:
        block = scratch.empty("block 3", (len(runs), some.stop - some.start + GAP), x)[:, :-GAP]
        block[...] = runs[:, some]
        rows[some] = block.T

    share(copy, spans(len(rows), max(RUN, len(rows) * BLOCK // x.size)))
    return y


def turned_at(x: np.ndarray) -> int:
    """How many of x's first axes are the last in memory, the rest before them; 0: another order."""
    if x.ndim < 2 or x.size == 0 or x.flags.c_contiguous:
        return 0
    k = 1 + max(range(x.ndim - 1), key=lambda i: x.strides[i + 1] - x.strides[i])
    return k if x.transpose((*range(k, x.ndim), *range(k))).flags.c_contiguous else 0


def turned_like(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """a, or a copy of it, in the memory order of x, which is turned; both have the same shape."""
    k = turned_at(x)
    if a.transpose((*range(k, a.ndim), *range(k))).flags.c_contiguous:
        return a  # strides may differ, where an axis has one entry
    if k == 2:
        return places_first(a)
    y = np.empty_like(x, a.dtype)
    y[...] = a
    return y


def alike(values: tuple) -> tuple:
    """The values, images in rows turned where others of the same shape lie places first.

    Traced arrays (tape_trace.py) cannot be: where these are of both orders the op becomes one call
    of the replay, which then lays them alike as the eager run does.
    """
    images = [x for x in values if isinstance(x, np.ndarray) and x.ndim > 2]
    if len(images) < 2 or all(x.strides == images[0].strides for x in images):
        return values
    shapes = {x.shape for x in images if x.strides == _strides_turned(x)}
    return tuple([places_first(x) if _in_rows_of(x, shapes) else x for x in values])


def _in_rows_of(x: Any, shapes: set) -> bool:
    """Whether x is an array of one of the shapes, in rows."""
    return isinstance(x, np.ndarray) and x.shape in shapes and x.flags.c_contiguous


def _strides_turned(x: Any) -> tuple:
    """The strides that x would have places first."""
    n, channels, *size = x.shape
    place = n * channels * x.itemsize
    steps = [place * prod(size[i + 1 :]) for i in range(len(size))]
    return (channels * x.itemsize, x.itemsize, *steps)


def scratch_like(name: str, shape: tuple, x: Any, dtype: Any = None, count: tuple = ()) -> Any:
    """Scratch memory for `count` arrays of this shape (*lead, *size), each in the order of x."""
    if not turned(x):
        return scratch.empty(name, (*count, *shape), x, dtype)
    n, channels, *size = shape
    y = scratch.empty(name, (*count, *size, n, channels), x, dtype)
    first = range(len(count))
    return y.transpose((*first, -2, -1, *range(len(count), len(count) + len(size))))


def over_strips(fill: Callable, apart: bool, block: int, y: Any, *arrays: Any) -> None:
    """fill(block of y, blocks of the arrays) on all threads; all lie places first.

    apart: a row of the array with fewest rows belongs to one or some rows of each other. Then
    blocks are such rows of all images, else groups of images. block: elements of the largest.
    """
    every = (y, *arrays)
    largest = max(every, key=lambda a: a.size)
    n, channels, rows = len(y), y.shape[1], min(a.shape[2] for a in every)
    if largest.size < 2 * block:
        fill(*every)
    elif apart and not any(a.shape[2] % rows for a in every):

        def strip(span: slice) -> None:
            each = [a.shape[2] // rows for a in every]
            fill(*[a[:, :, span.start * k : span.stop * k] for a, k in zip(every, each)])

        share(strip, spans(rows, max(1, block * rows // largest.size)))
    else:
        step = max(1, -(-RUN // channels), block * n // largest.size)
        share(lambda images: fill(*[a[images] for a in every]), spans(n, step))


def _copy(x: np.ndarray, y: np.ndarray) -> None:
    if x.strides[1] % ALIGNED == 0 and x.flags.c_contiguous:
        rows = scratch.empty("block 3", (*x.shape[:2], x[0, 0].size + GAP), x)[..., :-GAP]
        rows[...] = x.reshape(rows.shape)
        x = rows.reshape(x.shape)
    places(y)[...] = places(x)
