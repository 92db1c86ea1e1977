"""Transpose of a convolution with overlapping windows and stride > 1, without sums over windows.

The pixels of the image at distances of the stride are a phase. Each phase is a convolution with
every stride-th entry of the kernel, at stride 1. One matrix product of such windows makes all
phases, which are then interleaved. With K kernel entries in a phase along an axis, and r < stride,

    y[c, stride·m + r − padding] = Σ_{o, q < K} a[o, m − q] w[o, c, r + stride·q]

It is for images pixels first, where the pixels of a phase are long runs; other images are
transposed before, and the result after.
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import on_threads, scratch
from ...backends.image_layout import pays, places
from ...ops.windows import Windows
from ..small_products import multiply
from .im2col_hwnc import image_blocks, window_rows
from .winograd_tiles import all_finite

# How many times its size a kernel may have after padding with zeros to whole phases. A 3 × 3 kernel
# with stride 2 would have 1.8 times, which costs as much as this form saves.
MOST_ZEROS = 1.25


def suits(how: Windows, groups: int, a: Any, outputs: int, w: Any) -> bool:
    """Whether this form applies to results a, NumPy arrays of float32 or float64, and pays."""
    whole = prod(-(-k // s) * s for k, s in zip(how.kernel, how.stride, strict=True))
    return (
        max(how.stride) > 1
        and groups == 1
        and not how.tiling
        and set(how.dilation) == {1}
        and whole <= MOST_ZEROS * prod(how.kernel)
        and type(a) is type(w) is np.ndarray
        and a.dtype.char in "fd"
        and pays(len(a), a.shape[1], outputs)
        and (whole == prod(how.kernel) or all_finite(a))  # with padded zeros, 0 · ∞ would be NaN
    )


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w); both are pixels first."""
    counts = [-(-k // s) for k, s in zip(how.kernel, how.stride, strict=True)]
    ones = (1,) * len(counts)
    back = Windows(tuple(counts), ones, tuple((n - 1, n - 1) for n in counts), ones)
    middle = tuple(n + count - 1 for n, count in zip(a.shape[2:], counts, strict=True))
    weight, phases = _weight(w, how, counts), list(product(*map(range, how.stride)))
    reach = [n * s - p[0] for n, s, p in zip(middle, how.stride, how.padding, strict=True)]
    short = any(n > end for n, end in zip(y.shape[2:], reach, strict=True))
    spots = [_spots(r, how, middle, y.shape[2:]) for r in phases]

    def work(images: slice) -> None:
        rows, into = window_rows(a, back, images, middle), places(y)[..., images, :]
        terms = scratch.empty("product", (len(rows), weight.shape[1]), a)
        multiply(rows, weight, terms)
        terms = terms.reshape((*middle, into.shape[-2], len(phases), y.shape[1]))
        if short:  # windows do not reach the end of the image
            into[...] = 0
        for i, (seen, made) in enumerate(spots):
            into[seen] = terms[(*made, slice(None), i)]

    on_threads(work, image_blocks(a.shape[1], back, a), a)


def _weight(w: Any, how: Windows, counts: list) -> Any:
    """w (O, C, *kernel) as (kernel in a phase · O, phases · C), that kernel mirrored."""
    whole = [count * s for count, s in zip(counts, how.stride, strict=True)]
    y = np.zeros((*w.shape[:2], *whole), w.dtype)
    y[(..., *map(slice, how.kernel))] = w
    split = [n for pair in zip(counts, how.stride, strict=True) for n in pair]
    y = y.reshape((*w.shape[:2], *split))
    y = y[(..., *[slice(None, None, -1), slice(None)] * len(counts))]
    axes = range(2, y.ndim)
    y = y.transpose((*axes[::2], 0, *axes[1::2], 1))
    return y.reshape((prod(counts) * len(w), -1))


def _spots(phase: tuple, how: Windows, middle: tuple, size: tuple) -> tuple[tuple, tuple]:
    """(pixels of the image in this phase, the phase's results for them)."""
    seen, made = [], []
    axes = zip(phase, how.stride, how.padding, middle, size, strict=True)
    for r, s, (before, _), count, n in axes:
        first = max(0, -(-(before - r) // s))
        last = min(count, -(-(n + before - r) // s))
        start = s * first + r - before
        seen.append(slice(start, start + s * max(0, last - first), s))
        made.append(slice(first, max(first, last)))
    return tuple(seen), tuple(made)
