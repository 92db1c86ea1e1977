"""Depthwise convolution, one kernel per channel, as products with banded matrices.

Along an axis a convolution is a product with a banded matrix: column j holds the kernel from row
stride·j on, and zeros. For a tile of t results of a row it has about t + kernel rows. Windows are
copied along all axes except the last, as whole rows, and multiplied:

    y[tile, :] = Σ_k x[tile + k, :] B_k

Most of the multiplications are by zero, and still one matrix product takes less time than a pass
over the array for each kernel position.

0 · ∞ is NaN and would spread over a tile: depthwise.py handles images that are not finite.
"""

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends.blocks import on_threads, scratch, spans
from ...ops.windows import Windows, every, inside
from ..small_products import SHORT, multiply
from .images import mirrored

BLOCK_BYTES = 2 << 20  # of columns at a time
MOST_BYTES = 16 << 20  # of columns of one channel of one image; depthwise.py takes larger ones
TILE = 16  # results of a row at a time: more multiply more zeros, fewer copy more
LEAST = 1 << 14  # results from which it pays

# The longest rows of results for which it pays, where the kernel has few positions; with more, it
# pays for any row.
FEW_PLACES, LONGEST, LONGEST_OF_GRADIENT = 16, 20, 32


def _longest_of_weight(places: int) -> int:
    """The same for the weights' gradient, by the number of kernel positions."""
    return 10 if places < FEW_PLACES else 16 if places < 49 else 32


class _Bands(NamedTuple):
    """The tiling of rows of results: `count` tiles of `tile`, each from `width` pixels of a row."""

    count: int
    tile: int
    width: int

    @classmethod
    def of(cls, how: Windows, out: tuple) -> "_Bands":
        count = -(-out[-1] // TILE)
        tile = -(-out[-1] // count)
        span = how.dilation[-1] * (how.kernel[-1] - 1)
        return cls(count, tile, (tile - 1) * how.stride[-1] + span + 1)


def suits(how: Windows, x: Any, w: Any, out: tuple, longest: int | None = None) -> bool:
    """Whether this form applies to conv of images x, and pays: for rows up to `longest`."""
    few = prod(how.kernel) < FEW_PLACES
    pays = not few or out[-1] <= (LONGEST if longest is None else longest)
    return pays and _takes(how, out, x, w)


def suits_transposed(how: Windows, a: Any, w: Any, size: tuple) -> bool:
    """Whether this form applies to conv_dx of results a, and pays."""
    if mirrored(how) is not None:
        return suits(how, a, w, size, LONGEST_OF_GRADIENT)
    return suits(how, a, w, a.shape[2:], LONGEST_OF_GRADIENT)


def suits_weight(how: Windows, a: Any, x: Any) -> bool:
    """Whether conv_dw is faster in this form."""
    out = a.shape[2:]
    pays = out[-1] <= _longest_of_weight(prod(how.kernel))
    return pays and _takes(how, out, a, x)


def _takes(how: Windows, out: tuple, *arrays: Any) -> bool:
    """Whether kernels have several axes, and arrays a dtype for BLAS and enough elements."""
    return (
        min(how.kernel[-1], prod(how.kernel[:-1])) > 1
        and prod(out) * prod(arrays[0].shape[:2]) >= LEAST
        and arrays[0].dtype.char in "fd"
        and arrays[0].dtype == arrays[1].dtype
        and _image_bytes(how, out, arrays[0].itemsize) <= MOST_BYTES
    )


def _image_bytes(how: Windows, out: tuple, itemsize: int) -> int:
    """The size of the columns of one channel of an image."""
    bands = _Bands.of(how, out)
    return prod(out[:-1]) * bands.count * prod(how.kernel[:-1]) * bands.width * itemsize


def forward(x: Any, w: Any, bias: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w) + bias"""
    out = y.shape[2:]
    bands = _Bands.of(how, out)
    matrices = _matrices(w, how, bands)

    def work(piece: tuple) -> None:
        channels = piece[1]
        rows = _windows(x[piece], how, out, bands)
        terms = scratch.empty("product", (*rows.shape[:2], bands.tile), x)
        multiply(rows, matrices[channels], terms)
        results = terms.reshape((len(rows), -1, *out[:-1], bands.count * bands.tile))
        results = results[..., : out[-1]].swapaxes(0, 1)
        if bias is None:
            y[piece] = results
        else:
            np.add(results, bias[channels], out=y[piece])

    on_threads(work, _pieces(x, how, out), x)


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w): at stride 1 a convolution with the mirrored kernel."""
    back = mirrored(how)
    if back is not None:
        forward(a, w[(..., *(slice(None, None, -1),) * len(how.kernel))], None, back, y)
        return
    out = a.shape[2:]
    bands = _Bands.of(how, out)
    matrices = _matrices(w, how, bands).swapaxes(1, 2)

    def work(piece: tuple) -> None:
        tiles = _tiles(a[piece], bands)
        channels, n = tiles.shape[:2]
        terms = scratch.empty(
            "product", (channels, tiles[0].size // bands.tile, matrices.shape[-1]), a
        )
        multiply(tiles.reshape((channels, -1, bands.tile)), matrices[piece[1]], terms)
        shape = (channels, n, *out[:-1], bands.count, *how.kernel[:-1], bands.width)
        _add_up(terms.reshape(shape), how, bands, y[piece].swapaxes(0, 1))

    on_threads(work, _pieces(y, how, out), a)


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x) as (C, kernel positions): sums along the bands of the matrices' gradient."""
    out, channels = a.shape[2:], x.shape[1]
    bands = _Bands.of(how, out)
    pieces = _pieces(x, how, out)
    y = np.zeros((len(pieces), channels, prod(how.kernel)), x.dtype)

    def work(i: int) -> None:
        rows = _windows(x[pieces[i]], how, out, bands)
        tiles = _tiles(a[pieces[i]], bands).reshape((len(rows), -1, bands.tile))
        terms = scratch.empty("product", (len(rows), rows.shape[-1], bands.tile), x)
        multiply(rows.swapaxes(1, 2), tiles, terms, SHORT)
        terms = terms.reshape((len(rows), -1, bands.width, bands.tile))
        y[i, pieces[i][1]] = _band(terms, how).sum(-1).reshape((len(rows), -1))

    on_threads(work, list(range(len(pieces))), x)
    return y.sum(0)


def _matrices(w: Any, how: Windows, bands: _Bands) -> Any:
    """The banded matrices of each channel, one below the other: (C, other axes · width, tile)."""
    y = np.zeros((len(w), prod(how.kernel[:-1]), bands.width, bands.tile), w.dtype)
    _band(y, how)[...] = w.reshape((*y.shape[:2], -1, 1))
    return y.reshape((len(w), -1, bands.tile))


def _band(matrices: Any, how: Windows) -> Any:
    """The kernel's entries of banded matrices (…, width, tile): (…, kernel, tile). A view."""
    *lead, row, entry = matrices.strides
    strides = (*lead, how.dilation[-1] * row, how.stride[-1] * row + entry)
    shape = (*matrices.shape[:-2], how.kernel[-1], matrices.shape[-1])
    return np.lib.stride_tricks.as_strided(matrices, shape, strides)


def _pieces(x: Any, how: Windows, out: tuple) -> list[tuple[slice, slice]]:
    """(images, channels) whose columns take about BLOCK_BYTES; more images before more channels."""
    image = _image_bytes(how, out, x.itemsize)
    images = max(1, min(len(x), BLOCK_BYTES // image))
    channels = max(1, BLOCK_BYTES // (images * image))
    return [(i, c) for i in spans(len(x), images) for c in spans(x.shape[1], channels)]


def _tiles(a: Any, bands: _Bands) -> Any:
    """Results a (n, C, *out) as (C, n, *out), rows padded with zeros to whole tiles."""
    a = a.swapaxes(0, 1)
    y = scratch.empty("turned", (*a.shape[:-1], bands.count * bands.tile), a)
    y[..., a.shape[-1] :] = 0
    y[..., : a.shape[-1]] = a
    return y


def _windows(x: Any, how: Windows, out: tuple, bands: _Bands) -> Any:
    """(C, images · rows of results · tiles, kernel's other axes · width), in scratch memory."""
    n, channels, size = *x.shape[:2], x.shape[2:]
    step = bands.tile * how.stride[-1]  # from one tile of a row to the next
    image = scratch.empty("padded", (channels, n, *_whole(size, how, bands)), x)
    image[...] = 0
    image[inside(how.padding, size)] = x.swapaxes(0, 1)
    inner, last = image.strides[2:-1], image.strides[-1]
    shape = (channels, n, *out[:-1], bands.count, *how.kernel[:-1], bands.width)
    strides = (
        *image.strides[:2],
        *[s * by for s, by in zip(inner, how.stride[:-1], strict=True)],
        step * last,
        *[s * by for s, by in zip(inner, how.dilation[:-1], strict=True)],
        last,
    )
    y = scratch.empty("axis 0", shape, x)
    y[...] = np.lib.stride_tricks.as_strided(image, shape, strides)
    return y.reshape((channels, n * prod(out[:-1]) * bands.count, -1))


def _add_up(windows: Any, how: Windows, bands: _Bands, y: Any) -> None:
    """y (C, n, *size) = the transpose of `_windows`: every entry added to the pixel it came
    from."""
    size, out = y.shape[2:], windows.shape[2 : y.ndim - 1]
    step = bands.tile * how.stride[-1]
    image = scratch.empty("padded", (*y.shape[:2], *_whole(size, how, bands)), y)
    image[...] = 0
    for place in product(*map(range, how.kernel[:-1])):
        axes = zip(place, out, list(how.axes())[:-1], strict=True)
        seen = [every(k * d, s, n) for k, n, (_, s, _, d) in axes]
        for tile in range(bands.count):
            columns = slice(tile * step, tile * step + bands.width)
            image[(..., *seen, columns)] += windows[(..., tile, *place, slice(None))]
    y[...] = image[inside(how.padding, size)]


def _whole(size: tuple, how: Windows, bands: _Bands) -> list[int]:
    """The size of images with their padding, rows long enough for whole tiles."""
    whole = [length + sum(pair) for length, pair in zip(size, how.padding, strict=True)]
    step = bands.tile * how.stride[-1]
    whole[-1] = max(whole[-1], (bands.count - 1) * step + bands.width)
    return whole
