"""Arrays in blocks that stay in the cache, computed on all cores.

A chain of NumPy calls over a large array moves it through memory once in each call. Block by block,
the chain finds its data in the cache, and threads can share the blocks.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from . import blas
from .caches import report
from .cuts import BUFFER, memory_order, small_buffer, spans
from .device import array_module
from .pool import share

# Elements in a block: 1 MB of float32. NumPy releases the interpreter lock in every call, and a
# thread that waits for the lock wakes too late for short calls: in small blocks threads would take
# turns. Larger blocks need more scratch memory.
BLOCK = 1 << 18

# Elements from which a single ufunc is worth splitting: fewer fit in the caches. A rule that does
# not end in a product copies its result, and pays only for more.
LARGE = 1 << 21

# Elements from which memory orders are compared. NumPy walks arrays of different orders with
# strides, which takes longer than first copying one into the other's order.
NOTABLE = 1 << 16

# Elements from which it pays to look for rows where arrays are broadcast.
BROADCAST = 1 << 19

WHOLE = (...,)  # the block that is the whole array


def part(a: Any, piece: tuple) -> Any:
    """The block of an array that broadcasts against the array that `piece` cuts, a view.

    It has the whole of an axis of length 1. `piece` has a slice for each axis of the larger array;
    a may have only the last ones of these axes.
    """
    if piece is WHOLE:
        return a
    own = piece[len(piece) - a.ndim :]
    return a[tuple([slice(None) if n == 1 else i for i, n in zip(own, a.shape, strict=True)])]


def single(x: Any) -> bool:
    """Whether x is one block: it is small, or on a GPU."""
    return x.size < 2 * BLOCK or array_module(x) is not np


def pieces(x: Any, along: int) -> list[tuple]:
    """Indices that cut x into blocks along one axis; they depend on its shape, not on the
    threads."""
    if single(x):
        return [WHOLE]
    whole = (slice(None),) * x.ndim
    step = max(1, BLOCK * x.shape[along] // x.size)
    before, after = whole[:along], whole[along + 1 :]
    return [(*before, span, *after) for span in spans(x.shape[along], step)]


def outermost(x: Any, axis: tuple) -> int | None:
    """The axis to cut x along: a block then holds all of the axes `axis`, in the longest runs.

    It is the first of the other axes with enough entries for blocks of BLOCK elements, or the
    longest.
    """
    kept = [k for k in range(x.ndim) if k not in axis]
    if not kept:
        return None
    fine = (k for k in kept if x.shape[k] * BLOCK >= x.size)
    return next(fine, max(kept, key=lambda k: x.shape[k]))


_AS_IT_IS = nullcontext()


def long_runs(x: Any, axis: tuple) -> AbstractContextManager:
    """A context for combining arrays like x with values that are constant along `axis`, or across
    it.

    Where x's runs of such elements are long, it makes NumPy's buffer smaller inside.
    """
    run, inner = 1, x.ndim - 1 in axis
    for k in range(x.ndim - 1, -1, -1):
        if (k in axis) != inner:
            break
        run *= x.shape[k]
    return small_buffer() if run > BUFFER and type(x) is np.ndarray else _AS_IT_IS


def in_blocks(work: Callable[[tuple], Any], x: Any, axis: tuple = ()) -> None:
    """work(piece) for the blocks of x, each with all of the axes `axis`, on all threads.

    Each call writes to separate memory in arrays of x's shape: the result does not depend on which
    thread computes which block.
    """
    if x.size == 0:
        return
    along = None if single(x) else outermost(x, axis)
    with long_runs(x, axis):
        if along is None:
            work(WHOLE)
        else:
            share(work, pieces(x, along))


def over_blocks(fill: Callable[..., None], x: Any, count: int) -> tuple:
    """`count` new arrays of x's shape, dtype and order, filled by fill(block of x, *new blocks).
    Blocks have one axis.
    """
    order = memory_order([x])
    if order is None:  # it has gaps
        order, x = tuple(range(x.ndim)), np.ascontiguousarray(x)
    ys = [np.empty_like(x) for _ in range(count)]
    flat, *results = [a.transpose(order).reshape(-1) for a in (x, *ys)]

    def work(piece: tuple) -> None:
        fill(flat[piece], *[result[piece] for result in results])

    in_blocks(work, results[0])
    return tuple(ys)


def over_leading(fill: Callable, fixed: int, y: Any, *arrays: Any, block: int = BLOCK // 2) -> Any:
    """y, a new array, filled by fill(block of y, blocks of the arrays) on all threads.

    The arrays have equal leading axes, which are cut. The last `fixed` axes of each stay whole (an
    image), and fill takes any number of such parts. block: elements of a block's largest array.
    """
    lead = y.shape[: y.ndim - fixed]
    largest, n = max((y, *arrays), key=lambda x: x.size), prod(lead)
    if n < 2 or largest.size < 2 * block or array_module(largest) is not np:
        fill(y, *arrays)
        return y
    flat = [x.reshape((n, *x.shape[len(lead) :])) for x in (y, *arrays)]

    def work(span: slice) -> None:
        fill(*[x[span] for x in flat])

    share(work, spans(n, max(1, block * n // largest.size)))
    return y


def on_threads(work: Callable[[Any], Any], pieces: list, x: Any) -> None:
    """work(piece), which multiplies matrices, for all pieces on threads, each with one BLAS thread.

    That is faster than copies on one thread and products on two. Without threadpoolctl, or with one
    piece, products use the threads of BLAS. If x is on a GPU, there is one thread.
    """
    if len(pieces) > 1 and array_module(x) is np:
        with blas.one_thread() as limited:
            if limited:
                share(work, pieces)
                return
    for piece in pieces:
        work(piece)


Steps = list[tuple[Callable, tuple]]  # NumPy functions and their arguments


def take_steps(steps: Steps) -> None:
    """function(*args) for each of the steps, in their order.

    NumPy releases the GIL while it computes, and waits for it afterwards. A thread that makes views
    between its calls holds the GIL for long: another one at the end of a call falls asleep, and
    wakes late. Shared work is therefore first listed, with all views, and then called in one loop.
    """
    for function, args in steps:
        function(*args)


# -- scratch memory --------------------------------------------------------------------------------


LINE = 64  # bytes of a cache line: NumPy's loops are faster on arrays that begin with one


class _Scratch(threading.local):
    """Memory for the intermediate results of an op, which each thread keeps for its next op.

    A fresh array of some MB costs more (a fault for each page) than filling it. A name holds one
    array at a time. An array larger than LIMIT is new each time and not kept.
    """

    LIMIT = 1 << 25  # bytes for each of a handful of names
    MOST = 512  # keys of `notes`, some kB each

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}
        self.notes: dict[tuple, Any] = {}
        self.made_fresh = False

    def empty(self, name: str, shape: tuple, like: Any, dtype: Any = None) -> Any:
        """An uninitialised array of this shape, of the dtype and on the device of `like`."""
        dtype = like.dtype if dtype is None else np.dtype(dtype)
        nbytes = prod(shape) * dtype.itemsize
        if not isinstance(like, np.ndarray) or nbytes > self.LIMIT:
            self.made_fresh = True
            return array_module(like).empty(shape, dtype=dtype)
        kept = self.kept
        memory = kept.get(name)
        if memory is None or memory.nbytes < nbytes:
            self.notes.clear()  # they refer to the memory that is replaced
            fresh = np.empty(nbytes + LINE, dtype=np.uint8)
            start = -fresh.ctypes.data % LINE
            memory = kept[name] = fresh[start : start + nbytes]
        return np.ndarray(shape, dtype, memory)  # at its beginning

    def keeps(self, x: np.ndarray) -> bool:
        """Whether `empty` keeps an array of this size."""
        return x.nbytes <= self.LIMIT

    def written(self, key: tuple, write: Callable[[], Any]) -> Any:
        """write(), the steps and views of this memory for a key: computed once for as long as the
        memory is kept.
        """
        found = self.notes.get(key)
        if found is None:
            self.made_fresh = False
            found = write()
            if len(self.notes) >= self.MOST:
                self.notes.clear()
            if not self.made_fresh:
                self.notes[key] = found
        return found

    def clear(self) -> None:
        self.kept.clear()
        self.notes.clear()


scratch = _Scratch()
report(
    "workspaces of large ops (this thread)",
    lambda: (len(scratch.kept), sum(memory.nbytes for memory in scratch.kept.values())),
    # "padded", "product", "parts", "phases", three of "axis i", four of "block i"
    max_bytes=11 * _Scratch.LIMIT,
    empty=lambda: scratch.clear(),
)
