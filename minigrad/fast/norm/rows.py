"""Normalisations of rows, like layer_norm and rms_norm: means over the last axes of an array in C
order, with or without a weight and a bias for each entry of a row.

The array is a matrix of such rows; BLAS computes the sums along them. Threads share blocks of rows.
Sums down the columns are added in the order of the blocks: the number of threads does not change
the result.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...backends import blocks
from ...backends.blocks import long_runs, scratch, spans
from ...backends.pool import share
from ..row_sums import on_each_row

FEW = 1 << 12  # numbers


def suits(x: Any, axis: tuple, *shapes: tuple) -> bool:
    """Whether x is in C order, and a weight and a bias of these shapes are rows."""
    if type(x) is not np.ndarray or x.dtype.char not in "fd" or not x.size:
        return False
    start = x.ndim - len(axis)
    if not axis or axis != tuple(range(start, x.ndim)) or not x.flags.c_contiguous:
        return False
    row = x.shape[start:]
    for shape in shapes:
        if shape != row:
            return False
    return True


def _matrix(x: Any, axis: tuple) -> Any:
    """x as n rows along `axis`."""
    return x.reshape((-1, prod(x.shape[axis[0] :])))


def _ones(rows: Any) -> Any:
    """A row of ones: Σ x is x · 1."""
    ones = np.empty(rows.shape[1], rows.dtype)
    ones.fill(1)
    return ones


def _in_blocks(fill: Callable[..., None], *matrices: Any) -> None:
    """fill(i, *blocks of rows) for block i of the matrices, on all threads."""
    first = matrices[0]
    step = max(1, blocks.BLOCK // first.shape[1])
    if len(first) <= step and first.shape[1] <= blocks.BUFFER:
        fill(0, *matrices)
        return
    with long_runs(first, (1,)):
        if len(first) <= step:
            fill(0, *matrices)
        else:
            cuts = spans(len(first), step)
            share(lambda i: fill(i, *[a[cuts[i]] for a in matrices]), range(len(cuts)))


def standardized(x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(y, mean, None, rstd): the results of `standardize`; no caller needs the variance."""
    rows, y = _matrix(x, axis), np.empty(x.shape, x.dtype)
    n, d = rows.shape
    mean, rstd = np.zeros((n, 1), x.dtype), np.empty((n, 1), x.dtype)
    w = None if weight is None else weight.reshape(d)
    b = None if bias is None else bias.reshape(d)
    ones, count, eps = _ones(rows), x.dtype.type(d), x.dtype.type(eps)

    def fill(_: int, block: Any, y: Any, mean: Any, rstd: Any) -> None:
        centred = block
        if centre:
            np.vecdot(block, ones, out=mean[:, 0])
            mean /= count
            centred = np.subtract(block, mean, out=y)
        np.vecdot(centred, centred, out=rstd[:, 0])
        rstd /= count
        rstd += eps
        np.reciprocal(np.sqrt(rstd, out=rstd), out=rstd)
        np.multiply(centred, rstd, out=y)
        if w is not None:
            on_each_row(np.multiply, y, w)
        if b is not None:
            on_each_row(np.add, y, b)

    _in_blocks(fill, rows, y.reshape(n, d), mean, rstd)
    if x.ndim == 2 and len(axis) == 1:
        return y, mean, None, rstd
    kept = (*x.shape[: axis[0]], *(1,) * len(axis))  # one entry for each row
    return y, mean.reshape(kept), None, rstd.reshape(kept)


def gradients(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, axis: tuple,
    centre: bool,
) -> list:  # fmt: skip
    """[dx, dweight, dbias], None for those that are not needed: see joint.py."""
    rows, y = _matrix(x, axis), np.empty(x.shape, x.dtype) if needs[0] else None
    n, d = rows.shape
    w = None if weight is None else weight.reshape(d)
    ones, count = _ones(rows), x.dtype.type(d)
    dw: dict[int, Any] = {}  # by block: its part of the weight's gradient
    db: dict[int, Any] = {}

    def fill(i: int, block: Any, g: Any, mean: Any, rstd: Any, u: Any = None) -> None:
        if block.size <= FEW:  # too small for scratch memory
            centred, scaled = block - mean, g * rstd
        else:
            centred, scaled = (scratch.empty(f"block {k}", block.shape, block) for k in range(2))
            np.subtract(block, mean, out=centred)
            np.multiply(g, rstd, out=scaled)
        if u is not None:
            np.multiply(scaled, 1 if w is None else w, out=u)  # r u
        if needs[1]:
            scaled *= centred
            dw[i] = np.add.reduce(scaled)
        if needs[2]:
            db[i] = np.add.reduce(g)
        if u is not None:
            slope = np.vecdot(u, centred)[:, None]
            slope *= rstd
            slope *= rstd
            slope /= count
            centred *= slope
            if centre:
                level = np.vecdot(u, ones)[:, None]
                level /= count
                centred += level
            u -= centred

    results = () if y is None else (y.reshape(n, d),)
    _in_blocks(fill, rows, g.reshape(n, d), mean.reshape(n, 1), rstd.reshape(n, 1), *results)
    return [
        y,
        _in_order(dw).reshape(shapes[0]) if needs[1] else None,
        _in_order(db).reshape(shapes[1]) if needs[2] else None,
    ]


def _in_order(parts: dict[int, Any]) -> Any:
    """The sum of the blocks' parts."""
    return parts[0] if len(parts) == 1 else np.add.reduce([parts[i] for i in range(len(parts))])
