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

from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ..blocks import Steps, on_threads, scratch, take_steps
from ..windows import Windows
from .images import lanes
from .tiles import Piece, pieces, tiles_of, transforms

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
    tiles = prod(tiles_of(out))
    return (
        x.dtype.char in "fd"
        and 4**axes * tiles <= MOST_PRODUCTS * 3**axes * prod(out)
        and len(x) * tiles >= LEAST_TILES
        and 4**axes * len(x) * tiles * prod(channels) >= LEAST_PRODUCTS
    )


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
    by = transforms(x, y)
    biases = None if b is None else np.tile(b, len(x))

    def work(piece: Piece) -> None:
        steps: Steps = []
        v = by.seen(x, piece, before, steps)
        m = scratch.empty(f"block {axes - 1}", (*v.shape[:2], outputs), v)  # as large as _given
        steps.append((np.matmul, (v, weight, m)))
        finish = by.results(m, biases, piece, y, steps)
        take_steps(steps)
        if not finish():
            left[piece.images.start] = piece.images

    with np.errstate(all="ignore"):
        on_threads(work, pieces(x, y.shape[2:], outputs, by.block_bytes), x)
    return list(left.values())


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """y = conv_dw(a, x); None where that is not finite."""
    axes, outputs, inputs = len(how.kernel), a.shape[1], x.shape[1]
    before, by = tuple([pad for pad, _ in how.padding]), transforms(a, x)
    shares = lanes(pieces(x, a.shape[2:], outputs, by.block_bytes))
    sums = np.zeros((len(shares), 4**axes, outputs, inputs), x.dtype)

    def work(lane: int) -> None:
        total = sums[lane]
        for piece in shares[lane]:
            steps: Steps = []
            v, g = by.seen(x, piece, before, steps), by.given(a, piece, steps)
            part = scratch.empty("product", total.shape, v)
            steps += [(np.matmul, (g.swapaxes(1, 2), v, part)), (np.add, (total, part, total))]
            take_steps(steps)

    with np.errstate(all="ignore"):
        on_threads(work, list(range(len(shares))), x)
        transform = OF_GRADIENT[axes - 1].astype(x.dtype)
        y = sums.sum(0).reshape((4**axes, -1)).T @ transform
    return y.reshape((outputs, inputs, *how.kernel)) if np.isfinite(y).all() else None
