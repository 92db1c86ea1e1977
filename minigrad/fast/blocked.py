"""Elementwise functions of large arrays: block by block, the blocks shared by all threads.

NumPy computes an elementwise function on one core, and intermediate results of a derivative are as
large as the array. In blocks all cores share the work, and intermediate results stay in the cache.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends import blocks
from ..backends.cuts import Cut, along_memory, in_rows
from ..backends.image_layout import alike
from ..backends.pool import get_num_threads, share, sharing
from ..engine import modes


def piecewise(
    fn: Callable,
    values: tuple,
    params: dict,
    fill: Callable | None = None,
    least: int | None = None,
    few: bool = True,
) -> Any:
    """fn(*values, **params) in blocks on all threads, for an fn that is elementwise in its arrays.

    fn returns an array of their shape, or a tuple or list of such arrays. fill(ys, *values)
    computes the same into existing arrays ys, which saves a copy. A fill of few passes gains
    nothing on one thread; few=False says that it makes many. Results have the arrays' memory order.

    One call handles all arrays, without blocks, where they
      - have fewer than `least` elements (default LARGE; for a ufunc that broadcasts, BROADCAST),
      - are not NumPy's, are not contiguous, or differ in memory order,
      - are broadcast in another way than `in_rows` describes,
    and in modes that change ops, since a mode belongs to one thread.
    """
    arrays = [x for x in values if axes_of(x)]
    size = max([x.size for x in arrays]) if arrays else 0
    if len(arrays) > 1 and size >= blocks.NOTABLE:
        values = alike(values)
        arrays = [x for x in values if axes_of(x)]
    least = least or blocks.LARGE
    if size < min(least, blocks.BROADCAST) or modes.state.plain is None:
        return fn(*values, **params)
    helped = fill is None or not few or (get_num_threads() > 1 and not sharing())
    cut = cut_of(fn, arrays, size, least, helped)
    if cut is None:
        return fn(*values, **params)
    views = [cut.views.get(id(x), x) for x in values]
    start = fn(*[x[cut.corner] if axes_of(x) else x for x in views], **params)  # for the dtypes
    several = isinstance(start, tuple | list)
    starts = start if several else [start]
    if any(type(y) is not np.ndarray or y.shape != cut.corner_shape for y in starts):
        return fn(*values, **params)
    fill = fill or _copying(fn, several, params)
    # no views: the engine adds in place to an array without another reference
    results = [np.empty_like(cut.like, y.dtype) for y in starts]
    into = [cut.view(y) for y in results]

    def work(piece: slice) -> None:
        given = [x[piece] if axes_of(x) and len(x) > 1 else x for x in views]  # or its only row
        fill([y[piece] for y in into], *given)

    with cut.context:
        share(work, cut.pieces)
    return type(start)(results) if several else results[0]


def cut_of(fn: Any, arrays: list, size: int, least: int, helped: bool) -> Cut | None:
    """How to cut the arrays; None where one call for all of them is as fast, or the only way.

    helped: whether arrays of one shape gain from being cut
    """
    if all(x.shape == arrays[0].shape for x in arrays):
        return along_memory(arrays, blocks.BLOCK) if helped and size >= least else None
    ufunc = isinstance(fn, np.ufunc)  # writes in place; results of other functions are copied
    if size < (min(blocks.BROADCAST, least) if ufunc else least):
        return None
    return in_rows(fn, arrays, size if size < least else blocks.BLOCK)


def _copying(fn: Callable, several: bool, params: dict) -> Callable:
    """A fill that copies the results of fn."""

    def fill(ys: list, *values: Any) -> None:
        found = fn(*values, **params)
        for y, made in zip(ys, found if several else [found], strict=True):
            y[...] = made

    return fill


def in_blocks(ufunc: np.ufunc) -> Callable:
    """The same ufunc, run in blocks on large arrays."""

    def fill(ys: list, *xs: Any) -> None:
        ufunc(*xs, out=ys[0])

    return lambda *arrays, **params: piecewise(ufunc, arrays, params, fill)


def blockwise(forward: Callable) -> Callable:
    """An elementwise forward of one array: a large one in blocks, on all threads.

    Intermediate results then have the size of a block, not of x. It may return a tuple
    of arrays.
    """

    @functools.wraps(forward)
    def in_pieces(x: Any, *args: Any, **params: Any) -> Any:
        return piecewise(forward, (x, *args), params, least=2 * blocks.BLOCK)

    return in_pieces


def axes_of(x: Any) -> int:
    """The number of axes of an array; 0 for anything else."""
    ndim = getattr(x, "ndim", 0)
    return ndim if type(ndim) is int else 0  # an array module has a function `ndim`
