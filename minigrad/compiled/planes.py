"""Images for compiled loops, one plane (h, w) after the other, read as in backends/window_runs.py.

A plane is copied with its padding into a buffer in the first-level cache, and split into phases
there. One position of all windows is then a run of the buffer, for any stride and dilation. Loops
over runs are long, contain no condition, and become vector instructions.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..backends import pool
from ..backends.blocks import spans
from ..backends.window_runs import WindowRuns
from ..ops.windows import Windows
from .jit import element

PIECE = 1 << 16  # elements of the larger images that a thread works on at a time


class Layout(NamedTuple):
    """The layout of a plane's buffer: all that a kernel needs to know of windows."""

    starts: np.ndarray  # of the run of each kernel position
    length: int  # of a run
    row: int  # entries from one row of results to the next in a run
    entries: int  # of the buffer
    strides: tuple[int, ...]
    before: tuple[int, ...]  # padding
    rows: tuple[int, ...]  # of a phase, and its columns


@lru_cache(64)
def layout(how: Windows, size: tuple, out: tuple) -> Layout:
    """The layout for images with one or two spatial axes."""
    axes = [(1, 1, (0, 0), 1)] * (2 - len(size)) + list(how.axes())
    how, lead = Windows.from_axes(axes), (1,) * (2 - len(size))
    runs = WindowRuns(how, (*lead, *size), (*lead, *out))
    a_phase = prod(runs.rows)
    starts = [(p * how.stride[1] + q) * a_phase + start for (p, q), start in runs.starts()]
    before = tuple([pair[0] for pair in how.padding])
    return Layout(
        np.array(starts), runs.length, runs.rows[1], a_phase * prod(how.stride),
        how.stride, before, tuple(runs.rows),
    )  # type: ignore[arg-type]  # fmt: skip


def plain(*arrays: Any) -> bool:
    """Whether the kernels accept these arrays: float32 or float64, of one dtype, contiguous."""
    dtype = arrays[0].dtype
    return dtype.char in "fd" and all(
        type(x) is np.ndarray and x.dtype == dtype and x.flags.c_contiguous and x.size
        for x in arrays
    )


def fit(how: Windows, image: tuple, result: tuple) -> bool:
    """Whether `result` is the shape of the windows of images of shape `image`: loops do not check
    bounds, and would write beyond the end of an array."""
    dims = len(how.kernel)
    return result == (*image[:-dims], *how.count("the windows", image[-dims:]))


def planes(x: Any, dims: int) -> Any:
    """x (..., h, w) or (..., w) as (planes, h, w)."""
    return x.reshape((-1, *x.shape[-2:]) if dims == 2 else (-1, 1, x.shape[-1]))


def on_threads(work: Any, count: int, elements: int) -> None:
    """work(slice of the planes), on all threads; `elements` of a plane."""
    pool.share(work, spans(count, max(1, PIECE // max(1, elements))))


# -- in kernels: indices are unsigned, since a signed index might count from the end ------------


@element
def columns_of(width, stride, before):  # type: ignore[no-untyped-def]
    """For each phase of the columns: its first column, the position in the phase, the count."""
    found = np.empty((stride, 3), np.uintp)
    for phase in range(stride):
        first = (phase - before) % stride
        found[phase, 0] = first
        found[phase, 1] = (first + before) // stride
        found[phase, 2] = max(0, (width - first + stride - 1) // stride)
    return found


@element
def take(buffer, x, p, how, found):  # type: ignore[no-untyped-def]
    """The phases of plane p of x; the padding does not change."""
    sh, sw = how.strides
    size, one, two = np.uintp(how.rows[0] * how.rows[1]), np.uintp(1), np.uintp(2)
    phase, at = how.before[0] % sh, how.before[0] // sh
    even = how.before[1] % 2
    for r in range(x.shape[1]):
        base = np.uintp(phase * sw) * size + np.uintp(at * how.rows[1])
        if sw == 2:  # both phases at once, by shuffle instructions
            start = base + np.uintp(even) * size + found[even, 1]
            other = base + np.uintp(1 - even) * size + found[1 - even, 1]
            n = found[1 - even, 2]
            for j in range(n):
                buffer[start + j] = x[p, r, two * j]
                buffer[other + j] = x[p, r, two * j + one]
            if found[even, 2] > n:
                buffer[start + n] = x[p, r, two * n]
        else:
            for q in range(sw):
                first, start = found[q, 0], base + np.uintp(q) * size + found[q, 1]
                if sw == 1:
                    for j in range(found[q, 2]):
                        buffer[start + j] = x[p, r, j]
                else:
                    for j in range(found[q, 2]):
                        buffer[start + j] = x[p, r, first + np.uintp(sw) * j]
        phase += 1
        if phase == sh:
            phase, at = 0, at + 1


@element
def give(buffer, y, p, how, found):  # type: ignore[no-untyped-def]
    """Plane p of y from its phases: the reverse of `take`."""
    sh, sw = how.strides
    size, one, two = np.uintp(how.rows[0] * how.rows[1]), np.uintp(1), np.uintp(2)
    phase, at = how.before[0] % sh, how.before[0] // sh
    even = how.before[1] % 2
    for r in range(y.shape[1]):
        base = np.uintp(phase * sw) * size + np.uintp(at * how.rows[1])
        if sw == 2:
            start = base + np.uintp(even) * size + found[even, 1]
            other = base + np.uintp(1 - even) * size + found[1 - even, 1]
            n = found[1 - even, 2]
            for j in range(n):
                y[p, r, two * j] = buffer[start + j]
                y[p, r, two * j + one] = buffer[other + j]
            if found[even, 2] > n:
                y[p, r, two * n] = buffer[start + n]
        else:
            for q in range(sw):
                first, start = found[q, 0], base + np.uintp(q) * size + found[q, 1]
                if sw == 1:
                    for j in range(found[q, 2]):
                        y[p, r, j] = buffer[start + j]
                else:
                    for j in range(found[q, 2]):
                        y[p, r, first + np.uintp(sw) * j] = buffer[start + j]
        phase += 1
        if phase == sh:
            phase, at = 0, at + 1


@element
def spread(run, a, p, row):  # type: ignore[no-untyped-def]
    """Plane p of results a as a run; entries between its rows do not change."""
    start = np.uintp(0)
    for i in range(a.shape[1]):
        for j in range(np.uintp(a.shape[2])):
            run[start + j] = a[p, i, j]
        start += np.uintp(row)


@element
def results(run, y, p, row):  # type: ignore[no-untyped-def]
    """Plane p of y from a run of results."""
    start = np.uintp(0)
    for i in range(y.shape[1]):
        for j in range(np.uintp(y.shape[2])):
            y[p, i, j] = run[start + j]
        start += np.uintp(row)
