"""The transforms of Winograd's convolution (winograd.py), on plain arrays, piece by piece.

Each is a few sums of long contiguous runs. A run is all images and channels of a piece at one
pixel. Images pixels first (backends/image_layout.py) have this order already, and their tiles are
views. Others are copied into it, with the last axis split into even and odd pixels. Runs of few
images are short; the split makes one position of all tiles a longer run.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...backends import blas, image_layout
from ...backends.blocks import Steps, scratch, spans
from ...backends.image_layout import ALIGNED, GAP, lies_places_first, places
from ...backends.window_kernels import compiled_kernels
from .winograd_axis import GIVEN, RESULTS, SEEN, Transform, at_axis, by_products, seen_by_tiles

# Bytes of transformed tiles at a time, in and out: calls that threads share must be long (`BLOCK`
# in backends/blocks.py).
BLOCK_BYTES = 4 << 20
RUN = 512  # channels in and out, times images of a piece: shorter runs cost a third more

# -- cutting -------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A unit of work: some images and, of each, some tiles along the first axis."""

    images: slice
    start: int  # the first of these tiles
    tiles: tuple  # along each axis

    @property
    def total(self) -> int:
        """Tiles of all its images."""
        return prod(self.tiles) * (self.images.stop - self.images.start)


def tiles_of(out: tuple) -> tuple:
    """The number of tiles of results of size `out` along each axis."""
    return tuple([-(-n // 2) for n in out])


def pieces(x: Any, out: tuple, outputs: int, block_bytes: int | None) -> list[Piece]:
    """Images x with results of size `out` in pieces of `block_bytes` (None: BLOCK_BYTES).

    The pieces depend only on shape and order. A single piece becomes two of half the size, which
    threads can share. A larger weight makes larger pieces, since every piece reads it. A piece has
    several images, as the runs of one image's channels are short, or, of large images, strips.
    Images pixels first are cut into strips of all images, or, if these are too large, of fewer
    images.
    """
    (n, inputs), (first, *rest) = x.shape[:2], tiles_of(out)
    channel = 4 ** len(out) * x.itemsize
    row = prod(rest) * channel * (inputs + outputs)
    limit = block_bytes or BLOCK_BYTES
    limit = min(limit, max(n * row * first // 2, limit // 4))  # two pieces instead of one
    limit = max(limit, channel * inputs * outputs)
    if lies_places_first(x):
        images = max(image_layout.RUN // min(inputs, outputs), limit // row, 1)
    else:
        images = max(1, RUN // (inputs + outputs), limit // (row * first))
    images = min(n, 1 << (images.bit_length() - 1))
    rows = min(first, max(1, limit // (row * images)))
    rows = -(-first // -(-first // rows))  # strips of about the same height
    return [
        Piece(block, strip.start, (strip.stop - strip.start, *rest))
        for block in spans(n, images)
        for strip in spans(first, rows)
    ]


# -- transforms: they append to `steps` ------------------------------------------------------------


def _gather(x: Any, piece: Piece, before: tuple, seen: int, name: str, steps: Steps) -> Any:
    """The pixels that the piece's tiles see, zeros outside x: (..., 2, half, images, channels).

    x (N, C, *size); `before`: pixels before the first that the first tile sees. Each tile sees
    `seen` pixels (4, or 2), and the next begins 2 further. The last axis is split into even and odd
    pixels: one position of all tiles is then one run.
    """
    x, inside = x[piece.images], []
    size = [2 * count + seen - 2 for count in piece.tiles]
    index: list = [slice(None), slice(None)]
    for i, (n, count, pad) in enumerate(zip(x.shape[2:], size, before, strict=True)):
        first = (2 * piece.start if i == 0 else 0) - pad
        start, stop = max(first, 0), max(0, first, min(first + count, n))
        index.append(slice(start, stop))
        inside.append(slice(start - first, stop - first))
    x = x[tuple(index)]
    if x.strides[1] % ALIGNED == 0:
        shape = (*x.shape[:2], prod(x.shape[2:]) + GAP)
        copy = scratch.empty("block 3", shape, x)[..., :-GAP].reshape(x.shape)
        steps.append((np.copyto, (copy, x)))
        x = copy
    y = scratch.empty(name, (*size[:-1], 2, size[-1] // 2, *x.shape[:2]), x)
    steps.append((y.fill, (0,)))
    x = x.transpose((*range(2, x.ndim), 0, 1))
    *lead, last = inside
    for odd in range(2):
        skipped = (odd - last.start) % 2
        places = x[at_axis(len(lead), slice(skipped, None, 2))]
        half = (last.start + skipped) // 2
        into = y[(*lead, odd, slice(half, half + places.shape[len(lead)]))]
        steps.append((np.copyto, (into, places)))
    return y.reshape((*y.shape[:-2], prod(y.shape[-2:])))


def _transformed(
    x: Any, tiles: tuple, transform: Transform, name: str, steps: Steps, split: bool = False
) -> Any:
    """Tiles of `_strip` as (4, 4, ..., *tiles, run), transformed along each axis.

    split: the last axis is two, as `_gather` returns it. The steps between scratch arrays are the
    same for all pieces of one size.
    """
    seen = len(transform.matrix[0])

    def along(x: Any, i: int, y: Any) -> Steps:
        """The transform of axis i of x, whose first i axes are transformed."""
        if split and i == len(tiles) - 1:
            halves = [slice(k // 2, k // 2 + tiles[i]) for k in range(seen)]
            places = [x[(*at_axis(2 * i, k % 2), half)] for k, half in enumerate(halves)]
            return transform.sums(places, [y[at_axis(i, k)] for k in range(4)])
        return transform.steps(seen_by_tiles(x, i, 2 * i, seen, tiles[i]), i, y)

    def into(x: Any, i: int) -> Any:
        rest = x.shape[2 * i + 1 + (split and i == len(tiles) - 1) :]
        return scratch.empty(f"{name} {i}", (*(4,) * (i + 1), *tiles[: i + 1], *rest), x)

    def write() -> tuple:
        first = y = into(x, 0)
        later: Steps = []
        for i in range(1, len(tiles)):
            before, y = y, into(y, i)
            later += along(before, i, y)
        return first, y, later

    first, y, later = scratch.written((name, tiles, x.shape, x.dtype, split, by_products(x)), write)
    steps += along(x, 0, first)
    steps += later
    return y


# -- of images channels first --------------------------------------------------------------------


def _seen(x: Any, piece: Piece, before: tuple, steps: Steps) -> Any:
    """Bᵀ d of the pixels of x that the piece's tiles see: (4ᵃ, tiles, channels)."""
    v = _gather(x, piece, before, 4, "padded", steps)
    v = _transformed(v, piece.tiles, SEEN, "axis", steps, split=True)
    return v.reshape((4 ** len(before), piece.total, x.shape[1]))


def _given(a: Any, piece: Piece, steps: Steps) -> Any:
    """A g of the piece of a: (4ᵃ, tiles, channels)."""
    axes = len(piece.tiles)
    v = _gather(a, piece, (0,) * axes, 2, "phases", steps)
    v = _transformed(v, piece.tiles, GIVEN, "block", steps, split=True)
    return v.reshape((4**axes, piece.total, a.shape[1]))


def _results(m: Any, b: Any, piece: Piece, y: Any, steps: Steps) -> Callable[[], bool]:
    """y's piece = Aᵀ m + b of m (4ᵃ, tiles, channels), which is overwritten.

    Returns a function to call after the steps: it tells whether all of it is finite; if not, y
    stays unchanged.
    """
    m = _products(m, b, piece, steps)
    *_, run = m.shape
    whole = tuple([2 * count for count in piece.tiles])
    memory = scratch.empty("phases", (*whole, run + GAP), m)
    values, place = memory[..., :run], _place(y, piece)
    steps.append((memory[..., run:].fill, (0,)))
    _sums_of_products(m, values, steps)
    values = values.reshape((*whole, -1, y.shape[1]))
    values = values[tuple([slice(count) for count in place.shape[:-2]])]

    def finish() -> bool:
        if not finite(memory):
            return False
        place[...] = values
        return True

    return finish


# -- of images pixels first ----------------------------------------------------------------------


def _strip(x: Any, piece: Piece, before: tuple, seen: int, name: str, steps: Steps) -> Any:
    """The places that the piece's tiles see, zeros outside x: (..., run). A view if all are in x.

    before, seen: see `_gather`.
    """
    x = places(x)[..., piece.images, :]
    x = x.reshape((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    size = [2 * count + seen - 2 for count in piece.tiles]

    def write() -> tuple:
        firsts = [-pad for pad in before]
        firsts[0] += 2 * piece.start
        inside = [
            slice(max(first, 0), max(0, first, min(first + count, n)))
            for first, count, n in zip(firsts, size, x.shape, strict=False)
        ]
        if [part.stop - part.start for part in inside] == size:
            return tuple(inside), None, None, []
        y, fills = scratch.empty(name, (*size, x.shape[-1]), x), []
        for axis, (part, first, count) in enumerate(zip(inside, firsts, size, strict=True)):
            for outside in (slice(0, part.start - first), slice(max(0, part.stop - first), count)):
                if outside.start < outside.stop:
                    fills.append((y[at_axis(axis, outside)].fill, (0,)))
        index = [slice(p.start - f, p.stop - f) for p, f in zip(inside, firsts, strict=True)]
        return tuple(inside), y, y[tuple(index)], fills

    key = (name, x.shape, x.dtype, piece.start, piece.tiles, before)
    inside, y, into, fills = scratch.written(key, write)
    if y is None:
        return x[inside]
    steps += [*fills, (np.copyto, (into, x[inside]))]
    return y


def _seen_places_first(x: Any, piece: Piece, before: tuple, steps: Steps) -> Any:
    v = _strip(x, piece, before, 4, "padded", steps)
    v = _transformed(v, piece.tiles, SEEN, "axis", steps)
    return v.reshape((4 ** len(before), piece.total, x.shape[1]))


def _given_places_first(a: Any, piece: Piece, steps: Steps) -> Any:
    axes = len(piece.tiles)
    v = _strip(a, piece, (0,) * axes, 2, "phases", steps)
    v = _transformed(v, piece.tiles, GIVEN, "block", steps)
    return v.reshape((4**axes, piece.total, a.shape[1]))


def _results_places_first(m: Any, b: Any, piece: Piece, y: Any, steps: Steps) -> Callable[[], bool]:
    m = _products(m, b, piece, steps)
    place, whole = _place(y, piece), tuple([2 * count for count in piece.tiles])
    if place.shape[:-2] == whole:  # else some tiles extend beyond the end
        place = place.reshape((*whole, m.shape[-1]))  # a view, since the last two axes are adjacent
        _sums_of_products(m, place, steps)
    else:
        values = scratch.empty("phases", (*whole, m.shape[-1]), m)
        _sums_of_products(m, values, steps)
        values = values[tuple([slice(count) for count in place.shape[:-2]])]
        steps.append((np.copyto, (place, values.reshape(place.shape))))
    return lambda: finite(place)


# -- of products ---------------------------------------------------------------------------------


def _products(m: Any, b: Any, piece: Piece, steps: Steps) -> Any:
    """m (4ᵃ, tiles, channels) plus a term that becomes b in the results, as (4, 4, ..., *tiles,
    run).

    b: the biases of the channels, for at least as many images as a piece has.
    """
    n = piece.images.stop - piece.images.start
    axes = len(piece.tiles)
    m = m.reshape((*(4,) * axes, *piece.tiles, n * m.shape[-1]))
    if b is not None:
        once = m[(1,) * axes]  # m₁ is in both results of Aᵀ m, once
        steps.append((np.add, (once, b[: once.shape[-1]], once)))
    return m


def _place(y: Any, piece: Piece) -> Any:
    """The piece's part of results y, a view (*size, images, channels)."""
    rows = slice(2 * piece.start, 2 * (piece.start + piece.tiles[0]))
    return places(y)[rows][..., piece.images, :]


def _sums_of_products(m: Any, y: Any, steps: Steps) -> None:
    """y (*size, run) = Aᵀ m along all axes, of m (4, 4, ..., *tiles, run), which is overwritten.

    m is in scratch memory: all steps except those of the last axis are the same for every such
    piece.
    """
    axes = y.ndim - 1
    tiles, run = m.shape[axes:-1], m.shape[-1]

    def write() -> tuple:
        x, early = m, []
        for i in range(axes - 1):
            before, x = x, x[at_axis(i, slice(0, 2))]
            if by_products(x):  # a product needs another array for its result
                x = scratch.empty(f"axis {i}", x.shape, x)
            early += RESULTS.steps(before, i, x)
        return early, x

    kept = scratch.keeps(m)
    key = ("pairs", m.shape, m.dtype, by_products(m))
    early, x = scratch.written(key, write) if kept else write()
    y = y.reshape((*(n for count in tiles for n in (count, 2)), run))
    pairs = y.transpose((*range(1, 2 * axes, 2), *range(0, 2 * axes, 2), 2 * axes))
    steps += early
    steps += RESULTS.steps(x, axes - 1, pairs)


def finite(y: Any) -> bool:
    """Whether all of y is finite, by BLAS's Σ y², which takes a third of the time of y.sum().

    If Σ y² is too large for the dtype, y counts as not finite, and the direct form computes it.
    """
    if y.flags.c_contiguous:
        flat = y.reshape(-1)
        return bool(np.isfinite(np.vdot(flat, flat)))
    return bool(np.isfinite(y.sum()))


def all_finite(*arrays: Any) -> bool:
    """Whether all of the arrays are finite, for calls outside of shared work.

    On one thread of BLAS, which splits long sums too: its other thread would spin during the next
    call.
    """
    with blas.one_thread():
        return all(map(finite, arrays))


# -- which are used ------------------------------------------------------------------------------


class Transforms(NamedTuple):
    """The three transforms, and the best size of a piece for them if not BLOCK_BYTES.

    Each appends to its last argument, the steps of a piece.
    """

    seen: Callable
    given: Callable
    results: Callable
    takes: Callable
    block_bytes: int | None = None


_places_first = Transforms(
    _seen_places_first,
    _given_places_first,
    _results_places_first,
    takes=lambda *arrays: all(map(lies_places_first, arrays)),
)
_channels_first = Transforms(_seen, _given, _results, takes=lambda *arrays: True)


def transforms(*arrays: Any) -> Any:
    """The transforms for these arrays: compiled ones where mg.accelerate has installed them."""
    kernels = compiled_kernels()
    compiled = [] if kernels is None else [kernels.winograd]
    return next(t for t in (_places_first, *compiled, _channels_first) if t.takes(*arrays))
