"""Images with their pixels first in memory: shape (N, C, *size), strides of (*size, N, C).

For 2-d images this memory order is HWNC. The docs call it *pixels first*; names in the code have
`places_first`, where a place is a pixel. All channels of all images at one pixel are adjacent in
memory. One position of all windows is then a few long runs. A convolution is a sum of matrix
products (pixels × channels)(channels × outputs) without a copy of its windows.

Convolutions and pooling of many images therefore return results in this order, and take such
arguments without a copy. Elementwise results have the order of their arguments (NumPy's order="K"):
the order passes through activations and sums. Ops that need C order copy such an array, like any
transposed array. The order never changes a shape or a value: y[n, c, h, w] is the same element in
either order.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .blocks import BLOCK, scratch, single, spans
from .pool import share

RUN = 256  # images times channels: with shorter runs the other order is faster
# Rows at distances of a multiple of ALIGNED bytes share few cache sets: a copy with GAP more
# entries between them is faster to read across.
ALIGNED, GAP = 1024, 16
_chosen = True


def choose(chosen: bool) -> None:
    """Set whether results may have this order. Compiled loops need C order, and gain nothing by
    it."""
    global _chosen
    _chosen = chosen


def places(x: Any) -> Any:
    """A view (*size, N, C) of x (N, C, *size)."""
    return x.transpose((*range(2, x.ndim), 0, 1))


def lies_places_first(x: Any) -> bool:
    """Whether places(x) is contiguous. An image of one pixel is so in any order."""
    return type(x) is np.ndarray and x.ndim > 2 and places(x).flags.c_contiguous


def turned(x: Any) -> bool:
    """Whether all channels and images of a pixel of x (N, C, *size) are adjacent, and x is not in
    rows.

    This holds for images pixels first, and for selections of their pixels or images.
    """
    if type(x) is not np.ndarray or x.ndim < 3 or x.flags.c_contiguous:
        return False
    return x.strides[:2] == (x.shape[1] * x.itemsize, x.itemsize)


def pays(n: int, *channels: int) -> bool:
    """Whether n images with these numbers of channels are faster pixels first."""
    return _chosen and n * min(channels) >= RUN


def empty(shape: tuple, dtype: Any) -> np.ndarray:
    """An uninitialised array of this shape, pixels first, which is not a view."""
    n, channels, *size = shape
    order = np.empty((*size, n, channels), np.bool_)  # only for its order; never touched
    return np.empty_like(order.transpose((-2, -1, *range(len(size)))), dtype=dtype)


def places_first(x: np.ndarray) -> np.ndarray:
    """x, or a copy of it, pixels first."""
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
    """x in rows: itself, or a copy, which for images pixels first takes a third of NumPy's time."""
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
    """The number of x's first axes that are last in memory, after the rest; 0: another order."""
    if x.ndim < 2 or x.size == 0 or x.flags.c_contiguous:
        return 0
    k = 1 + max(range(x.ndim - 1), key=lambda i: x.strides[i + 1] - x.strides[i])
    return k if x.transpose((*range(k, x.ndim), *range(k))).flags.c_contiguous else 0


def turned_like(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """a, or a copy of it, in the memory order of x, which is turned; both have the same shape."""
    k = turned_at(x)
    if a.transpose((*range(k, a.ndim), *range(k))).flags.c_contiguous:
        return a  # strides may differ where an axis has one entry
    if k == 2:
        return places_first(a)
    y = np.empty_like(x, a.dtype)
    y[...] = a
    return y


def alike(values: tuple) -> tuple:
    """The values; images in rows become pixels first if others of the same shape are.

    Traced arrays (tape/trace.py) keep their order. If they have both orders, the op becomes one
    call of the replay, which then unifies the order like the eager run.
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
    """The strides of x, pixels first."""
    n, channels, *size = x.shape
    place = n * channels * x.itemsize
    steps = [place * prod(size[i + 1 :]) for i in range(len(size))]
    return (channels * x.itemsize, x.itemsize, *steps)


def scratch_like(name: str, shape: tuple, x: Any, dtype: Any = None, count: tuple = ()) -> Any:
    """Scratch memory for `count` arrays of this shape (*lead, *size), each in x's order."""
    if not turned(x):
        return scratch.empty(name, (*count, *shape), x, dtype)
    n, channels, *size = shape
    y = scratch.empty(name, (*count, *size, n, channels), x, dtype)
    first = range(len(count))
    return y.transpose((*first, -2, -1, *range(len(count), len(count) + len(size))))


def over_strips(fill: Callable, apart: bool, block: int, y: Any, *arrays: Any) -> None:
    """fill(block of y, blocks of the arrays) on all threads; all are pixels first.

    apart: each row of the array with fewest rows corresponds to one or several rows of the others.
    Blocks are then such rows of all images, else groups of images. block: elements of the largest.
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
