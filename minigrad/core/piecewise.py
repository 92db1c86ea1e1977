"""Elementwise functions of large arrays: one block after the other, shared by all threads.

NumPy computes an elementwise function on one core, and what a derivative makes on the way is as
large as the array. In blocks the second core helps, and what is made on the way stays in the cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.pool import get_num_threads, share, sharing
from . import modes

# Elements in a block: 1 MB of float32. Milliseconds of layer_norm of 2,000×2,000, forward: on
# 2 threads 2^14 16, 2^16 6.1, 2^17 5.3, 2^18 3.9, 2^20 2.8, on 1 10, 6.1, 5.0, 5.1, 4.5. NumPy lets
# go of the interpreter for every call, and a thread that waits for it wakes too late for calls of
# a few microseconds, so that threads take turns. Larger blocks cost more scratch memory.
BLOCK = 1 << 18

# Elements of an array that single ufuncs are worth dividing for. Milliseconds of g (1 − y²) in
# float32, whole and in blocks on two threads: 2^19 0.14 and 0.15, 2^20 0.37 and 0.34, 2^21 0.98 and
# 0.90, 2^22 2.2 and 1.1, 2^23 5.9 and 2.7; of tanh at 2^23 3.0 and 1.7, of a product 3.3 and 2.7.
# A rule whose last step is no product is copied into place: relu's at 2^20 0.65 and 0.87.
LARGE = 1 << 21


def piecewise(
    fn: Callable,
    values: tuple,
    params: dict,
    fill: Callable | None = None,
    least: int | None = None,
) -> Any:
    """fn(*values, **params), fn elementwise in the arrays among the values: blocks on all threads.

    fn returns an array of their shape, or a tuple or list of such. fill(ys, *values): the same
    written into arrays that are there, ys, which saves a copy; that is for functions of few passes,
    which gain nothing on one thread. In one piece where arrays have fewer than `least` elements
    (LARGE), are not NumPy's, have gaps, several orders or shapes, and in modes of this thread that
    change what ops do: helpers do not share them. Results have the order of the arrays.
    """
    arrays = [x for x in values if _axes(x)]
    size = arrays[0].size if arrays else 0
    helped = fill is None or (get_num_threads() > 1 and not sharing())
    if size < (least or LARGE) or not helped or modes.state.plain is None:
        return fn(*values, **params)
    order = memory_order(arrays)
    if order is None:
        return fn(*values, **params)
    flat = [x.transpose(order).reshape(-1) if _axes(x) else x for x in values]

    def part(span: slice) -> list:
        return [x[span] if _axes(x) else x for x in flat]

    start = fn(*part(slice(0, 2)), **params)  # tells how many results there are, and their dtypes
    several = isinstance(start, tuple | list)
    starts = start if several else [start]
    if any(type(y) is not np.ndarray or y.shape != (2,) for y in starts):
        return fn(*values, **params)
    results = [np.empty_like(arrays[0], y.dtype) for y in starts]  # no views: the engine adds to
    ys = [y.transpose(order).reshape(-1) for y in results]  # ... what has no other holder

    def work(span: slice) -> None:
        if fill is not None:
            fill([y[span] for y in ys], *part(span))
            return
        found = fn(*part(span), **params)
        for y, made in zip(ys, found if several else [found], strict=True):
            y[span] = made

    share(work, [slice(i, min(i + BLOCK, size)) for i in range(0, size, BLOCK)])
    return type(start)(results) if several else results[0]


def in_blocks(ufunc: np.ufunc) -> Callable:
    """A ufunc that takes large arrays piecewise."""

    def fill(ys: list, *xs: Any) -> None:
        ufunc(*xs, out=ys[0])

    return lambda *arrays, **params: piecewise(ufunc, arrays, params, fill)


def _axes(x: Any) -> int:
    """How many axes x has, if it is an array."""
    ndim = getattr(x, "ndim", 0)
    return ndim if type(ndim) is int else 0  # a module of arrays has a function of that name


def memory_order(arrays: list) -> tuple | None:
    """The axes from the longest to the shortest stride, where all lie alike and without gaps."""
    first = arrays[0]
    if any(type(x) is not np.ndarray or x.shape != first.shape for x in arrays):
        return None
    if all(x.flags.c_contiguous for x in arrays):
        return tuple(range(first.ndim))
    order = tuple(sorted(range(first.ndim), key=lambda k: -first.strides[k]))
    return order if all(x.transpose(order).flags.c_contiguous for x in arrays) else None
