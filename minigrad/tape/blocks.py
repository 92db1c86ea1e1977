"""Elementwise calls of a program on large arrays: runs of calls, block by block.

One ufunc after the other, each over a whole large array, moves every array from memory and back at
every call. Here all calls of a run are made on one block, then on the next: a result is still in
the cache for the next call. Values that only the run reads have no memory beyond a block. All
threads share the blocks.

No bit changes: a ufunc computes each element by itself. The one exception is the sign of a NaN
computed from two NaNs of both signs. NumPy's loops take it from either by the position in the
array: it may differ in blocks.

A block is a few rows of arrays seen as matrices of n rows. Smaller arguments are broadcast: a row
(a bias), a column (the mean of each row) or a number. If all arrays of a run have one shape, each
is one long run of memory, which may be cut anywhere.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..backends.cuts import (
    BUFFER,
    FEW_ROWS,
    FOLDED,
    divisor,
    filled,
    memory_order,
    small_buffer,
)  # fmt: skip
from ..expressions.blocks import Calls, Ref
from .trace import Step, Trace

# Elements of a block, and elements of arrays from which blocks pay.
BLOCK = 1 << 17
LEAST = 1 << 18


class Form(NamedTuple):
    """The memory layout of the arrays of large elementwise calls.

    order    the axes of the largest arrays, in memory order
    shape    the shape of these arrays, in that order
    splits   where the axes can be split into axes of rows and axes within a row: each smaller
             argument has axes on one side only; None: there are no smaller arguments
    """

    order: tuple
    shape: tuple
    splits: frozenset[int] | None = None

    def beside(self, other: "Form | None") -> "Form | None":
        """The form of a run with calls of both forms; None if there is no such form."""
        if other is None or (self.order, self.shape) != (other.order, other.shape):
            return None
        if self.splits is None or other.splits is None:
            return self if other.splits is None else other
        both = self.splits & other.splits
        return self._replace(splits=both) if both else None

    def split(self) -> int:
        """The first split whose rows are no longer than a block."""
        assert self.splits is not None
        short = [k for k in self.splits if prod(self.shape[k:]) <= BLOCK]
        return min(short) if short else max(self.splits)


class Run(NamedTuple):
    """Calls that are made together."""

    positions: list[int]  # among the steps of the trace
    form: Form


def runs_of(steps: list[Step], trace: Trace) -> Iterator[Run]:
    """Runs of large elementwise calls. Between the calls of a run there are only views of values
    from before the run.
    """
    positions: list[int] = []
    form, made = None, set()
    for i, step in enumerate(steps):
        if step.kind == "view" and made.isdisjoint(step.reads()):
            continue
        own = _form(step, trace)
        both = own and form and form.beside(own)
        if form and not both:
            yield Run(positions, form)
            positions, made = [], set()
        form = both or own
        if form:
            positions.append(i)
            made.update(step.outputs)
    if form:
        yield Run(positions, form)


def _form(step: Step, trace: Trace) -> Form | None:
    """The form of a large elementwise call; None for any other call."""
    if step.kind != "ufunc" or step.kwargs or step.fn.signature is not None:
        return None
    y = trace.arrays[step.outputs[0]]
    if type(y) is not np.ndarray or y.size < LEAST or (order := memory_order([y])) is None:
        return None
    form = Form(order, tuple([y.shape[k] for k in order]))
    for x in step.args:
        if type(x) is Ref:
            own = _form_beside(form, y, trace.arrays[x.value], trace.fixed[x.value])
        else:
            own = None if isinstance(x, np.ndarray) and x.ndim else form
        form = own and form.beside(own)
        if form is None:
            return None
    return form


def _form_beside(form: Form, y: Any, x: Any, fixed: bool) -> Form | None:
    """The form of a call with result y (of this `form`) and argument x. None unless x has y's size
    and order, or broadcasts as a row, a column or a number.
    """
    if x.size == 1:
        return form
    if type(x) is not np.ndarray or (0 in x.strides and not fixed):
        return None
    x = _core(x, form.order)
    if x.shape == form.shape:
        return form if x.flags.c_contiguous else None
    if x.size > y.size // FEW_ROWS:  # nearly all of y: not worth a copy
        return None
    varying = _varying(x)
    if not varying:
        return form
    first, last = varying[0], varying[-1]
    rows = [k for k in range(1, first + 1) if prod(form.shape[:k]) >= FEW_ROWS]
    columns = [k for k in range(last + 1, y.ndim) if prod(form.shape[k:]) >= FEW_ROWS]
    splits = frozenset(rows + columns)
    return form._replace(splits=splits) if splits else None


def _core(x: np.ndarray, order: tuple) -> np.ndarray:
    """x with the axes of the result in this order, of length 1 where one entry repeats."""
    x = x[(None,) * (len(order) - x.ndim)]
    x = x[tuple([slice(0, None if stride else 1) for stride in x.strides])]
    return x.transpose(order)


def _varying(x: np.ndarray) -> list[int]:
    return [k for k, n in enumerate(x.shape) if n > 1]


class Matrix:
    """The arrays of a run as matrices (n, m), or as one run of memory, (n,), if no argument is
    smaller than the others.

    Without columns, several short rows are joined into one: NumPy starts its loop again for each
    row (backends/cuts.py).
    """

    def __init__(self, form: Form, arrays: dict[int, np.ndarray]):
        self.form = form
        self.split = 0 if form.splits is None else form.split()
        kinds = {value: self._kind(x) for value, x in arrays.items()}
        n, m, self.together = prod(form.shape[: self.split]), prod(form.shape[self.split :]), 1
        if self._column not in kinds.values() and 2 * m <= FOLDED:
            self.together = divisor(n, FOLDED // m)
        self.shape: tuple = (n // self.together, m * self.together)
        if not self.split:
            self.shape = (m,)
        self.views = kinds

    def _kind(self, x: np.ndarray) -> Callable:
        """The function that views the array of a value."""
        x = _core(x, self.form.order)
        if x.shape == self.form.shape:
            return self._rows
        varying = _varying(x)
        if not varying:
            return self._number
        return self._row if varying[0] >= self.split else self._column

    def _rows(self, x: Any) -> Any:
        return _core(x, self.form.order).reshape(self.shape)

    def _row(self, x: Any) -> Any:
        x = _core(x, self.form.order)[(0,) * self.split]
        return filled((self.together, *self.form.shape[self.split :]), x).reshape((1, -1))

    def _column(self, x: Any) -> Any:
        x = _core(x, self.form.order)[(..., *(0,) * (len(self.form.order) - self.split))]
        return filled(self.form.shape[: self.split], x).reshape((-1, 1))

    def _number(self, x: Any) -> Any:
        return _core(x, self.form.order).reshape(())


class Blocks(Calls):
    """The calls of one run as one: `blocks()` makes them all.

    cells  the arrays of values, as in Runner
    inner  the values that only the run reads
    """

    def __init__(self, steps: list[Step], form: Form, trace: Trace, cells: list, inner: set[int]):
        made = [step.outputs[0] for step in steps]
        own = {y: (trace.arrays[y].dtype, False) for y in made if y in inner}
        super().__init__([(s.fn, s.args, y) for s, y in zip(steps, made, strict=True)], own)
        self.cells = cells
        self.idle: list[dict[int, np.ndarray]] = []
        self.matrix = Matrix(form, {value: np.asarray(trace.arrays[value]) for value in self.outer})

    def __call__(self) -> None:
        views, shape = self.matrix.views, self.matrix.shape
        arrays = {value: views[value](np.asarray(self.cells[value])) for value in self.outer}
        with small_buffer() if shape[1:] and shape[1] > BUFFER else nullcontext():
            self.run(arrays, shape, max(1, BLOCK // prod(shape[1:])), self.idle)
