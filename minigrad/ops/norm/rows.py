"""Normalisations of rows, as layer_norm and rms_norm have them: means over the last axes of an
array that lies row after row, with a weight and a bias for each place of a row, or none.

The array is a matrix of such rows; sums along them are BLAS's. Blocks of rows on all threads: what
is summed down the columns is added up in their order, so it does not show how many threads there
were.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.pool import share
from .. import blocks
from ..blocks import long_runs, scratch, spans


def suits(x: Any, axis: tuple, *shapes: tuple) -> bool:
    """Whether x lies so, and a weight and a bias of these shapes are rows."""
    if type(x) is not np.ndarray or x.dtype.char not in "fd" or not x.size:
        return False
    start = x.ndim - len(axis)
    if not axis or axis != tuple(range(start, x.ndim)) or not x.flags.c_contiguous:
        return False
    return all(shape == x.shape[start:] for shape in shapes)


class Rows:
    """The matrix that x is (n rows of d), and its blocks."""

    def __init__(self, x: Any, axis: tuple):
        self.d = prod(x.shape[axis[0] :])
        self.x = x.reshape(-1, self.d)
        self.kept = (*x.shape[: axis[0]], *(1,) * len(axis))  # the shape of what a row has one of
        self.ones = np.ones(self.d, x.dtype)
        self.count = x.dtype.type(self.d)
        self.blocks = spans(len(self.x), max(1, blocks.BLOCK // self.d))

    def share(self, work: Any) -> None:
        with long_runs(self.x, (1,)):
            if len(self.blocks) == 1:
                work(0)
            else:
                share(work, range(len(self.blocks)))


def standardized(x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(y, mean, rstd) as `standardize` gives them."""
    of, y = Rows(x, axis), np.empty(x.shape, x.dtype)
    results = y.reshape(of.x.shape)
    mean, rstd = np.zeros((len(of.x), 1), x.dtype), np.empty((len(of.x), 1), x.dtype)
    w, b = (None if a is None else a.reshape(-1) for a in (weight, bias))
    eps = x.dtype.type(eps)

    def work(i: int) -> None:
        span = of.blocks[i]
        centred, out, m, r = of.x[span], results[span], mean[span], rstd[span]
        if centre:
            np.vecdot(centred, of.ones, out=m[:, 0])
            m /= of.count
            centred = np.subtract(centred, m, out=out)
        np.vecdot(centred, centred, out=r[:, 0])
        r /= of.count
        r += eps
        np.divide(1, np.sqrt(r, out=r), out=r)
        np.multiply(centred, r, out=out)
        if w is not None:
            out *= w
        if b is not None:
            out += b

    of.share(work)
    return y, mean.reshape(of.kept), rstd.reshape(of.kept)


def gradients(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, axis: tuple,
    centre: bool,
) -> list:  # fmt: skip
    """[dx, dweight, dbias], those that are needed: see joint.py."""
    of, y = Rows(x, axis), np.empty(x.shape, x.dtype) if needs[0] else None
    given, means, rstds = g.reshape(of.x.shape), mean.reshape(-1, 1), rstd.reshape(-1, 1)
    results = None if y is None else y.reshape(of.x.shape)
    w = None if weight is None else weight.reshape(-1)
    parts: list = [[None] * len(of.blocks) for _ in range(2)]  # of dweight and dbias

    def work(i: int) -> None:
        span = of.blocks[i]
        a, r, block = given[span], rstds[span], of.x[span]
        centred, scaled = (scratch.empty(f"block {k}", block.shape, x) for k in range(2))
        np.subtract(block, means[span], out=centred)
        np.multiply(a, r, out=scaled)
        if results is not None:
            u = results[span]  # r u
            np.multiply(scaled, 1 if w is None else w, out=u)
        if needs[1]:
            scaled *= centred
            parts[0][i] = np.add.reduce(scaled)
        if needs[2]:
            parts[1][i] = np.add.reduce(a)
        if results is not None:
            slope = np.vecdot(u, centred)[:, None]
            slope *= r
            slope *= r
            slope /= of.count
            centred *= slope
            if centre:
                level = np.vecdot(u, of.ones)[:, None]
                level /= of.count
                centred += level
            u -= centred

    of.share(work)
    dw, db = (
        np.add.reduce(sums).reshape(shape) if need else None
        for sums, shape, need in zip(parts, shapes, needs[1:], strict=True)
    )
    return [y, dw, db]
