"""The gradient of max pooling and its transpose, position by position, in scratch memory.

fast/shifts.py reads the positions of windows as long runs. Where windows are tiles of more than
three positions, maxima and shares are first copied to all positions of their tiles. These are a
dozen calls on whole images; position by position would take four for each, on strided elements.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, is_floating
from ...backends.image_layout import scratch_like
from ...ops.elementwise.selection import WHOLE, keep
from ...ops.windows import Windows
from ..elementwise.in_place import keep_into
from ..shifts import Shifts, Tiles, Views
from .separable import slide

FEW = 3  # positions; smaller tiles are walked position by position


def by_position(shifts: Shifts | Tiles | Views, y: Any, a: Any, x: Any, y_max: Any) -> None:
    """y = every entry of a, in equal shares, at the positions of its window where x is y_max."""
    hits, ties = _hits(x, y_max, shifts)
    shares = np.divide(shifts.spread(a, "block 1"), ties, out=ties if a.dtype == x.dtype else None)
    shares = shares.astype(accumulator(a.dtype) or a.dtype, copy=False)
    shifts.put(_kept(shares, hits), y, shares)


def picked(shifts: Shifts | Tiles | Views, y: Any, a: Any, x: Any, y_max: Any) -> None:
    """y = the mean of a over the positions of each window where x is y_max."""
    hits, ties = _hits(x, y_max, shifts)
    total = np.zeros_like(ties, dtype=accumulator(a.dtype) or a.dtype)
    for run, hit in zip(shifts.places(a), hits, strict=True):
        total += keep(run, hit)
    y[...] = shifts.result(total / ties)


def _hits(x: Any, y_max: Any, shifts: Shifts | Tiles | Views) -> tuple[Any, Any]:
    """For each window position, the run that says where it holds the maximum; and the number of
    such positions (at least 1), in x's dtype.

    Both are in scratch memory. In a window with NaNs, these hold the maximum.
    """
    never = np.nan if is_floating(x.dtype) else 0  # padding never ties
    top, runs = shifts.spread(y_max, "block 0"), shifts.places(x, never)
    hits = scratch_like("axis 0", top.shape, top, np.bool_, count=(len(runs),))
    for run, hit in zip(runs, hits, strict=True):
        np.equal(run, top, out=hit)
    count = scratch_like("axis 1", top.shape, top, np.uint8 if len(runs) < 256 else np.uint32)
    _count(hits, count)
    if _has_nan(shifts.result(count), x):
        lost = top != top
        for run, hit in zip(shifts.places(x), hits, strict=True):  # padding is 0 here
            hit |= (run != run) & lost
        _count(hits, count)
    count += (count == 0).view(np.uint8)  # at least 1; np.maximum is ten times slower
    ties = scratch_like("axis 2", top.shape, top, x.dtype)
    ties[...] = count
    return hits, ties


def _count(hits: Any, count: Any) -> None:
    count[...] = hits[0]
    for hit in hits[1:]:
        count += hit.view(np.uint8)


def _has_nan(count: Any, x: Any) -> bool:
    """Whether some window has no position equal to its maximum, because of a NaN."""
    return is_floating(x.dtype) and not count.all()


def _kept(x: Any, hits: Any) -> list[Callable[[Any], None]]:
    """For each position, a function that writes x where it is hit, else 0: like `keep`, in a tenth
    of the time of copying with where=.

    The output may have gaps: a computation of two steps takes the first in scratch memory.
    """
    whole = WHOLE.get(x.dtype.itemsize)

    def in_words(out: Any, hit: Any) -> None:
        out[...] = keep(x, hit)

    if whole is None:
        return [partial(in_words, hit=hit) for hit in hits]
    bits, of_x = scratch_like("block 2", x.shape, x, whole), x.view(whole)

    def by_bits(out: Any, hit: Any) -> None:
        np.copyto(bits, hit)
        np.multiply(bits, of_x, out.view(whole))

    return [partial(by_bits, hit=hit) for hit in hits.view(np.int8)]


def over_tiles(how: Windows, tiles: Tiles, y: Any, a: Any, x: Any, y_max: Any) -> None:
    """Like by_position, for all positions of a tile at once."""
    hits = scratch_like("axis 0", x.shape, x, np.bool_)
    over_all = scratch_like("block 0", x.shape, x)
    tiles.cover(over_all, y_max)
    np.equal(x, over_all, out=hits)
    small = prod(how.kernel) < 256
    count = scratch_like("block 1", y_max.shape, y_max, np.uint8 if small else np.uint32)
    slide(np.add, count, hits.view(np.uint8) if small else hits.astype(np.uint32), how)
    if _has_nan(count, x):
        hits |= (x != x) & (over_all != over_all)
        slide(np.add, count, hits.view(np.uint8) if small else hits.astype(np.uint32), how)
        count += (count == 0).view(np.uint8)
    shares = np.divide(a, count.astype(x.dtype))
    over_all = scratch_like("block 0", x.shape, shares)
    tiles.cover(over_all, shares)
    if y.dtype == shares.dtype:
        keep_into(y, over_all, hits)
    else:
        y[...] = keep(over_all, hits)
