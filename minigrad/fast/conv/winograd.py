"""Convolution with kernels of size 3 along each axis by Winograd's minimal filtering, on arrays.

Two neighbouring results along an axis depend on four pixels d of the image. F(2,3) computes them
with four products instead of the six of the direct sums:

    y = Aᵀ [ (G w) ⊙ (Bᵀ d) ]        Bᵀ d = d₀ − d₂, d₁ + d₂, d₂ − d₁, d₁ − d₃
                                     G w  = w₀, (w₀ + w₁ + w₂)/2, (w₀ − w₁ + w₂)/2, w₂
                                     Aᵀ m = m₀ + m₁ + m₂, m₁ − m₂ − m₃

Along several axes the transforms are applied one axis after the other: a tile of 2×2 results costs
16 products for a pair of channels, not 36. The sum over channels comes between the transforms: the
products are 4×4 matrix products (tiles × channels)(channels × outputs), and all channels share the
transforms. The gradients are the transposes of the same identity:

    gw = Gᵀ [ Σ (A g) ⊙ (Bᵀ d) ]     over the tiles of all images
    gd = B [ (G w) ⊙ (A g) ] added up where tiles overlap

Channels and images come last here, so a transform is a few sums of long runs. A tile that reaches
beyond the result is padded with zeros, and its result cropped.

Rounding. The entries of G are halves and the others ±1: only sums are rounded, and along each axis
their terms are at most 4 times as large as the direct form's. Measured against float64, the results
have half the error of the direct form: they are sums of C terms and not 9 C. The gradient of the
weights has three times its error. A value that is not finite spreads over its tile, and ∞ − ∞ is
NaN: where results are not finite, the caller falls back on the direct form.

Winograd, Arithmetic complexity of computations, 1980; Lavin and Gray, Fast algorithms for
convolutional neural networks, 2016.
"""

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ...backends import blas
from ...backends.blocks import Steps, on_threads, scratch, spans, take_steps
from ...backends.image_layout import lies_places_first
from ...ops.windows import Windows
from ..small_products import SHORT, product_steps
from .images import lanes
from .winograd_overlaps import Overlaps
from .winograd_tiles import Piece, finite, pieces, tiles_of, transforms

# Where it pays: transforms cost time for each channel, and save products for each pair of channels.
AXES = (2, 3)
LEAST_CHANNELS = 16
LEAST_TILES = 128  # of all images: they share the transform of the weight
LEAST_PRODUCTS = 1 << 21
MOST_PRODUCTS = 0.8  # of the direct form's, since tiles may extend far beyond a small image

G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
# For 1, 2, 3 axes: (4, 4, ...) × (3, 3, ...). Of the weight, and of its gradient, where the last of
# four carries the sign that GIVEN (winograd_axis.py) omits.
OF_WEIGHT = [reduce(np.kron, [G] * n) for n in (1, 2, 3)]
OF_GRADIENT = [reduce(np.kron, [G * [[1], [1], [1], [-1]]] * n) for n in (1, 2, 3)]


def suits(how: Windows, out: tuple, groups: int, x: Any, channels: tuple, *others: Any) -> bool:
    """Whether this form applies to such windows, and pays for images x and results of size `out`.

    channels: in and out. The arrays must be NumPy's, of float32 or float64. (Traced arrays of a
    tape are not, and GPUs have cuDNN.)
    """
    axes = len(out)
    if groups != 1 or axes not in AXES or min(channels) < LEAST_CHANNELS:
        return False
    if {*how.kernel} != {3} or {*how.stride, *how.dilation} != {1}:
        return False
    if any(a is not None and type(a) is not np.ndarray for a in (x, *others)):
        return False
    tiles = prod(tiles_of(out))
    return (
        x.dtype.char in "fd"
        and 4**axes * tiles <= MOST_PRODUCTS * 3**axes * prod(out)
        and len(x) * tiles >= LEAST_TILES
        and 4**axes * len(x) * tiles * prod(channels) >= LEAST_PRODUCTS
    )


# -- the three convolutions ------------------------------------------------------------------------


def forward(x: Any, w: Any, b: Any, how: Windows, y: Any) -> list[slice]:
    """y = conv(x, w, b), where finite. Returns the images that remain to be computed."""
    return _correlate(x, _weights(w.swapaxes(0, 1), OF_WEIGHT), b, _before(how), y)


def transposed(a: Any, w: Any, how: Windows, y: Any) -> list[slice]:
    """y = conv_dx(a, w); the same for the rest.

    Images pixels first take the transpose of the same identity. Other images take conv with the
    kernel mirrored and its channels exchanged. There a padding above 2 becomes negative: pixels
    that no tile sees.
    """
    if lies_places_first(a) and lies_places_first(y):
        return _pull(a, None, w, how, y)[0]
    mirrored = [transform[:, ::-1] for transform in OF_WEIGHT]
    return _correlate(a, _weights(w, mirrored), None, tuple([2 - pad for pad in _before(how)]), y)


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """y = conv_dw(a, x); None where it is not finite."""
    return _pull(a, x, None, how, None)[1]


def both(a: Any, x: Any, w: Any, how: Windows, y: Any) -> Any:
    """y = conv_dx(a, w), and conv_dw(a, x) as the result, in one walk, all images pixels first.

    None where one of the two is not finite. The bits are those of `transposed` and `of_weight`.
    """
    left, gw = _pull(a, x, w, how, y)
    return None if left else gw


def _before(how: Windows) -> tuple:
    """The number of pixels before an image's first that the first tile sees."""
    return tuple([pad for pad, _ in how.padding])


def _weights(w: Any, transform: list) -> Any:
    """The transform (for as many axes as w has) of w (n, m, 3, ...) as (4ᵃ, n, m)."""
    matrix = transform[w.ndim - 3].astype(w.dtype)
    y = np.empty((len(matrix), *w.shape[:2]), w.dtype)
    places = np.ascontiguousarray(w.transpose((*range(2, w.ndim), 0, 1)))
    places = places.reshape((-1, *w.shape[:2]))
    with np.errstate(all="ignore"), blas.one_thread():  # a product for each of the n
        np.matmul(matrix, places.swapaxes(0, 1), out=y.swapaxes(0, 1))
    return y


def _tall(a: Any, b: Any, y: Any) -> None:
    """y = a b for many rows of a, by products that BLAS computes on one thread.

    A second BLAS thread would go on spinning next to the threads that share a convolution
    (backends/blas.py).
    """
    for rows in spans(len(a), max(1, blas.FEW // b.size)):
        np.matmul(a[rows], b, out=y[rows])


def _correlate(x: Any, weight: Any, b: Any, before: tuple, y: Any) -> list[slice]:
    """y[n,o,i] = Σ_{c,k} w[o,c,k] x[n,c, i + k − before] + b[o], where finite.

    x (N, C, *size), weight (4ᵃ, C, O), the transform of w, y (N, O, *out). Returns the images that
    remain to be computed.
    """
    axes, outputs = len(before), y.shape[1]
    left: dict[int, slice] = {}
    by = transforms(x, y)
    biases = None if b is None else np.tile(b, len(x))

    def work(piece: Piece) -> None:
        steps: Steps = []
        v = by.seen(x, piece, before, steps)
        m = scratch.empty(f"block {axes - 1}", (*v.shape[:2], outputs), v)  # as large as _given
        steps += product_steps(v, weight, m)
        finish = by.results(m, biases, piece, y, steps)
        take_steps(steps)
        if not finish():
            left[piece.images.start] = piece.images

    with np.errstate(all="ignore"):
        on_threads(work, pieces(x, y.shape[2:], outputs, by.block_bytes), x)
    return list(left.values())


def _pull(a: Any, x: Any, w: Any, how: Windows, y: Any) -> tuple[list[slice], Any]:
    """The wanted gradients, in one walk over pieces of the images.

    With w and y the gradient in x, written to y, all pixels first; with x the gradient in w.
    Returns (images of y that are not finite and remain to be computed, the gradient in w or None).
    """
    axes, (outputs, inputs) = len(how.kernel), (a.shape[1], (y if x is None else x).shape[1])
    before, by = _before(how), transforms(a, y if x is None else x)
    shares = lanes(pieces(y if x is None else x, a.shape[2:], outputs, by.block_bytes))
    sums = np.empty((len(shares), 4**axes, outputs, inputs), a.dtype)
    weight = None if y is None else _weights(w, OF_GRADIENT)
    overlaps = None if y is None else Overlaps(y, a.shape[2:], before)
    bad: list[Piece] = []

    def work(lane: int) -> None:
        total = sums[lane]
        for i, piece in enumerate(shares[lane]):
            steps: Steps = []
            g = by.given(a, piece, steps)
            if x is not None:
                v = by.seen(x, piece, before, steps)
                product = scratch.empty("product", total.shape, v) if i else total
                steps += product_steps(g.swapaxes(1, 2), v, product, SHORT)
                if i:
                    steps.append((np.add, (total, product, total)))
            if overlaps is not None:
                m = scratch.empty(f"axis {axes - 1}", (*g.shape[:2], inputs), g)
                steps += product_steps(g, weight, m)
                is_finite = overlaps.add(m, piece, steps)
            take_steps(steps)
            if overlaps is not None and not is_finite():
                bad.append(piece)

    with np.errstate(all="ignore"):
        on_threads(work, list(range(len(shares))), a)
        if overlaps is not None:
            bad += overlaps.finish()
        gw = None if x is None else _of_sums(sums, how.kernel)
    left = {piece.images.start: piece.images for piece in bad}
    return list(left.values()), gw


def _of_sums(sums: Any, kernel: tuple) -> Any:
    """Gᵀ Σ of the lanes' sums (…, 4ᵃ, O, C), as (O, C, *kernel); None where it is not finite."""
    outputs, inputs = sums.shape[2:]
    transform = OF_GRADIENT[len(kernel) - 1].astype(sums.dtype)
    total = sums.sum(0).reshape((len(transform), -1)).T
    y = np.empty((outputs, inputs, *kernel), sums.dtype)
    _tall(total, transform, y.reshape((len(total), -1)))
    return y if finite(y) else None
