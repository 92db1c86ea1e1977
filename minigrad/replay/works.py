"""The work of a step on one element or one row, as symbols, which fusing.py merges."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..backends.device import is_contiguous
from ..expressions.blocks import Ref
from ..expressions.trace import ROW_FUNCTIONS, NotFusible, Program, Symbol, on_symbols, reached
from ..fusion import launch
from ..tape.trace import Step, Trace, flat, mapped


class Work:
    """The work of a step on one element or one row of its arrays, reshaped to a matrix.

    reads     the values that it takes, in the order of its inputs
    makes     (value, its symbol) for each result
    symbols   the symbols that the results need, in order
    full      the broadcast shape of the arrays; `own` has the shape of each
    matrix    (rows, length of a row); `lines` has the shape of each array in the matrix. None where
              an array is broadcast over only some of the axes before the last
    """

    def __init__(self, fn: Callable, reads: dict[int, tuple], makes: list[int], trace: Trace):
        """reads: value -> the shape in which fn takes it"""
        self.reads, self.own = list(reads), reads
        self.full = np.broadcast_shapes(*reads.values())
        self.lines = {value: _in_matrix(own, self.full) for value, own in reads.items()}
        self.matrix = None
        if len(self.full) > 1 and None not in self.lines.values():
            self.matrix = prod(self.full[:-1]), self.full[-1]
        program = Program(self.full, is_real=True)
        given = []
        for i, (value, own) in enumerate(reads.items()):
            of_row = own[-1:] == (1,) != self.full[-1:]
            given.append(program.symbol("input", (i,), trace.arrays[value].dtype, of_row))
            given[-1].shape = own
        ys = on_symbols(fn, *given)
        ys = list(ys) if isinstance(ys, list | tuple) else [ys]
        if not all(isinstance(y, Symbol) for y in ys) or len(ys) != len(makes):
            raise NotFusible("a result is no symbol")
        self.makes = list(zip(makes, ys, strict=True))
        needed = reached(ys)
        self.symbols = [s for s in program.symbols if s.number in needed]

    def fits(self, trace: Trace) -> bool:
        """Whether the results match the step's: the same sizes and dtypes, in contiguous memory."""
        line = (*self.full[:-1], 1)
        return all(
            y.op != "constant"
            and y.shape in (self.full, line)
            and y.dtype == trace.arrays[value].dtype
            and trace.arrays[value].size == prod(y.shape)
            and (is_contiguous(trace.arrays[value]) or not any(trace.arrays[value].strides))
            for value, y in self.makes
        )

    def again(self, known: dict[int, Symbol], program: Program) -> None:
        """Record the work in another program; `known` has the symbols of its inputs there."""
        made: dict[int, Symbol] = {}
        for s in self.symbols:
            args: list[Any] = [made[x.number] if isinstance(x, Symbol) else x for x in s.args]
            if s.op == "input":
                made[s.number] = known[self.reads[args[0]]]
            elif s.op in ROW_FUNCTIONS:  # also of a value that all elements of a row share
                made[s.number] = getattr(args[0], s.op)(axis=-1, keepdims=True)
            else:
                of_row = s.op != "place" and all(x.is_row for x in args if isinstance(x, Symbol))
                made[s.number] = program.symbol(s.op, tuple(args), s.dtype, of_row)
        known.update([(value, made[y.number]) for value, y in self.makes])


def _in_matrix(own: tuple, shape: tuple) -> tuple | None:
    """The shape in the matrix of an array of shape `own` that broadcasts to `shape`, or None."""
    own = (1,) * (len(shape) - len(own)) + own
    rows = prod(own[:-1])
    if own[-1] not in (1, shape[-1]) or rows != 1 and own[:-1] != shape[:-1]:
        return None
    return rows, own[-1]


def work_of(step: Step, trace: Trace) -> Work | None:
    """The work of a step on an element or a row; None if it does anything else.

    The step runs once more on its arrays, while its launches are recorded.
    """
    if step.kind == "view" or step.draws or not step.reads():
        return None
    arrays, read = trace.arrays, [trace.arrays[value] for value in step.reads()]
    if isinstance(read[0], np.ndarray) and not launch.host:
        return None
    try:
        if step.kind == "ufunc":
            reads = {x.value: arrays[x.value].shape for x in step.args if type(x) is Ref}
            return _checked(Work(_with_numbers(step), reads, step.outputs, trace), trace)
        seen, ys = _watched(step, trace)
        (fn, taken, given) = seen
        places = [_value_of(x, step.reads(), arrays) for x in taken]
        reads = {value: x.shape for value, x in zip(places, taken, strict=True)}
        if any(reads[value] != x.shape for value, x in zip(places, taken, strict=True)):
            return None  # one value in two forms
        if len(reads) < len(places):  # x · x
            fn = _each_once(fn, places)
        left, makes = list(zip(ys, step.outputs, strict=True)), []
        for g in given:
            makes.append(left.pop(next(k for k, (y, _) in enumerate(left) if same_memory(y, g)))[1])
        if any(value is not None for _, value in left):
            return None
        return _checked(Work(fn, reads, makes, trace), trace)
    except (NotFusible, LookupError, StopIteration, TypeError, ValueError):
        return None


def _checked(work: Work, trace: Trace) -> Work | None:
    return work if work.makes and prod(work.full) and work.fits(trace) else None


def _with_numbers(step: Step) -> Callable:
    """A step of a ufunc as a function of its arrays, with its number arguments fixed."""
    values = list(dict.fromkeys(step.reads()))

    def function(*symbols: Symbol) -> Any:
        known = dict(zip(values, symbols, strict=True))
        return step.fn(*[known[x.value] if type(x) is Ref else x for x in step.args])

    return function


def _each_once(fn: Callable, places: list[int]) -> Callable:
    """fn as a function of each of its values once, in the order of first use."""

    def function(*symbols: Symbol) -> Any:
        known = dict(zip(dict.fromkeys(places), symbols, strict=True))
        return fn(*[known[value] for value in places])

    return function


def _watched(step: Step, trace: Trace) -> tuple[tuple, list]:
    """((function, arrays, results) of the one kernel that a step launches, the step's results).

    Raises NotFusible if it launches none or several.
    """
    args, named = mapped((step.args, step.kwargs), Ref, lambda ref: trace.arrays[ref.value])
    with launch.watching() as seen, np.errstate(all="ignore"):
        ys = list(flat(step.fn(*args, **named)))
    if len(seen) != 1:
        raise NotFusible(f"{len(seen)} launches")
    return seen[0], ys


def _value_of(x: Any, values: list[int], arrays: list) -> int:
    """The value whose array is x, or has exactly x's memory; KeyError if there is none."""
    for value in values:
        if arrays[value] is x:
            return value
    for value in values:
        if same_memory(arrays[value], x):
            return value
    raise KeyError("the step made this array itself")


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays are contiguous and have the same memory, dtype and size."""
    if a is b:
        return True
    if a is None or a.size != b.size or a.dtype != b.dtype:
        return False
    if not (is_contiguous(a) and is_contiguous(b)):
        return False
    return _address(a) == _address(b)


def _address(x: Any) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.data.ptr
