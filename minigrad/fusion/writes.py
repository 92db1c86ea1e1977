"""Code that writes into arrays (`x -= …`, `np.multiply(a, b, out=c)`) as one kernel.

An optimizer's update is such code. It is run on cells, which represent arrays and only note its
steps. A float is noted separately and becomes an argument of the kernel: a learning rate that
changes at every step needs no other kernel. The steps identify the program: a known one has its
kernel, a new one is replayed on symbols (expressions/trace.py) and compiled.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.caches import Cache
from ..backends.dtypes import accumulator
from ..expressions import cuda
from ..expressions.trace import NotFusible, Program, Symbol
from .launch import compiled

# A step names an argument: a value by its number, an integer with its type, a float by this.
_FLOAT = "float"


class Steps:
    """The steps of an update, in order, and the floats that it uses now.

    done      (ufunc's name, value, value or None, arguments): the ufunc of the arguments; its
    floats
              have the dtype of the first value, and its result the dtype of the second, if given
    numbers   the floats, in the order in which the steps read them
    """

    __slots__ = ("done", "numbers", "given")

    def __init__(self, given: int):
        self.done: list[tuple] = []
        self.numbers: list[float] = []
        self.given = given  # values 0, 1, … are the given arrays, the next ones the results

    def note(self, name: str, home: int, into: int | None, args: Sequence[Any]) -> int:
        """The number of the value that this step makes."""
        read = []
        for x in args:
            if isinstance(x, Cell):
                read.append(x.now)
            elif isinstance(x, float | np.floating):
                self.numbers.append(float(x))
                read.append(_FLOAT)
            elif isinstance(x, int):  # True and False as well
                read.append((type(x), x))
            else:
                raise NotFusible(f"a {type(x).__name__} among the arguments of an update")
        self.done.append((name, home, into, tuple(read)))
        return self.given + len(self.done) - 1


class Cell:
    """An array that is written: `now` is the number of the value in it."""

    __slots__ = ("now", "steps", "dtype")
    __array_priority__ = 1001
    __hash__ = object.__hash__
    shape, size = (2, 3), 6  # arbitrary: an update works on one element

    def __init__(self, now: int, steps: Steps, dtype: Any):
        self.now, self.steps, self.dtype = now, steps, dtype

    def blank(self) -> "Cell":
        """Scratch memory like this."""
        return Cell(self.now, self.steps, self.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> "Cell":
        (out,) = kwargs.pop("out", (None,))
        if method != "__call__" or kwargs:
            raise NotFusible(f"np.{ufunc.__name__} with {method} and {sorted(kwargs)}")
        return self._do(ufunc.__name__, out, args)

    def _do(self, name: str, out: Any, args: Sequence[Any]) -> "Cell":
        now = self.steps.note(name, self.now, None if out is None else out.now, args)
        if out is None:
            return Cell(now, self.steps, self.dtype)
        out.now = now
        return out

    def __bool__(self) -> bool:
        raise NotFusible("a branch on a value")

    def __getitem__(self, key: Any) -> Any:
        raise NotFusible("an index")

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not ... and key != ():
            raise NotFusible("an index")
        self._do("fill", self, (value,))


def _operator(ufunc: Any, reflected: bool = False, in_place: bool = False) -> Callable:
    name = ufunc.__name__

    def method(self: Cell, other: Any) -> Cell:
        args = (other, self) if reflected else (self, other)
        return self._do(name, self if in_place else None, args)

    return method


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
}.items():  # fmt: skip
    setattr(Cell, f"__{_name}__", _operator(_ufunc))
    setattr(Cell, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(Cell, f"__i{_name}__", _operator(_ufunc, in_place=True))


def recorded(
    update: Callable, dtypes: tuple, names: Sequence[str], fixed: dict
) -> tuple["Recorded", list[float]] | NotFusible:
    """(the kernel of an update on (x, g, *state arrays), the floats that it uses now).

    names, fixed   the state's arrays and its numbers
    """
    steps = Steps(len(dtypes))
    cells = [Cell(i, steps, accumulator(dtype) or dtype) for i, dtype in enumerate(dtypes)]
    try:
        update(cells[0], cells[1], {**fixed, **dict(zip(names, cells[2:], strict=True))})
    except Exception as reason:  # a norm of the parameter, for example: it runs unfused
        return NotFusible(str(reason))
    ends = tuple([cell.now for cell in cells])
    key = (dtypes, tuple(steps.done), ends)
    found = _programs.get(key)
    if found is None:
        try:
            found = Recorded(dtypes, steps.done, ends, len(steps.numbers))
        except Exception as reason:
            found = NotFusible(str(reason))
        _programs.put(key, found)
    return found if isinstance(found, NotFusible) else (found, steps.numbers)


_programs = Cache("updates", max_entries=256)


class Recorded:
    """The program of such steps, with a kernel for each device that it has run on.

    ends   for each array, the number of its value after the last step
    """

    def __init__(self, dtypes: Sequence[Any], steps: Sequence[tuple], ends: tuple, numbers: int):
        program, self.numbers = Program(), numbers
        self.inputs = [
            program.symbol("input", (i,), dtype, False) for i, dtype in enumerate(dtypes)
        ]
        values = [s.astype(accumulator(s.dtype) or s.dtype) for s in self.inputs]
        read = iter(range(numbers))
        for step in steps:
            values.append(_replayed(program, step, values, read))
        self.written = [i for i, end in enumerate(ends) if end != i]
        self.outputs = [values[ends[i]].astype(dtypes[i]) for i in self.written]
        self.width = cuda.lanes([x.dtype for x in self.inputs])
        self.many = cuda.table_length(len(self.inputs), numbers)
        self.form = np.dtype([
            ("at", "u8", (self.many, len(self.inputs))), ("n", "i8", self.many),
            ("a", "f8", max(numbers, 1)), ("first", "i4", self.many), ("count", "i4"),
        ], align=True)  # fmt: skip
        self.kernels: dict[int, Any] = {}

    def source(self) -> str:
        return cuda.table_source(
            self.inputs, self.outputs, self.written, self.width, self.numbers, self.many
        )

    def run(self, xp: Any, numbers: list[float], calls: Sequence[tuple[list[int], int]]) -> None:
        """Write the arrays of each call (addresses, elements): contiguous, from 16-byte multiples.

        One kernel takes many calls: they travel as its one argument, a table, with the numbers.
        """
        device = xp.cuda.runtime.getDevice()
        kernel = self.kernels.get(device)
        if kernel is None:
            kernel = self.kernels[device] = compiled(xp, self.source())
        for start in range(0, len(calls), self.many):
            part = calls[start : start + self.many]
            count, table = len(part), np.zeros(1, self.form)
            sizes = np.array([n for _, n in part])
            blocks = -(-sizes // (cuda.BLOCK * self.width))
            ends = np.cumsum(blocks)
            table["at"][0, :count] = [places for places, _ in part]
            table["n"][0, :count] = sizes
            table["first"][0, :count] = ends - blocks
            table["a"][0, : self.numbers] = numbers
            table["count"] = count
            kernel((int(ends[-1]),), (cuda.BLOCK,), (table,))


def _replayed(program: Program, step: tuple, values: list[Symbol], read: Any) -> Symbol:
    """The symbol that one of the noted steps makes."""
    name, home, into, args = step
    kind = values[home].dtype
    given: list[Any] = [
        program.symbol("number", (next(read),), kind, False) if x is _FLOAT
        else x[1] if isinstance(x, tuple) else values[x]
        for x in args
    ]  # fmt: skip
    if name == "fill":
        (value,) = given
        y: Any = value if isinstance(value, Symbol) else values[home] * 0 + value  # type: ignore[operator]
    else:
        first = next(x for x in given if isinstance(x, Symbol))
        y = first.__array_ufunc__(getattr(np, name), "__call__", *given)
    return y if into is None else y.astype(values[into].dtype)
