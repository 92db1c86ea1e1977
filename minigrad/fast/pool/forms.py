"""The forms of pooling that are faster than one window position after the other.

They are variants of the primitives. A call asks them in the order of this file, and the first
suitable one computes it: large images in blocks, on all threads, in the memory order of x.

axes          windows that are the image, or tile it in long rows: reductions over axes of a view
tiles HWNC    tiles of images pixels first (backends/image_layout.py): axes of a view, too
tiles         other tiles: a tile's value is copied to all of its positions
shifts        other windows position by position, read as long runs (fast/shifts.py)
separable     other maxima and sums: one axis after the other
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...backends import image_layout
from ...backends.blocks import BLOCK, over_leading
from ...backends.dtypes import accumulator
from ...backends.window_runs import are_large_tiles
from ...engine.registry import op
from ...ops.pool.primitives import (
    max_pool,
    max_pool_dx,
    max_pool_pick,
    no_hits,
    positions_counted,
    sum_pool,
    sum_pool_dx,
)
from ...ops.windows import Windows
from ..forms import Forms
from ..shifts import Tiles, Views, placed
from . import axes, separable, shares, tiles_hwnc

# Elements of a block's largest array: calls must be long, and scratch memory fit in the cache.
IMAGES = 2 * BLOCK

form = Forms()


def over_images(fill: Callable, how: Windows, x: Any, size: tuple, *arrays: Any) -> Any:
    """A new array (..., *size) like x, filled by fill(y, *arrays) in blocks; in the order of x."""
    lead = x.shape[: -len(size)]
    if len(lead) == 2 and image_layout.turned(x) and image_layout.lies_places_first(x):
        y = image_layout.empty((*lead, *size), x.dtype)
        arrays = tuple(map(image_layout.places_first, arrays))
        image_layout.over_strips(fill, how.tiling, IMAGES, y, *arrays)
        return y
    return over_leading(fill, len(size), np.empty((*lead, *size), x.dtype), *arrays, block=IMAGES)


def _size(x: Any, how: Windows) -> tuple:
    return x.shape[x.ndim - len(how.kernel) :]


def _large_tiles(x: Any, *, how: Windows) -> bool:
    return are_large_tiles(how, _size(x, how))


# -- the maximum ---------------------------------------------------------------------------------


@form(max_pool, "axes", _large_tiles, on="cuda")
@form(max_pool, "axes", _large_tiles)
def max_by_axes(x: Any, *, how: Windows) -> Any:
    return axes.reduced(op.max, x, how), no_hits(x, how)


@form(max_pool, "separable")
def separable_max(x: Any, *, how: Windows) -> Any:
    out = how.count("max_pool", _size(x, how))
    return over_images(partial(separable.maxima, how), how, x, out, x), no_hits(x, how)


# -- its gradient --------------------------------------------------------------------------------


def _large_tiles_dx(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> bool:
    return are_large_tiles(how, _size(x, how))


@form(max_pool_dx, "axes", _large_tiles_dx, on="cuda")
@form(max_pool_dx, "axes", _large_tiles_dx)
def max_dx_by_axes(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    return axes.max_dx(a, x, y_max, how)


@form(max_pool_dx, "tiles HWNC", lambda a, x, y_max, hits=None, *, how: tiles_hwnc.suits(how, x, a))
def max_dx_of_tiles_hwnc(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    return over_images(partial(tiles_hwnc.shares, how), how, x, _size(x, how), a, x, y_max)


def _several(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> bool:
    return how.tiling and prod(how.kernel) > shares.FEW


@form(max_pool_dx, "tiles", _several)
def max_dx_of_tiles(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    over = Tiles(how, _size(x, how), _size(y_max, how))
    fill = partial(shares.over_tiles, how, over)
    return over_images(fill, how, x, _size(x, how), a, x, y_max)


@form(max_pool_dx, "shifts")
def max_dx_by_shifts(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    shifts = placed(how, x, _size(x, how), _size(y_max, how))
    fill = partial(shares.by_position, shifts)
    return over_images(fill, how, x, _size(x, how), a, x, y_max)


# -- and the transpose of that -------------------------------------------------------------------


def _large_tiles_pick(a: Any, x: Any, y_max: Any, *, how: Windows) -> bool:
    return are_large_tiles(how, _size(x, how))


@form(max_pool_pick, "axes", _large_tiles_pick, on="cuda")
@form(max_pool_pick, "axes", _large_tiles_pick)
def pick_by_axes(a: Any, x: Any, y_max: Any, *, how: Windows) -> Any:
    return axes.max_pick(a, x, y_max, how)


@form(max_pool_pick, "shifts")
def pick_by_shifts(a: Any, x: Any, y_max: Any, *, how: Windows) -> Any:
    out = _size(y_max, how)
    shifts = placed(how, x, _size(x, how), out)
    return over_images(partial(shares.picked, shifts), how, x, out, a, x, y_max)


# -- the mean ------------------------------------------------------------------------------------


def _means(x: Any, *, how: Windows, divisor: Any = 1) -> bool:
    return divisor == prod(how.kernel) and are_large_tiles(how, _size(x, how))


@form(sum_pool, "axes", _means, on="cuda")
@form(sum_pool, "axes", _means)
def mean_by_axes(x: Any, *, how: Windows, divisor: Any = 1) -> Any:
    return axes.reduced(op.mean, x, how)


@form(sum_pool, "separable")
def separable_sum(x: Any, *, how: Windows, divisor: Any = 1) -> Any:
    size, out = _size(x, how), how.count("sum_pool", _size(x, how))
    by = _divisors(x, how, size, divisor)
    return over_images(partial(separable.sums, how, by), how, x, out, x)


def _divisors(x: Any, how: Windows, size: tuple, divisor: Any) -> Any:
    """The divisor of sums: a number, an array (*out), or None for 1, which saves a pass."""
    if type(divisor) is not tuple:
        return None if divisor == 1 else divisor
    return positions_counted(np, how, size, divisor).astype(accumulator(x.dtype) or x.dtype)


def _means_dx(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> bool:
    return divisor == prod(how.kernel) and are_large_tiles(how, tuple(size))


@form(sum_pool_dx, "axes", _means_dx, on="cuda")
@form(sum_pool_dx, "axes", _means_dx)
def mean_dx_by_axes(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    return axes.mean_dx(a, tuple(size), how, divisor)


def _spread(fill: Callable, a: Any, size: tuple, how: Windows, divisor: Any) -> Any:
    """The images y of this size that fill(y, a / divisor) makes."""
    by = _divisors(a, how, tuple(size), divisor)

    def divided(y: Any, a: Any) -> None:
        share = a.astype(accumulator(a.dtype) or a.dtype, copy=False)
        fill(y, share if by is None else share / by)

    return over_images(divided, how, a, tuple(size), a)


@form(sum_pool_dx, "tiles", lambda a, *, size, how, divisor=1: how.tiling)
def sum_dx_of_tiles(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    return _spread(Tiles(how, tuple(size), _size(a, how)).cover, a, size, how, divisor)


def _pixels_first(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> bool:
    return type(placed(how, a, tuple(size), _size(a, how))) is Views


@form(sum_pool_dx, "shifts", _pixels_first)
def sum_dx_by_shifts(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    views = Views(how, tuple(size), _size(a, how))

    def fill(y: Any, share: Any) -> None:
        copied = partial(np.copyto, src=share, casting="unsafe")
        views.put([copied] * prod(how.kernel), y, share)

    return _spread(fill, a, size, how, divisor)


@form(sum_pool_dx, "separable")
def separable_sum_dx(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    return _spread(partial(separable.spread, how), a, size, how, divisor)


form.install()
