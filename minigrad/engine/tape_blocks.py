"""Elementwise calls of a program on large arrays: runs of them, made together block by block.

A ufunc after the other, each over the whole of a large array, brings every array from memory and
back at every call. Here all calls of a run are made on one block, then on the next, so that what a
call hands to the next is still in the cache; values that only the run reads have no memory beyond a
block. Blocks are shared by all threads. No bit changes: a ufunc computes each element by itself.
But for the sign of a NaN made of two NaNs of both signs, which NumPy's loops take from the one or
the other by where in the array it stands: it may be another in blocks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends.pool import share
from ..core.cuts import memory_order, spans
from .tape_trace import Ref, Step, Trace

# Elements of a block, and of arrays from which blocks are worth it. Milliseconds of a program of
# 20 calls (tanh, exp, sin and the gradient) on n×n float32, call by call, in blocks of 2^15, 2^17
# and 2^19 on two threads: n = 300 0.6, 0.7, 0.6, 0.6; 500 1.7, 2.5, 1.1, 1.6; 1,000 9.8, 7.1, 5.8,
# 6.0; 2,000 55, 28, 21, 22.
BLOCK = 1 << 17
LEAST = 1 << 18


def runs_of(steps: list[Step], trace: Trace) -> Iterator[list[int]]:
    """The places in `steps` of the calls of each run: ufuncs of large arrays that lie alike, with
    nothing between them but views of what was there before.
    """
    run: list[int] = []
    form, made = None, set()
    for i, step in enumerate(steps):
        if step.kind == "view" and made.isdisjoint(step.reads()):
            continue
        own = _form(step, trace)
        if own != form:
            if run:
                yield run
            run, form, made = [], own, set()
        if own is not None:
            run.append(i)
            made.update(step.outputs)
    if run:
        yield run


def _form(step: Step, trace: Trace) -> tuple | None:
    """How the arrays of a large elementwise call lie; None for any other call."""
    if step.kind != "ufunc" or step.kwargs or step.fn.signature is not None:
        return None
    y = trace.arrays[step.outputs[0]]
    if type(y) is not np.ndarray or y.size < LEAST or memory_order([y]) is None:
        return None
    for x in step.args:
        x = trace.arrays[x.value] if type(x) is Ref else x
        if isinstance(x, np.ndarray) and not _is_one_number(x):
            if type(x) is not np.ndarray or x.shape != y.shape or x.strides != y.strides:
                return None
    return y.shape, y.strides


def _is_one_number(x: np.ndarray) -> bool:
    """Whether all entries are one: of a number that was broadcast, as the gradient of a sum is."""
    return all(n == 1 or stride == 0 for n, stride in zip(x.shape, x.strides, strict=True))


class Blocks:
    """The calls of one run as one: `blocks()` makes them all.

    cells  where the arrays of values are, as in Runner
    inner  the values that nothing but the run reads

    Each value and constant has a slot: a long one (its array as one run of memory, of which a block
    is taken), a number, or memory of one block, which serves several values one after the other.
    """

    def __init__(self, steps: list[Step], trace: Trace, cells: list, inner: set[int]):
        self.cells = cells
        like = trace.arrays[steps[0].outputs[0]]
        self.order = memory_order([like])
        self.pieces = spans(like.size, BLOCK)
        self.slots: list[Any] = []  # numbers as they are, None for what a call of the run fills in
        self.outer: dict[int, int] = {}  # slot of each value that is not inner
        self.blocks: dict[int, np.dtype] = {}  # dtype of each slot for a block
        self.idle: list[dict[int, np.ndarray]] = []  # memory for those, of threads not at work
        self.calls: list[tuple[Callable, list[int], int]] = []  # function, slots it reads, slot
        last = {value: k for k, step in enumerate(steps) for value in step.reads()}
        held: dict[int, int] = {}  # slot of each inner value that is still to be read
        for k, step in enumerate(steps):
            read = [self._slot(x, held) for x in step.args]
            (y,) = step.outputs
            if y in inner:  # never in place: some loops of NumPy then round in another way
                held[y] = self._block(trace.arrays[y].dtype, set(held.values()))
            self.calls.append((step.fn, read, self._slot(Ref(y), held)))
            for value in step.reads():
                if last[value] == k:
                    held.pop(value, None)

    def _slot(self, x: Any, held: dict[int, int]) -> int:
        if type(x) is not Ref:
            self.slots.append(x)
            return len(self.slots) - 1
        if x.value in held:
            return held[x.value]
        if x.value not in self.outer:
            self.outer[x.value] = len(self.slots)
            self.slots.append(None)
        return self.outer[x.value]

    def _block(self, dtype: np.dtype, taken: set[int]) -> int:
        """A slot for a block of this dtype that holds nothing now."""
        for slot, own in self.blocks.items():
            if own == dtype and slot not in taken:
                return slot
        self.slots.append(None)
        self.blocks[len(self.slots) - 1] = dtype
        return len(self.slots) - 1

    def __call__(self) -> None:
        slots = self.slots.copy()
        for value, slot in self.outer.items():
            x = self.cells[value]
            slots[slot] = _number(x) if _is_one_number(x) else x.transpose(self.order).reshape(-1)

        def work(piece: slice) -> None:
            try:
                own = self.idle.pop()
            except IndexError:
                own = {slot: np.empty(BLOCK, dtype) for slot, dtype in self.blocks.items()}
            here = [x[piece] if getattr(x, "ndim", 0) else x for x in slots]
            for slot, block in own.items():
                here[slot] = block[: piece.stop - piece.start]
            for function, read, target in self.calls:
                function(*[here[slot] for slot in read], out=here[target])
            self.idle.append(own)

        share(work, self.pieces)


def _number(x: np.ndarray) -> np.ndarray:
    """The one entry of x as an array without axes."""
    return x[(slice(0, 1),) * x.ndim].reshape(())
