"""Winograd's transforms along one axis of a piece (winograd_tiles.py): y = T x, with T of 0 and ±1.

x has 2 or 4 positions along the axis, each a contiguous run of all images and channels there.
Written with NumPy's sums, a transform is about four calls, each of which reads and writes whole
runs. As a matrix product with T it is one call that reads every run and writes each result once.
On processors with AVX-512, OpenBLAS has kernels for such small products, which take half the time
of the sums. Elsewhere it first packs the runs, and takes longer.

Both forms add the terms in the same order. They differ at most in the sign of a zero, and for
values that are not finite, which the direct convolution computes. Runs of length one (one image of
one channel) are the exception: BLAS multiplies a vector with a different order of additions.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...backends import blas
from ...backends.blocks import Steps


def at_axis(axis: int, index: Any) -> tuple:
    """x[at_axis(axis, index)] indexes one axis."""
    return (*(slice(None),) * axis, index)


def seen_by_tiles(x: Any, axis: int, at: int, seen: int, tiles: int) -> Any:
    """The pixels that tiles see along an axis of x, a view: pixels as axis `axis`, tiles as axis
    `at`.

    Tile t sees the pixels 2 t, 2 t + 1, ... of the former axis `at`; other axes keep their order.
    """
    shape, strides = list(x.shape), list(x.strides)
    step = strides[at]
    shape[at], strides[at] = tiles, 2 * step
    shape.insert(axis, seen)
    strides.insert(axis, step)
    return as_strided(x, shape, strides)


class Transform(NamedTuple):
    """A matrix T, and the equivalent sums: (positions of x, positions of y) -> steps."""

    name: str
    matrix: tuple
    sums: Callable[[list, list], Steps]

    def steps(self, x: Any, axis: int, y: Any) -> Steps:
        """The steps of y = T x; the positions are along `axis` of x and y, which are different
        arrays. The last axis is that of the runs.
        """
        if by_products(x):
            last = x.ndim - 1
            order = (*[i for i in range(last) if i != axis], axis, last)
            return [(np.matmul, (_matrix(self, x.dtype), x.transpose(order), y.transpose(order)))]
        places = [[z[at_axis(axis, k)] for k in range(z.shape[axis])] for z in (x, y)]
        return self.sums(*places)


@cache
def _matrix(transform: Transform, dtype: Any) -> np.ndarray:
    return np.array(transform.matrix, dtype)


def by_products(x: Any) -> bool:
    """Whether transforms of x are products instead of sums."""
    return blas.packs_no_small_factors() and 16 * x.shape[-1] <= blas.FEW


def _differences(d: list, y: list) -> Steps:
    return [
        (np.subtract, (d[0], d[2], y[0])),
        (np.add, (d[1], d[2], y[1])),
        (np.subtract, (d[2], d[1], y[2])),
        (np.subtract, (d[1], d[3], y[3])),
    ]


def _repeated(g: list, y: list) -> Steps:
    return [
        (np.copyto, (y[0], g[0])),
        (np.add, (g[0], g[1], y[1])),
        (np.subtract, (g[0], g[1], y[2])),
        (np.copyto, (y[3], g[1])),
    ]


def _results(m: list, y: list) -> Steps:
    """y[0] may be m[0], and y[1] m[1]."""
    return [
        (np.add, (m[0], m[1], y[0])),
        (np.add, (y[0], m[2], y[0])),
        (np.subtract, (m[1], m[2], y[1])),
        (np.subtract, (y[1], m[3], y[1])),
    ]


def _overlaps(m: list, y: list) -> Steps:
    return [
        (np.subtract, (m[1], m[2], y[0])),
        (np.add, (y[0], m[3], y[0])),
        (np.subtract, (m[1], m[0], y[1])),
        (np.add, (y[1], m[2], y[1])),
    ]


# Bᵀ: the pixels that a tile sees
SEEN = Transform("seen", ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)), _differences)
# A, whose last entry is −1: here it is 1, and OF_GRADIENT has the sign
GIVEN = Transform("given", ((1, 0), (1, 1), (1, -1), (0, 1)), _repeated)
# Aᵀ: a tile's results
RESULTS = Transform("results", ((1, 1, 1, 0), (0, 1, -1, -1)), _results)
# The two rows of B that are sums: a tile's second pixel, and its share of the next tile's first
OVERLAPS = Transform("overlaps", ((0, 1, -1, 1), (-1, 1, 1, 0)), _overlaps)
