"""Convolution with kernels of 3 places an axis by Winograd's minimal filtering, on plain arrays.

Two neighbouring results along an axis see four places d of the image. F(2,3) finds them with four
products, where the sums themselves have six:

    y = Aᵀ [ (G w) ⊙ (Bᵀ d) ]        Bᵀ d = d₀ − d₂, d₁ + d₂, d₂ − d₁, d₁ − d₃
                                     G w  = w₀, (w₀ + w₁ + w₂)/2, (w₀ − w₁ + w₂)/2, w₂
                                     Aᵀ m = m₀ + m₁ + m₂, m₁ − m₂ − m₃

Along several axes each transform is taken along one after the other: a tile of 2×2 results costs 16
products a pair of channels, not 36. The sum over channels is done between the transforms, so the
products are 4×4 matrix products (tiles × channels)(channels × outputs), and transforms are shared
by all channels. The gradient in w is the transpose of the same identity:

    gw = Gᵀ [ Σ (A g) ⊙ (Bᵀ d) ]     over the tiles of all images

Channels and images come last here, so a transform is a few sums of long runs. A tile that reaches
over the end of the result is filled up with zeros, and cropped.

Rounding. G's entries are halves and the others 1: nothing is rounded but the sums, whose terms are
at most 4 times as large an axis as the direct form's. Beside float64, an image's values were twice
as exact as by the direct form (a sum of C terms and not 9 C), a weight's gradient a third as exact.
What is not finite spreads over its tile, and ∞ − ∞ is NaN: results that are not finite are left to
the direct form, which the caller has.

Winograd, Arithmetic complexity of computations, 1980; Lavin and Gray, Fast algorithms for
convolutional neural networks, 2016.
"""

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..blocks import on_threads, scratch, spans
from ..windows import Windows, every
from .images import lanes

# Bytes of transformed tiles at a time, in and out. Milliseconds of the value and the gradient in w
# with 1, 2, 3, 4, 6 MB: 32×64×28×28 → 64 on one thread 36, 33, 35, 35, 34, on two 28, 22, 21, 21,
# 22; 8×16×64×64 → 16 on one 8.1, 6.8, 7.2, 7.2, 7.4, on two 11.3, 7.8, 6.2, 5.0, 6.1: calls that
# threads share must be long (`BLOCK` in blocks.py).
BLOCK_BYTES = 3 << 20
RUN = 512  # channels in and out, times images of a piece: shorter runs cost a third more
ALIGNED = 1024  # bytes: channels that are a multiple of this apart share few places of the cache:
GAP = 16  # ... a copy with so many entries between them takes 8×16×64×64 → 16 from 4.4 to 3.0 ms

# Where it pays, as the direct form's time: 16 channels take 0.7 to 1.0, 8 → 32 1.4, 3 → 32 2.8; 64
# channels of 64 tiles 0.9 to 1.05, of 128 tiles 0.66 to 0.8; 16 channels of 256 tiles 1.0, of 512
# 0.75. Along one axis 64 channels take 1.0 and 256 still 0.85; along three 0.3 to 0.8.
AXES = (2, 3)
LEAST_CHANNELS = 16
LEAST_TILES = 128  # of all images: they share the transform of the weight
LEAST_PRODUCTS = 1 << 21
MOST_PRODUCTS = 0.8  # of the direct form's, since tiles may reach far over a small image's end

G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
# For 1, 2, 3 axes: (4, 4, ...) × (3, 3, ...). Of the weight; and of its gradient, where the last of
# four carries the sign that `_sums` leaves out.
OF_WEIGHT = [reduce(np.kron, [G] * n) for n in (1, 2, 3)]
OF_GRADIENT = [reduce(np.kron, [G * [[1], [1], [1], [-1]]] * n) for n in (1, 2, 3)]


def suits(how: Windows, out: tuple, groups: int, x: Any, channels: tuple, *others: Any) -> bool:
    """Whether this form is for such windows, and pays for images x and results of size `out`.

    channels: in and out. The arrays must be NumPy's (what stands in for one while a tape is
    recorded is not, and GPUs have cuDNN), of float32 or float64.
    """
    axes = len(out)
    if groups != 1 or axes not in AXES or min(channels) < LEAST_CHANNELS:
        return False
    if {*how.kernel} != {3} or {*how.stride, *how.dilation} != {1}:
        return False
    if any(a is not None and type(a) is not np.ndarray for a in (x, *others)):
        return False
    tiles = prod(_tiles(out))
    return (
        x.dtype.char in "fd"
        and 4**axes * tiles <= MOST_PRODUCTS * 3**axes * prod(out)
        and len(x) * tiles >= LEAST_TILES
        and 4**axes * len(x) * tiles * prod(channels) >= LEAST_PRODUCTS
    )


# -- cutting -------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """What is worked on at a time: some images and, of each, some tiles along the first axis."""

    images: slice
    start: int  # the first of these tiles
    tiles: tuple  # along each axis

    @property
    def total(self) -> int:
        """Tiles of all its images."""
        return prod(self.tiles) * (self.images.stop - self.images.start)


def _tiles(out: tuple) -> tuple:
    return tuple([-(-n // 2) for n in out])


def _pieces(x: Any, out: tuple, outputs: int, block_bytes: int | None) -> list[Piece]:
    """Images x with results of size `out` in pieces of `block_bytes`, by shape alone.

    Larger ones for a larger weight, which every piece reads. Several images together, as runs of a
    single one's channels are short; where these are too large then, each in strips.
    """
    (n, inputs), (first, *rest) = x.shape[:2], _tiles(out)
    channel = 4 ** len(out) * x.itemsize
    row = prod(rest) * channel * (inputs + outputs)
    limit = max(block_bytes or BLOCK_BYTES, channel * inputs * outputs)
    images = max(1, RUN // (inputs + outputs), limit // (row * first))
    images = min(n, 1 << (images.bit_length() - 1))
    rows = min(first, max(1, limit // (row * images)))
    rows = -(-first // -(-first // rows))  # strips of about the same height
    return [
        Piece(block, strip.start, (strip.stop - strip.start, *rest))
        for block in spans(n, images)
        for strip in spans(first, rows)
    ]


def _at(axis: int, index: Any) -> tuple:
    """x[_at(axis, index)] indexes one axis."""
    return (*(slice(None),) * axis, index)


# -- transforms ----------------------------------------------------------------------------------


def _gather(x: Any, piece: Piece, before: tuple, seen: int, name: str) -> Any:
    """The places that the piece's tiles see, zeros outside x: (..., 2, half, images, channels).

    x (N, C, *size); `before`: places before the first that the first tile sees; each tile sees
    `seen` places (4, or 2) and the next begins 2 further. The last axis is split into places of
    even and odd number, so that what all tiles see at one place is one run.
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
        copy[...] = x
        x = copy
    y = scratch.empty(name, (*size[:-1], 2, size[-1] // 2, *x.shape[:2]), x)
    y[...] = 0
    x = x.transpose((*range(2, x.ndim), 0, 1))
    *lead, last = inside
    for odd in range(2):
        skipped = (odd - last.start) % 2
        places = x[_at(len(lead), slice(skipped, None, 2))]
        half = (last.start + skipped) // 2
        y[(*lead, odd, slice(half, half + places.shape[len(lead)]))] = places
    return y.reshape((*y.shape[:-2], prod(y.shape[-2:])))


def _transformed(x: Any, tiles: tuple, seen: int, along: Callable, name: str) -> Any:
    """What `_gather` gives as (4, 4, ..., *tiles, run), `along` applied to each axis."""
    for i, count in enumerate(tiles):
        last = i == len(tiles) - 1
        shape = (*(4,) * (i + 1), *tiles[: i + 1], *x.shape[2 * i + 1 + last :])
        y = scratch.empty(f"{name} {i}", shape, x)
        places = [
            x[(*_at(2 * i, k % 2), slice(k // 2, k // 2 + count))]
            if last
            else x[_at(2 * i, every(k, 2, count))]
            for k in range(seen)
        ]
        along(places, [y[_at(i, k)] for k in range(4)])
        x = y
    return x


def _differences(d: list, y: list) -> None:
    """y = Bᵀ d"""
    np.subtract(d[0], d[2], out=y[0])
    np.add(d[1], d[2], out=y[1])
    np.subtract(d[2], d[1], out=y[2])
    np.subtract(d[1], d[3], out=y[3])


def _sums(g: list, y: list) -> None:
    """y = A g, whose last entry is −g₁: here g₁, OF_GRADIENT has the sign."""
    y[0][...] = g[0]
    np.add(g[0], g[1], out=y[1])
    np.subtract(g[0], g[1], out=y[2])
    y[3][...] = g[1]


def _seen(x: Any, piece: Piece, before: tuple) -> Any:
    """Bᵀ d of what the piece's tiles see of x: (4ᵃ, tiles, channels)."""
    v = _gather(x, piece, before, 4, "padded")
    v = _transformed(v, piece.tiles, 4, _differences, "axis")
    return v.reshape((4 ** len(before), piece.total, x.shape[1]))


def _given(a: Any, piece: Piece) -> Any:
    """A g of the piece of a: (4ᵃ, tiles, channels)."""
    axes = len(piece.tiles)
    v = _gather(a, piece, (0,) * axes, 2, "phases")
    v = _transformed(v, piece.tiles, 2, _sums, "block")
    return v.reshape((4**axes, piece.total, a.shape[1]))


def _results(m: Any, b: Any, piece: Piece, y: Any) -> bool:
    """y's piece = Aᵀ m + b of m (4ᵃ, tiles, channels), which is overwritten. Whether all of it is
    finite; else y stays as it was.
    """
    tiles, n, outputs = piece.tiles, piece.images.stop - piece.images.start, m.shape[-1]
    axes = len(tiles)
    m = m.reshape((*(4,) * axes, *tiles, n * outputs))
    if b is not None:
        m[(1,) * axes] += np.tile(b, n)  # m₁ is in both results of Aᵀ m, once
    values, finite = _sums_of_products(m, tiles)
    if finite:
        place = y[piece.images, :, 2 * piece.start : 2 * (piece.start + tiles[0])]
        values = values.reshape((*(2 * count for count in tiles), n, outputs))
        values = values[tuple([slice(count) for count in place.shape[2:]])]
        place[...] = values.transpose((axes, axes + 1, *range(axes)))
    return finite


def _sums_of_products(m: Any, tiles: tuple) -> tuple:
    """Aᵀ m along all axes, (4, 4, ..., *tiles, run) -> (tiles, 2, tiles, 2, ..., run), and whether
    all of it is finite. m is overwritten.
    """
    axes, run = len(tiles), m.shape[-1]
    shape = (*(n for count in tiles for n in (count, 2)), run + GAP)
    memory = scratch.empty("phases", shape, m)
    memory[..., run:] = 0
    y = memory[..., :run]
    pairs = y.transpose((*range(1, 2 * axes, 2), *range(0, 2 * axes, 2), 2 * axes))
    for i in range(axes):
        a, b, c, d = [m[_at(i, k)] for k in range(4)]
        m = pairs if i == axes - 1 else m[_at(i, slice(0, 2))]  # in place, but for the last
        first, second = m[_at(i, 0)], m[_at(i, 1)]
        np.add(a, b, out=first)
        first += c
        np.subtract(b, c, out=second)
        second -= d
    flat = memory.reshape(-1)
    # BLAS's Σ y² takes a third of what y.sum() does. Where it is too large for the dtype the result
    # counts as not finite, and is right all the same.
    return y, bool(np.isfinite(np.vdot(flat, flat)))


class Transforms(NamedTuple):
    """The three transforms, and how large a piece is best for them if not BLOCK_BYTES."""

    seen: Callable
    given: Callable
    results: Callable
    takes: Callable
    block_bytes: int | None = None


_numpys = Transforms(_seen, _given, _results, takes=lambda *arrays: True)
_used = [_numpys]


def use_compiled(transforms: Transforms | None) -> None:
    """Let these transform the arrays that they take; None: NumPy does."""
    _used[:] = [_numpys] if transforms is None else [transforms, _numpys]


def _transforms(*arrays: Any) -> Transforms:
    return next(t for t in _used if t.takes(*arrays))


# -- the three convolutions ------------------------------------------------------------------------


def forward(x: Any, w: Any, b: Any, how: Windows, y: Any) -> list[slice]:
    """y = conv(x, w, b), where that is finite. Returns the images that are left to do."""
    return _correlate(x, w, b, tuple([pad for pad, _ in how.padding]), y)


def transposed(a: Any, w: Any, how: Windows, y: Any) -> list[slice]:
    """y = conv_dx(a, w), likewise: conv with the kernel mirrored and its channels exchanged.

    Padding of more than 2 becomes a negative one: places that no tile sees.
    """
    mirrored = w.swapaxes(0, 1)[(..., *(slice(None, None, -1),) * len(how.kernel))]
    return _correlate(a, mirrored, None, tuple([2 - pad for pad, _ in how.padding]), y)


def _correlate(x: Any, w: Any, b: Any, before: tuple, y: Any) -> list[slice]:
    """y[n,o,i] = Σ_{c,k} w[o,c,k] x[n,c, i + k − before] + b[o], where that is finite.

    x (N, C, *size), w (O, C, 3, ...), y (N, O, *out). Returns the images that are left to do.
    """
    axes, (outputs, inputs) = len(before), w.shape[:2]
    weight = np.empty((4**axes, inputs, outputs), w.dtype)
    kernels = w.reshape((outputs, inputs, -1)).transpose((1, 2, 0))
    with np.errstate(all="ignore"):
        np.matmul(OF_WEIGHT[axes - 1].astype(w.dtype), kernels, out=weight.swapaxes(0, 1))
    left: dict[int, slice] = {}
    by = _transforms(x, y)

    def work(piece: Piece) -> None:
        with np.errstate(all="ignore"):
            v = by.seen(x, piece, before)
            m = scratch.empty(f"block {axes - 1}", (*v.shape[:2], outputs), v)  # as large as _given
            if not by.results(np.matmul(v, weight, out=m), b, piece, y):
                left[piece.images.start] = piece.images

    on_threads(work, _pieces(x, y.shape[2:], outputs, by.block_bytes), x)
    return list(left.values())


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """y = conv_dw(a, x); None where that is not finite."""
    axes, outputs, inputs = len(how.kernel), a.shape[1], x.shape[1]
    before, by = tuple([pad for pad, _ in how.padding]), _transforms(a, x)
    shares = lanes(_pieces(x, a.shape[2:], outputs, by.block_bytes))
    sums = np.zeros((len(shares), 4**axes, outputs, inputs), x.dtype)

    def work(lane: int) -> None:
        with np.errstate(all="ignore"):
            for piece in shares[lane]:
                v, g = by.seen(x, piece, before), by.given(a, piece)
                part = scratch.empty("product", sums.shape[1:], v)
                sums[lane] += np.matmul(g.swapaxes(1, 2), v, out=part)

    on_threads(work, list(range(len(shares))), x)
    with np.errstate(all="ignore"):
        transform = OF_GRADIENT[axes - 1].astype(x.dtype)
        y = sums.sum(0).reshape((4**axes, -1)).T @ transform
    return y.reshape((outputs, inputs, *how.kernel)) if np.isfinite(y).all() else None
