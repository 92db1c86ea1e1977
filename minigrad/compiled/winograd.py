"""Winograd's convolution of images (fast/conv/winograd.py) with its transforms as compiled loops.

NumPy's form goes through memory once for each sum and copy. Here the rows that a row of tiles sees
are copied into the first-level cache, channels last, transformed there, and written once. The sums
are the same in the same order, and the matrix products are the same BLAS calls.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..backends.blocks import Steps, scratch
from .jit import add, element, kernel

# Of transformed tiles at a time, in and out.
BLOCK_BYTES = 3 << 19

# -- runs of channels in flat arrays: indices are unsigned; signed ones might count from the end ---


@element
def _sum(y, at, a, p, b, q, n):  # type: ignore[no-untyped-def]
    """y[at:][:n] = a[p:][:n] + b[q:][:n]"""
    for i in range(n):
        y[at + i] = a[p + i] + b[q + i]


@element
def _difference(y, at, a, p, b, q, n):  # type: ignore[no-untyped-def]
    """y[at:][:n] = a[p:][:n] − b[q:][:n]"""
    for i in range(n):
        y[at + i] = a[p + i] - b[q + i]


@element
def _load(x, even, odd, channels, half, top, left):  # type: ignore[no-untyped-def]
    """The pixels of an image x (channels, h, w) that tiles see, from row `top` and column −left on.

    even, odd (rows, half, channels) flat: the even and the odd columns. Entries outside the image
    do not change.
    """
    height, width = x.shape[1:]
    rows = len(even) // (half * channels)
    step, two = np.uintp(channels), np.uintp(2)
    for r in range(max(0, top), min(height, top + rows)):
        for which in range(2):
            into = odd if which else even
            first = max(0, (left - which + 1) // 2)
            column = 2 * first + which - left  # of the image
            count = min(half - first, (width - column + 1) // 2)
            if count > 0:
                start = np.uintp(((r - top) * half + first) * channels)
                for c in range(np.uintp(channels)):
                    seen = x[c, r, column:]
                    for j in range(np.uintp(count)):
                        into[start + c + j * step] = seen[two * j]


@kernel
def _tiles(x, v, start, tiles, before):  # type: ignore[no-untyped-def]
    """v (4, 4, n, *tiles, channels) flat = Bᵀ d B of the tiles of x (n, channels, h, w).

    start    the first tile along the first axis
    before   pixels before the first that the first tile sees
    """
    n, channels = x.shape[:2]
    high, wide = tiles
    half = wide + 1
    line, run, one = np.uintp(half * channels), np.uintp(wide * channels), np.uintp(channels)
    stored = np.uintp(n * high) * run  # entries of one of the 16 positions
    even = np.zeros((2 * high + 2) * half * channels, x.dtype)
    odd = np.zeros_like(even)
    e, o = np.empty(half * channels, x.dtype), np.empty(half * channels, x.dtype)
    at, zero = np.uintp(0), np.uintp(0)
    for image in range(n):
        _load(x[image], even, odd, channels, half, 2 * start - before[0], before[1])
        for i in range(np.uintp(high)):
            d0 = i * np.uintp(2) * line
            d1, d2, d3 = d0 + line, d0 + line + line, d0 + line + line + line
            place = at
            for a in range(4):
                for whole, part in ((even, e), (odd, o)):
                    if a == 0:
                        _difference(part, zero, whole, d0, whole, d2, line)
                    elif a == 1:
                        _sum(part, zero, whole, d1, whole, d2, line)
                    elif a == 2:
                        _difference(part, zero, whole, d2, whole, d1, line)
                    else:
                        _difference(part, zero, whole, d1, whole, d3, line)
                _difference(v, place, e, zero, e, one, run)
                _sum(v, place + stored, o, zero, e, one, run)
                _difference(v, place + stored + stored, e, one, o, zero, run)
                _difference(v, place + stored + stored + stored, o, zero, o, one, run)
                place += np.uintp(4) * stored
            at += run


@element
def _copy(y, at, x, p, n):  # type: ignore[no-untyped-def]
    """y[at:][:n] = x[p:][:n]"""
    for i in range(n):
        y[at + i] = x[p + i]


@kernel
def _pairs(x, v, start, tiles):  # type: ignore[no-untyped-def]
    """v (4, 4, n, *tiles, channels) flat = A g Aᵀ of pairs of x (n, channels, h, w).

    The sign of the last position is omitted, as in GIVEN of fast/conv/winograd_axis.py.
    """
    n, channels = x.shape[:2]
    high, wide = tiles
    run, stored = np.uintp(wide * channels), np.uintp(n * high * wide * channels)
    even = np.zeros(2 * high * wide * channels, x.dtype)
    odd = np.zeros_like(even)
    e, o = np.empty(wide * channels, x.dtype), np.empty(wide * channels, x.dtype)
    at, zero = np.uintp(0), np.uintp(0)
    for image in range(n):
        _load(x[image], even, odd, channels, wide, 2 * start, 0)
        for i in range(np.uintp(high)):
            g0 = i * np.uintp(2) * run
            g1, place = g0 + run, at
            for a in range(4):
                for whole, part in ((even, e), (odd, o)):
                    if a == 0:
                        _copy(part, zero, whole, g0, run)
                    elif a == 1:
                        _sum(part, zero, whole, g0, whole, g1, run)
                    elif a == 2:
                        _difference(part, zero, whole, g0, whole, g1, run)
                    else:
                        _copy(part, zero, whole, g1, run)
                _copy(v, place, e, zero, run)
                _sum(v, place + stored, e, zero, o, zero, run)
                _difference(v, place + stored + stored, e, zero, o, zero, run)
                _copy(v, place + stored + stored + stored, o, zero, run)
                place += np.uintp(4) * stored
            at += run


@element
def _first(y, at, m, a, b, c, n):  # type: ignore[no-untyped-def]
    """y[at:][:n] = m[a:] + m[b:] + m[c:]"""
    for i in range(n):
        y[at + i] = m[a + i] + m[b + i] + m[c + i]


@element
def _second(y, at, m, a, b, c, n):  # type: ignore[no-untyped-def]
    """y[at:][:n] = m[a:] − m[b:] − m[c:]"""
    for i in range(n):
        y[at + i] = m[a + i] - m[b + i] - m[c + i]


@kernel
def _results(m, bias, y, start, tiles):  # type: ignore[no-untyped-def]
    """y (n, channels, h, w) = Aᵀ m A + bias of m (4, 4, n, *tiles, channels) flat, cropped to y.

    Returns whether all of it is finite.
    """
    n, channels, height, width = y.shape
    high, wide = tiles
    run, step, two = np.uintp(wide * channels), np.uintp(channels), np.uintp(2)
    stored = np.uintp(n * high) * run
    r = np.empty(4 * wide * channels, y.dtype)
    pair = np.empty(2 * wide * channels, y.dtype)
    zero = np.uintp(0)
    r1, r2, r3 = run, run + run, run + run + run
    nothing = y.dtype.type(0)  # 0 while all is finite
    at = zero
    for image in range(n):
        for i in range(high):
            for k in range(min(2, height - 2 * (start + i))):
                for a in range(np.uintp(4)):
                    m0 = at + a * stored
                    m1, m2, m3 = (
                        m0 + np.uintp(4) * stored,
                        m0 + np.uintp(8) * stored,
                        m0 + np.uintp(12) * stored,
                    )
                    if k == 0:
                        _first(r, a * run, m, m0, m1, m2, run)
                    else:
                        _second(r, a * run, m, m1, m2, m3, run)
                _first(pair, zero, r, zero, r1, r2, run)
                _second(pair, run, r, r1, r2, r3, run)
                for j in range(two * run):
                    nothing = add(nothing, pair[j] * y.dtype.type(0))
                for c in range(step):
                    into, b = y[image, c, 2 * (start + i) + k], bias[c]
                    for odd in range(np.uintp(2)):
                        place = odd * run + c
                        for j in range(np.uintp((width + 1 - odd) // 2)):
                            into[two * j + odd] = pair[place + j * step] + b
            at += run
    return nothing == 0


# -- replacements of NumPy's form (Transforms, Piece), with its names and arguments ---------------


def _takes(*arrays: Any) -> bool:
    return all(x.ndim == 4 and x.flags.c_contiguous for x in arrays)


def _seen(x: Any, piece: Any, before: tuple, steps: Steps) -> Any:
    x = x[piece.images]
    v = scratch.empty("axis 0", (16, piece.total, x.shape[1]), x)
    steps.append((_tiles, (x, v.reshape(-1), piece.start, piece.tiles, before)))
    return v


def _given(a: Any, piece: Any, steps: Steps) -> Any:
    a = a[piece.images]
    v = scratch.empty("block 1", (16, piece.total, a.shape[1]), a)
    steps.append((_pairs, (a, v.reshape(-1), piece.start, piece.tiles)))
    return v


def _put(m: Any, b: Any, piece: Any, y: Any, steps: Steps) -> Callable[[], bool]:
    bias = np.zeros(m.shape[-1], m.dtype) if b is None else np.ascontiguousarray(b, m.dtype)
    part = y[piece.images]
    return lambda: _results(m.reshape(-1), bias, part, piece.start, piece.tiles)


transforms = SimpleNamespace(
    seen=_seen, given=_given, results=_put, takes=_takes, block_bytes=BLOCK_BYTES
)
