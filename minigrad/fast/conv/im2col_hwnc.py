"""The direct form of a convolution for images pixels first; its results are pixels first, too.

A window is a row of a matrix: for each kernel position, the channels there. The rows are copied for
some images at a time, in blocks that stay in the cache, and multiplied by the weight. The gradient
in x is the product with the weight's transpose, each entry added to the pixel it was copied from.
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import on_threads, scratch, spans
from ...backends.image_layout import lies_places_first, pays, places, places_first, turned
from ...ops.windows import Windows, every, inside
from ..small_products import add_product, multiply
from .images import images_at_once, lanes

BLOCK_BYTES = 2 << 20  # of windows at a time
# Positions of a kernel at stride 1: with more of them images in rows are faster, even with the
# copies that they need.
MOST_PLACES = 9


def suits(how: Windows, groups: int, x: Any, outputs: int, *others: Any) -> bool:
    """Whether images x are pixels first, and results with `outputs` channels should be, too.

    All arrays must be NumPy's, of float32 or float64.
    """
    return (
        groups == 1
        and (max(how.stride) > 1 or prod(how.kernel) <= MOST_PLACES)
        and turned(x)
        and lies_places_first(x)
        and all(a is None or type(a) is np.ndarray for a in others)
        and x.dtype.char in "fd"
        and pays(len(x), x.shape[1], outputs)
    )


def forward(x: Any, w: Any, b: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w, b); y is pixels first."""
    weight, results = _as_matrix(w), places(y)

    def work(images: slice) -> None:
        rows = window_rows(x, how, images, y.shape[2:])
        part = results[..., images, :]
        values = scratch.empty("product", (len(rows), len(w)), rows)
        multiply(rows, weight, values)
        if b is not None:
            values += b
        part[...] = values.reshape(part.shape)

    on_threads(work, image_blocks(x.shape[1], how, y), x)


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w); y is pixels first."""
    weight, given = _as_matrix(w).T, places(a)

    def work(images: slice) -> None:
        part, into = given[..., images, :], places(y)[..., images, :]
        size = [n + sum(pair) for n, pair in zip(y.shape[2:], how.padding, strict=True)]
        total = scratch.empty("padded", (*size, *into.shape[-2:]), a)
        total[...] = 0
        rows = scratch.empty("product", (part.size // part.shape[-1], weight.shape[1]), a)
        multiply(part.reshape((len(rows), -1)), weight, rows)
        rows = rows.reshape((*part.shape[:-1], prod(how.kernel), y.shape[1]))
        for i, seen in enumerate(_seen(how, a.shape[2:])):
            total[seen] += rows[..., i, :]
        into[...] = total[inside(how.padding, y.shape[2:])[1:]]

    on_threads(work, image_blocks(y.shape[1], how, a), a)


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x)."""
    outputs, inputs = a.shape[1], x.shape[1]
    given = places(places_first(a))
    shares = lanes(image_blocks(inputs, how, a))
    sums = np.zeros((len(shares), prod(how.kernel) * inputs, outputs), x.dtype)

    def work(lane: int) -> None:
        for images in shares[lane]:
            rows = window_rows(x, how, images, a.shape[2:])
            results = given[..., images, :].reshape((len(rows), outputs))
            add_product(rows.T, results, sums[lane])

    on_threads(work, list(range(len(shares))), x)
    y = sums.sum(0).reshape((*how.kernel, inputs, outputs))
    return y.transpose((y.ndim - 1, y.ndim - 2, *range(y.ndim - 2)))


def _as_matrix(w: Any) -> Any:
    """w (O, C, *kernel) as (kernel · C, O)."""
    return w.transpose((*range(2, w.ndim), 1, 0)).reshape((-1, len(w)))


def image_blocks(inputs: int, how: Windows, results: Any) -> list[slice]:
    """Some images at a time, whose windows take about BLOCK_BYTES."""
    image = inputs * prod(how.kernel) * prod(results.shape[2:]) * results.itemsize
    return spans(len(results), images_at_once(len(results), image, BLOCK_BYTES))


def window_rows(x: Any, how: Windows, images: slice, out: tuple) -> Any:
    """The windows of these images, (windows · images, kernel · C), in scratch memory."""
    image = places(x)[..., images, :]
    if any(map(any, how.padding)):
        size = [n + sum(pair) for n, pair in zip(x.shape[2:], how.padding, strict=True)]
        whole = scratch.empty("padded", (*size, *image.shape[-2:]), x)
        whole[...] = 0
        whole[inside(how.padding, x.shape[2:])[1:]] = image
        image = whole
    n, channels = image.shape[-2:]
    y = scratch.empty("axis 0", (*out, n, prod(how.kernel), channels), x)
    for i, seen in enumerate(_seen(how, out)):
        y[..., i, :] = image[seen]
    return y.reshape((prod(out) * n, -1))


def _seen(how: Windows, out: tuple) -> Iterator[tuple]:
    """For each kernel position the pixels of the padded image that windows have there."""
    for place in product(*map(range, how.kernel)):
        axes = zip(place, out, how.axes(), strict=True)
        yield tuple([every(k * dilation, stride, n) for k, n, (_, stride, _, dilation) in axes])
