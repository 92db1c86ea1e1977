"""Convolution with a 1 × 1 kernel, of images pixels first: one matrix product.

Pixels of all images are the rows of a matrix and channels its columns, in argument and result;
nothing is copied. The direct form computes images in C order, with a product for each image.
"""

from typing import Any

import numpy as np

from ...backends.blocks import BLOCK, on_threads, spans
from ...backends.image_layout import places, places_first
from ...ops.windows import Windows
from ..small_products import add_product, multiply
from ..windows import IDLE
from . import im2col_hwnc
from .images import lanes


def suits(how: Windows, groups: int, x: Any, outputs: int, *others: Any) -> bool:
    """Whether each window is one pixel, and `im2col_hwnc` would take these images."""
    return all(axis == IDLE for axis in how.axes()) and im2col_hwnc.suits(
        how, groups, x, outputs, *others
    )


def forward(x: Any, w: Any, b: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w, b); y is pixels first."""
    _multiply(x, np.ascontiguousarray(w.reshape(w.shape[:2]).T), y)
    if b is not None:
        runs = places(y)
        runs += b


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w); y is pixels first."""
    _multiply(a, w.reshape(w.shape[:2]), y)


def _multiply(x: Any, weight: Any, y: Any) -> None:
    rows, results = _matrix(x), _matrix(y)
    on_threads(lambda span: multiply(rows[span], weight, results[span]), _spans(x, y), x)


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x) as (O, C)."""
    given, seen = _matrix(places_first(a)), _matrix(x)
    shares = lanes(_spans(a, x))
    sums = np.zeros((len(shares), a.shape[1], x.shape[1]), x.dtype)

    def work(lane: int) -> None:
        for span in shares[lane]:
            add_product(given[span].T, seen[span], sums[lane])

    on_threads(work, list(range(len(shares))), x)
    return sums.sum(0)


def _matrix(x: Any) -> Any:
    return places(x).reshape((-1, x.shape[1]))


def _spans(*images: Any) -> list[slice]:
    """Rows of the matrices that make a block."""
    widest = max(x.shape[1] for x in images)
    return spans(images[0].size // images[0].shape[1], max(1, BLOCK // widest))
