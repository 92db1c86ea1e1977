"""Cutting arrays into blocks that stay in the cache, and working on the blocks with all cores.

A chain of NumPy calls over a large array moves it through memory once a call. Run on one block
after the other it finds its data in the cache; and blocks are what threads can share.
"""

import functools
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.pool import share
from ..core.caches import report

# Elements in a block: 1 MB of float32. Milliseconds of layer_norm of 2,000×2,000, forward: on
# 2 threads 2^14 16, 2^16 6.1, 2^17 5.3, 2^18 3.9, 2^20 2.8, on 1 10, 6.1, 5.0, 5.1, 4.5. NumPy lets
# go of the interpreter for every call, and a thread that waits for it wakes too late for calls of
# a few microseconds, so that threads take turns. Larger blocks cost more scratch memory.
BLOCK = 1 << 18
WHOLE = (...,)  # the block that is all of an array


def spans(n: int, step: int) -> list[slice]:
    """0..n in slices of `step`, the last one shorter."""
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def part(a: Any, piece: tuple) -> Any:
    """The block of an array that broadcasts against what `piece` cuts: all of an axis of length 1.

    A view. `piece` has a slice for each axis of the larger array; a may have fewer, the last ones.
    """
    if piece is WHOLE:
        return a
    own = piece[len(piece) - a.ndim :]
    return a[tuple([slice(None) if n == 1 else i for i, n in zip(own, a.shape, strict=True)])]


def single(x: Any) -> bool:
    """Whether x is one block: it is small, or lies on a GPU."""
    return x.size < 2 * BLOCK or array_module(x) is not np


def pieces(x: Any, along: int) -> list[tuple]:
    """Indices that cut x into blocks along one axis; they depend on its shape, not on threads."""
    if single(x):
        return [WHOLE]
    whole = (slice(None),) * x.ndim
    step = max(1, BLOCK * x.shape[along] // x.size)
    before, after = whole[:along], whole[along + 1 :]
    return [(*before, span, *after) for span in spans(x.shape[along], step)]


def outermost(x: Any, axis: tuple) -> int | None:
    """The axis to cut x along so that a block holds all of the axes `axis`, in the longest runs.

    The first of the others that has enough entries for the threads, or the longest.
    """
    kept = [k for k in range(x.ndim) if k not in axis]
    if not kept:
        return None
    fine = (k for k in kept if x.shape[k] * BLOCK >= x.size)
    return next(fine, max(kept, key=lambda k: x.shape[k]))


def in_blocks(work: Callable[[tuple], Any], x: Any, axis: tuple = ()) -> None:
    """work(piece) for the blocks of x, each with all of the axes `axis`, on all threads.

    The work writes to places of its own in arrays of x's shape, so the result does not depend on
    which thread does what.
    """
    if x.size == 0:
        return
    along = None if single(x) else outermost(x, axis)
    if along is None:
        work(WHOLE)
    else:
        share(work, pieces(x, along))


def over_blocks(fill: Callable[[Any, Any], Any], x: Any) -> Any:
    """A new array of x's shape and dtype, made by fill(block of x, block of it), both 1-d."""
    y = np.empty(x.shape, x.dtype)
    flat, result = x.reshape(-1), y.reshape(-1)

    def work(piece: tuple) -> None:
        fill(flat[piece], result[piece])

    in_blocks(work, result)
    return y


def blockwise(forward: Callable) -> Callable:
    """An elementwise forward of one array: a large one in blocks, on all threads.

    What the forward makes on the way then has the size of a block, not of x.
    """

    @functools.wraps(forward)
    def in_pieces(x: Any, *args: Any, **params: Any) -> Any:
        if x.size < 2 * BLOCK or not x.flags.c_contiguous or array_module(x) is not np:
            return forward(x, *args, **params)
        flat = x.reshape(-1)
        first, *rest = pieces(flat, 0)
        start = forward(flat[first], *args, **params)  # which tells the dtype of the result
        y = np.empty(flat.shape, start.dtype)
        y[first] = start

        def work(piece: tuple) -> None:
            y[piece] = forward(flat[piece], *args, **params)

        share(work, rest)
        return y.reshape(x.shape)

    return in_pieces


def over_leading(forward: Callable, fixed: int, *arrays: Any) -> Any:
    """forward(*arrays) for arrays of equal leading axes, in blocks of these, on all threads.

    The last `fixed` axes of each belong together (an image), and forward takes any number of such.
    """
    lead = arrays[0].shape[: arrays[0].ndim - fixed]
    largest, n = max(arrays, key=lambda x: x.size), prod(lead)
    if n < 2 or largest.size < BLOCK or array_module(largest) is not np:
        return forward(*arrays)
    flat = [x.reshape((n, *x.shape[len(lead) :])) for x in arrays]
    first, *rest = spans(n, max(1, BLOCK // 2 * n // largest.size))
    start = forward(*[x[first] for x in flat])  # which tells shape and dtype of the result
    y = np.empty((n, *start.shape[1:]), start.dtype)
    y[first] = start

    def work(span: slice) -> None:
        y[span] = forward(*[x[span] for x in flat])

    share(work, rest)
    return y.reshape((*lead, *y.shape[1:]))


# -- memory for the while --------------------------------------------------------------------------


class _Scratch(threading.local):
    """Memory for what an op makes on the way, kept by each thread for its next one.

    A fresh array of some MB costs the system more (a fault for each page) than filling it does.
    A name holds one array at a time; what is larger than LIMIT is made fresh and not kept.
    """

    LIMIT = 1 << 25  # bytes for each of a handful of names

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}

    def empty(self, name: str, shape: tuple, like: Any, dtype: Any = None) -> Any:
        """An uninitialised array of this shape, of the dtype and on the device of `like`."""
        dtype = np.dtype(dtype or like.dtype)
        nbytes = prod(shape) * dtype.itemsize
        if not isinstance(like, np.ndarray) or nbytes > self.LIMIT:
            return array_module(like).empty(shape, dtype=dtype)
        memory = self.kept.get(name)
        if memory is None or memory.nbytes < nbytes:
            memory = self.kept[name] = np.empty(nbytes, dtype=np.uint8)
        return memory[:nbytes].view(dtype).reshape(shape)


scratch = _Scratch()
report(
    "workspaces of large ops (this thread)",
    lambda: (len(scratch.kept), sum(memory.nbytes for memory in scratch.kept.values())),
    max_bytes=9 * _Scratch.LIMIT,  # "padded", "product", three of "axis i", four of "block i"
    empty=lambda: scratch.kept.clear(),
)
