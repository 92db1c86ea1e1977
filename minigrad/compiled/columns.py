"""Windows of images as columns and back (fast/windows.py), for products by BLAS.

The padded phases of each plane are made once, in the first-level cache, and each window position is
copied from there. NumPy's form copies the planes once for each axis, through memory.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.blocks import scratch
from ..ops.windows import Windows
from .jit import element, kernel
from .planes import columns_of, give, layout, take

LEAST = 1 << 12  # elements from which this is faster than NumPy
LANES = 8  # entries copied at once, which short rows would not be otherwise


@element
def _copy(y, at, x, start, count):  # type: ignore[no-untyped-def]
    """y[at:][:count] = x[start:][:count], all indices unsigned"""
    done, lanes, one = np.uintp(0), np.uintp(LANES), np.uintp(1)
    while done + lanes <= count:
        for i in range(lanes):
            y[at + done + i] = x[start + done + i]
        done += lanes
    while done < count:
        y[at + done] = x[start + done]
        done += one


@element
def _add(y, at, x, start, count):  # type: ignore[no-untyped-def]
    """y[at:][:count] += x[start:][:count], all indices unsigned"""
    done, lanes, one = np.uintp(0), np.uintp(LANES), np.uintp(1)
    while done + lanes <= count:
        for i in range(lanes):
            y[at + done + i] += x[start + done + i]
        done += lanes
    while done < count:
        y[at + done] += x[start + done]
        done += one


@kernel
def _columns(x, y, outer, inner, out, how):  # type: ignore[no-untyped-def]
    """y (A, places, B, *out) flat = windows of the planes x; plane (a, b) is a·outer + b·inner"""
    buffer = np.zeros(how.entries, x.dtype)
    found = columns_of(x.shape[2], how.strides[1], how.before[1])
    rows, row, width = out[0], np.uintp(how.row), np.uintp(out[1])
    (na, stride_a), (nb, stride_b) = outer, inner
    places = len(how.starts)
    for a in range(na):
        for b in range(nb):
            take(buffer, x, a * stride_a + b * stride_b, how, found)
            for k in range(places):
                start = np.uintp(how.starts[k])
                at = np.uintp(((a * places + k) * nb + b) * rows * out[1])
                for _ in range(rows):
                    _copy(y, at, buffer, start, width)
                    start += row
                    at += width


@kernel
def _fold(x, y, outer, inner, out, how):  # type: ignore[no-untyped-def]
    """The transpose: the columns x added up in planes y."""
    buffer = np.empty(how.entries, x.dtype)
    found = columns_of(y.shape[2], how.strides[1], how.before[1])
    rows, row, width = out[0], np.uintp(how.row), np.uintp(out[1])
    (na, stride_a), (nb, stride_b) = outer, inner
    places = len(how.starts)
    for a in range(na):
        for b in range(nb):
            buffer[:] = 0
            for k in range(places):
                start = np.uintp(how.starts[k])
                at = np.uintp(((a * places + k) * nb + b) * rows * out[1])
                for _ in range(rows):
                    _add(buffer, start, x, at, width)
                    start += row
                    at += width
            give(buffer, y, a * stride_a + b * stride_b, how, found)


# -- in place of NumPy's form --------------------------------------------------------------------


def _large(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.char in "fd" and x.size >= LEAST


def _planes(x: Any, at: int, dims: int) -> tuple | None:
    """x as planes (n, h, w), with their numbers and distances along the axes before and after `at`.

    None where x's axes do not allow it.
    """
    lead = x.ndim - dims
    plane = prod(x.shape[lead:])
    if dims not in (1, 2) or lead - at > 1 or not _large(x):
        return None
    strides = [s // x.itemsize for s in x.strides]
    within = [prod(x.shape[i + 1 :]) for i in range(lead, x.ndim)]
    outer = [plane * prod(x.shape[i + 1 : at]) for i in range(at)]
    if strides[lead:] != within or any(
        n > 1 and s != o for n, s, o in zip(x.shape[:at], strides, outer, strict=False)
    ):
        return None
    shape = (prod(x.shape[:lead]), *(1,) * (2 - dims), *x.shape[lead:])
    planes = np.lib.stride_tricks.as_strided(x, shape, [n * x.itemsize for n in _c_strides(shape)])
    behind = (x.shape[at], strides[at] // plane) if lead > at else (1, 0)
    return planes, (prod(x.shape[:at]), 1), behind


def _c_strides(shape: tuple) -> list:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def columns(x: Any, how: Windows, out: tuple, at: int) -> Any:
    """fast/windows.columns, or None."""
    dims = len(out)
    if x.ndim - dims == at and max(how.stride) == 1 or prod(how.kernel) == 1:
        return None  # NumPy copies long runs as fast
    found = _planes(x, at, dims)
    if found is None:
        return None
    planes, outer, inner = found
    y = scratch.empty("axis 0", (*x.shape[:at], *how.kernel, *x.shape[at : x.ndim - dims], *out), x)
    where, rows = layout(how, x.shape[-dims:], tuple(out)), (1, *out)[-2:]
    _columns(planes, y.reshape(-1), outer, inner, rows, where)
    return y


def fold(x: Any, how: Windows, size: tuple, at: int) -> Any:
    """fast/windows.fold, or None."""
    dims = len(size)
    behind = x.shape[at + dims : x.ndim - dims]
    if dims > 2 or len(behind) > 1 or not (_large(x) and x.flags.c_contiguous):
        return None
    if prod(how.kernel) == 1:
        return None
    out, n = x.shape[x.ndim - dims :], prod(behind)
    y = scratch.empty("axis 0", (*x.shape[:at], *behind, *size), x)
    planes = y.reshape((-1, *(1,) * (2 - dims), *size))
    outer, inner = (len(planes) // n, n), (n, 1)
    where, rows = layout(how, tuple(size), out), (1, *out)[-2:]
    _fold(x.reshape(-1), planes, outer, inner, rows, where)
    return y
