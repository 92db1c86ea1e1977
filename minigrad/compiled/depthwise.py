"""Depthwise convolution, one kernel per channel, and its two transposes."""

from math import prod
from typing import Any

import numpy as np

from ..backends import pool
from ..backends.blocks import spans
from ..ops.windows import Windows
from .install import on_host
from .jit import add, kernel
from .planes import (
    PIECE,
    columns_of,
    fit,
    give,
    layout,
    on_threads,
    plain,
    planes,
    results,
    spread,
    take,
)


@kernel
def _forward(x, w, b, y, first, how):  # type: ignore[no-untyped-def]
    """y = b + Σ_k w[k] · x shifted by k, a plane at a time; first: the first plane's channel"""
    buffer, run = np.zeros(how.entries, x.dtype), np.empty(how.length, x.dtype)
    n, found = how.length, columns_of(x.shape[2], how.strides[1], how.before[1])
    for p in range(x.shape[0]):
        channel = (first + p) % len(w)
        take(buffer, x, p, how, found)
        run[:] = b[channel]
        for k in range(len(how.starts)):
            seen, weight = buffer[how.starts[k] : how.starts[k] + n], w[channel, k]
            for i in range(n):
                run[i] += weight * seen[i]
        results(run, y, p, how.row)


@kernel
def _transposed(a, w, y, first, how):  # type: ignore[no-untyped-def]
    """y = Σ_k w[k] · a shifted back by k: the gradient in x"""
    back, run = np.empty(how.entries, a.dtype), np.zeros(how.length, a.dtype)
    n, found = how.length, columns_of(y.shape[2], how.strides[1], how.before[1])
    for p in range(a.shape[0]):
        channel = (first + p) % len(w)
        spread(run, a, p, how.row)
        back[:] = 0
        for k in range(len(how.starts)):
            into, weight = back[how.starts[k] : how.starts[k] + n], w[channel, k]
            for i in range(n):
                into[i] += weight * run[i]
        give(back, y, p, how, found)


@kernel
def _of_weight(a, x, total, how):  # type: ignore[no-untyped-def]
    """total[c, k] += Σ a · x shifted by k;  planes of whole images: p % C is the channel"""
    buffer, run = np.zeros(how.entries, x.dtype), np.zeros(how.length, x.dtype)
    n, found = how.length, columns_of(x.shape[2], how.strides[1], how.before[1])
    for p in range(x.shape[0]):
        take(buffer, x, p, how, found)
        spread(run, a, p, how.row)
        for k in range(len(how.starts)):
            seen, product = buffer[how.starts[k] : how.starts[k] + n], x.dtype.type(0)
            for i in range(n):
                product = add(product, run[i] * seen[i])
            total[p % len(total), k] += product


# -- in front of the ops -------------------------------------------------------------------------


def _takes(how: Windows, inputs: int, outputs: int, groups: int, *arrays: Any) -> bool:
    return len(how.kernel) <= 2 and 1 < groups == inputs == outputs and plain(*arrays)


@on_host("conv")
def conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    biases = [] if b is None else [b]
    if not _takes(how, x.shape[1], len(w), groups, x, w, *biases):
        return None
    size = x.shape[2:]
    out = how.count("conv", size)
    y = np.empty((*x.shape[:2], *out), x.dtype)
    b = np.zeros(groups, x.dtype) if b is None else b
    views, where = [planes(x, len(size)) for x in (x, y)], layout(how, size, out)
    kernels = w.reshape(groups, -1)

    def work(s: slice) -> None:
        _forward(views[0][s], kernels, b, views[1][s], s.start, where)

    on_threads(work, len(views[0]), where.entries)
    return y


@on_host("conv_dx")
def conv_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    if not _takes(how, w.shape[1] * groups, a.shape[1], groups, a, w):
        return None
    if not fit(how, (*a.shape[:2], *size), a.shape):
        return None
    y = np.empty((*a.shape[:2], *size), a.dtype)
    views, where = [planes(x, len(size)) for x in (a, y)], layout(how, tuple(size), a.shape[2:])
    kernels = w.reshape(groups, -1)

    def work(s: slice) -> None:
        _transposed(views[0][s], kernels, views[1][s], s.start, where)

    on_threads(work, len(views[0]), where.entries)
    return y


@on_host("conv_dw")
def conv_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    if not _takes(how, x.shape[1], a.shape[1], groups, a, x) or not fit(how, x.shape, a.shape):
        return None
    size = x.shape[2:]
    views, where = [planes(x, len(size)) for x in (a, x)], layout(how, size, a.shape[2:])
    cut = spans(len(x), max(1, PIECE // (groups * where.entries)))
    totals = np.zeros((len(cut), groups, prod(how.kernel)), x.dtype)

    def work(k: int) -> None:
        s = slice(cut[k].start * groups, cut[k].stop * groups)
        _of_weight(views[0][s], views[1][s], totals[k], where)

    pool.share(work, range(len(cut)))
    return totals.sum(0).reshape((groups, 1, *how.kernel))
