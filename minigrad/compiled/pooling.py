"""Pooling of images with one or two spatial axes, one window position after the other.

The forms of fast/pool/ compute most tiles, in less time.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.window_runs import are_large_tiles
from ..ops.pool.primitives import no_hits, positions_counted
from ..ops.windows import Windows
from .install import on_host
from .jit import kernel, larger
from .planes import columns_of, fit, give, layout, on_threads, plain, planes, results, spread, take

# -- the maximum ---------------------------------------------------------------------------------


@kernel
def _max(x, y, how):  # type: ignore[no-untyped-def]
    """y = the maximum of each window; NaN wins"""
    buffer, run = np.full(how.entries, -np.inf, x.dtype), np.empty(how.length, x.dtype)
    n, found = how.length, columns_of(x.shape[2], how.strides[1], how.before[1])
    for p in range(x.shape[0]):
        take(buffer, x, p, how, found)
        run[:] = -np.inf
        for start in how.starts:
            seen = buffer[start : start + n]
            for i in range(n):
                run[i] = larger(run[i], seen[i])
        results(run, y, p, how.row)


@kernel
def _max_dx(a, x, top, y, how):  # type: ignore[no-untyped-def]
    """y = a of each window, in equal shares to the pixels that hold its maximum `top`, no NaN"""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    buffer, back = np.full(how.entries, np.nan, x.dtype), np.empty(how.entries, x.dtype)
    best, share = np.zeros(how.length, x.dtype), np.zeros(how.length, x.dtype)
    ties = np.empty(how.length, x.dtype)
    n, found = how.length, columns_of(x.shape[2], how.strides[1], how.before[1])
    for p in range(x.shape[0]):
        take(buffer, x, p, how, found)
        spread(best, top, p, how.row)
        spread(share, a, p, how.row)
        ties[:] = 0
        for start in how.starts:
            seen = buffer[start : start + n]
            for i in range(n):
                ties[i] += one if seen[i] == best[i] else zero
        for i in range(n):
            share[i] /= ties[i] if ties[i] > one else one
        back[:] = 0
        for start in how.starts:
            seen, into = buffer[start : start + n], back[start : start + n]
            for i in range(n):
                into[i] += share[i] if seen[i] == best[i] else zero
        give(back, y, p, how, found)


@kernel
def _max_of_four(x, y):  # type: ignore[no-untyped-def]
    """_max for adjacent windows of 2 × 2, which need no buffer: a fifth of its time"""
    two, one = np.uintp(2), np.uintp(1)
    for p in range(y.shape[0]):
        for i in range(y.shape[1]):
            a, b, into = x[p, 2 * i], x[p, 2 * i + 1], y[p, i]
            for j in range(np.uintp(y.shape[2])):
                first = larger(a[two * j], a[two * j + one])
                into[j] = larger(first, larger(b[two * j], b[two * j + one]))


@kernel
def _max_of_four_dx(a, x, top, y):  # type: ignore[no-untyped-def]
    """_max_dx for them; pixels outside of all windows do not change"""
    two, right, zero, one = np.uintp(2), np.uintp(1), x.dtype.type(0), x.dtype.type(1)
    for p in range(a.shape[0]):
        for i in range(a.shape[1]):
            best, share, x0, x1 = top[p, i], a[p, i], x[p, 2 * i], x[p, 2 * i + 1]
            for k in range(2):
                seen, into = x[p, 2 * i + k], y[p, 2 * i + k]
                for j in range(np.uintp(a.shape[2])):
                    m, ties, lost = best[j], zero, best[j] != best[j]
                    a0, a1, b0, b1 = (
                        x0[two * j],
                        x0[two * j + right],
                        x1[two * j],
                        x1[two * j + right],
                    )
                    ties += one if (a0 == m) | (a0 != a0) & lost else zero
                    ties += one if (a1 == m) | (a1 != a1) & lost else zero
                    ties += one if (b0 == m) | (b0 != b0) & lost else zero
                    ties += one if (b1 == m) | (b1 != b1) & lost else zero
                    g = share[j] / (ties if ties > one else one)
                    first, second = seen[two * j], seen[two * j + right]
                    into[two * j] = g if (first == m) | (first != first) & lost else zero
                    into[two * j + right] = g if (second == m) | (second != second) & lost else zero


# -- the mean ------------------------------------------------------------------------------------


@kernel
def _sum(x, y, divisor, how):  # type: ignore[no-untyped-def]
    """y = the sum of each window over the divisor; padding counts as 0"""
    buffer, run = np.zeros(how.entries, x.dtype), np.empty(how.length, x.dtype)
    n, found = how.length, columns_of(x.shape[2], how.strides[1], how.before[1])
    for p in range(x.shape[0]):
        take(buffer, x, p, how, found)
        run[:] = 0
        for start in how.starts:
            seen = buffer[start : start + n]
            for i in range(n):
                run[i] += seen[i]
        for i in range(n):
            run[i] /= divisor
        results(run, y, p, how.row)


@kernel
def _sum_dx(a, y, divisor, how):  # type: ignore[no-untyped-def]
    """y = the share a/divisor of each window at all of its pixels"""
    back, share = np.empty(how.entries, a.dtype), np.zeros(how.length, a.dtype)
    n, found = how.length, columns_of(y.shape[2], how.strides[1], how.before[1])
    for p in range(a.shape[0]):
        spread(share, a, p, how.row)
        for i in range(n):
            share[i] /= divisor
        back[:] = 0
        for start in how.starts:
            into = back[start : start + n]
            for i in range(n):
                into[i] += share[i]
        give(back, y, p, how, found)


# -- in front of the ops -------------------------------------------------------------------------


def _pooled(fill: Any, how: Windows, size: tuple, out: tuple, *arrays: Any) -> None:
    """fill(planes of the arrays …, layout) for all of them; the largest has `size` or `out`."""
    views, where = [planes(x, len(size)) for x in arrays], layout(how, size, out)
    on_threads(lambda s: fill(*[x[s] for x in views], where), len(views[0]), where.entries)


FOURS = Windows(kernel=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)), dilation=(1, 1))


def _of_fours(fill: Any, *arrays: Any) -> None:
    """fill(planes of the arrays …) for all of them."""
    views = [planes(x, 2) for x in arrays]
    elements = max(x[0].size for x in views)
    on_threads(lambda s: fill(*[x[s] for x in views]), len(views[0]), elements)


def _quicker_elsewhere(how: Windows, size: tuple) -> bool:
    """Whether forms of fast/pool/ take less time: for large tiles, and for tiles of two and more
    rows except those of 2 × 2.
    """
    several = len(how.kernel) == 2 and how.kernel[0] > 1 and prod(how.kernel) > 4
    return several and how.tiling or are_large_tiles(how, size)


@on_host("max_pool")
def max_pool(x: Any, *, how: Windows) -> Any:
    dims = len(how.kernel)
    if dims > 2 or not plain(x) or _quicker_elsewhere(how, x.shape[-dims:]):
        return None
    size = x.shape[-dims:]
    out = how.count("max_pool", size)
    y = np.empty((*x.shape[:-dims], *out), x.dtype)
    if how == FOURS:
        _of_fours(_max_of_four, x, y)
    else:
        _pooled(_max, how, size, out, x, y)
    return y, no_hits(x, how)


@on_host("max_pool_dx")
def max_pool_dx(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    dims = len(how.kernel)
    if dims > 2 or not plain(a, x, y_max) or a.shape != y_max.shape:
        return None
    if not fit(how, x.shape, a.shape) or _quicker_elsewhere(how, x.shape[-dims:]):
        return None
    if how == FOURS:
        covered = all(n % 2 == 0 for n in x.shape[-2:])
        y = (np.empty if covered else np.zeros)(x.shape, x.dtype)
        _of_fours(_max_of_four_dx, a, x, y_max, y)
        return y
    if y_max.size and np.isnan(y_max.max()):
        return None  # padding is NaN in the loops
    y = np.empty(x.shape, x.dtype)
    _pooled(_max_dx, how, x.shape[-dims:], a.shape[-dims:], a, x, y_max, y)
    return y


@on_host("sum_pool")
def sum_pool(x: Any, *, how: Windows, divisor: Any = 1) -> Any:
    dims = len(how.kernel)
    if dims > 2 or not plain(x) or _quicker_elsewhere(how, x.shape[-dims:]):
        return None
    size = x.shape[-dims:]
    if type(divisor) is tuple:
        y = sum_pool(x, how=how)
        y /= positions_counted(np, how, size, divisor).astype(x.dtype)
        return y
    out = how.count("sum_pool", size)
    y, number = np.empty((*x.shape[:-dims], *out), x.dtype), x.dtype.type(divisor)
    _pooled(lambda x, y, where: _sum(x, y, number, where), how, size, out, x, y)
    return y


@on_host("sum_pool_dx")
def sum_pool_dx(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    dims = len(size)
    if dims > 2 or not plain(a) or not fit(how, (*a.shape[:-dims], *size), a.shape):
        return None
    if _quicker_elsewhere(how, tuple(size)):
        return None
    if type(divisor) is tuple:
        a, divisor = a / positions_counted(np, how, tuple(size), divisor).astype(a.dtype), 1
    y, number = np.empty((*a.shape[:-dims], *size), a.dtype), a.dtype.type(divisor)
    _pooled(
        lambda a, y, where: _sum_dx(a, y, number, where), how, tuple(size), a.shape[-dims:], a, y
    )
    return y
