"""Cutting arrays into blocks that stay in the cache, and working on the blocks with all cores.

A chain of NumPy calls over a large array moves it through memory once a call. Run on one block
after the other it finds its data in the cache; and blocks are what threads can share.
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
# thread that waits for the lock wakes too late for short calls, so that in small blocks threads
# take turns. Larger blocks need more scratch.
BLOCK = 1 << 18

# Elements from which a single ufunc is worth dividing: fewer lie in the caches anyway. A rule that
# does not end in a product is copied into place, and pays later.
LARGE = 1 << 21

# Elements from which memory orders are compared. NumPy walks arrays of different orders with
# strides, which takes longer than to copy one into the other's order first.
NOTABLE = 1 << 16

# Elements from which it pays to look for rows where arrays are broadcast.
BROADCAST = 1 << 19

WHOLE = (...,)  # the block that is all of an array


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


_AS_IT_IS = nullcontext()


def long_runs(x: Any, axis: tuple) -> AbstractContextManager:
    """A context in which arrays like x are combined with what is constant along `axis`, or across.

    Where x's runs of such elements are long NumPy's buffer is made smaller, for this context alone.
    """
    run, inner = 1, x.ndim - 1 in axis
    for k in range(x.ndim - 1, -1, -1):
        if (k in axis) != inner:
            break
        run *= x.shape[k]
    return small_buffer() if run > BUFFER and type(x) is np.ndarray else _AS_IT_IS


def in_blocks(work: Callable[[tuple], Any], x: Any, axis: tuple = ()) -> None:
    """work(piece) for the blocks of x, each with all of the axes `axis`, on all threads.

    The work writes to places of its own in arrays of x's shape, so the result does not depend on
    which thread does what.
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
    """`count` new arrays of x's shape, dtype and order, made by fill(block of x, *blocks of them),
    all of one axis.
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

    The arrays have equal leading axes, which are cut; the last `fixed` axes of each belong together
    (an image), and fill takes any number of such. block: elements of the largest of a block.
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
    """work(piece), which multiplies matrices, for all pieces on threads, with a BLAS of one each.

    That is faster than copies on one thread and products on two. Without threadpoolctl, or with one
    piece, products use the threads of BLAS; on a GPU (x lies there) there is one thread.
    """
    if len(pieces) > 1 and array_module(x) is np:
        with blas.one_thread() as limited:
            if limited:
                share(work, pieces)
                return
    for piece in pieces:
        work(piece)


Steps = list[tuple[Callable, tuple]]  # functions of NumPy's, and what to call them with


def take_steps(steps: Steps) -> None:
    """function(*args) for each of the steps, in their order.

    NumPy releases the GIL while it computes, and waits for it afterwards. A thread that
    makes views between its calls holds it for so long that another one at the end of a call falls
    asleep, and is woken late. So what threads share is written down first, views and all, and taken
    in one go.
    """
    for function, args in steps:
        function(*args)


# -- scratch memory --------------------------------------------------------------------------------


LINE = 64  # bytes of a cache line: NumPy's loops take a sixth less for arrays that begin with one


class _Scratch(threading.local):
    """Memory for the intermediate results of an op, kept by each thread for its next one.

    A fresh array of some MB costs the system more (a fault for each page) than filling it does.
    A name holds one array at a time; what is larger than LIMIT is made fresh and not kept.
    """

    LIMIT = 1 << 25  # bytes for each of a handful of names
    MOST = 512  # keys of what is written down, some kB each

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
            self.notes.clear()  # they are of the memory that goes
            fresh = np.empty(nbytes + LINE, dtype=np.uint8)
            start = -fresh.ctypes.data % LINE
            memory = kept[name] = fresh[start : start + nbytes]
        return np.ndarray(shape, dtype, memory)  # at its beginning

    def keeps(self, x: np.ndarray) -> bool:
        """Whether an array of this size that `empty` gave is kept."""
        return x.nbytes <= self.LIMIT

    def written(self, key: tuple, write: Callable[[], Any]) -> Any:
        """write(), steps and views of this memory that the key tells: written down once for as long
        as it is kept.
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
