"""Code that writes into arrays (`x -= …`, `np.multiply(a, b, out=c)`) as one kernel.

An optimizer's update is such code. It is recorded on cells, which stand for arrays and hold the
symbol of what is in them now; a float becomes an argument of the kernel, so that a learning rate
that changes at every step needs no other kernel.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator
from ..core.caches import Cache
from . import cuda
from .launch import compiled
from .trace import NotFusible, Program, Symbol


class Cell:
    """An array that is written: `now` is the symbol of its content."""

    __array_priority__ = 1001
    __hash__ = object.__hash__

    def __init__(self, now: Symbol, numbers: list[float]):
        self.now, self.numbers = now, numbers

    @property
    def dtype(self) -> Any:
        return self.now.dtype

    @property
    def shape(self) -> tuple:
        return self.now.shape

    @property
    def size(self) -> int:
        return self.now.size

    def blank(self) -> "Cell":
        """Scratch memory like this."""
        return Cell(self.now, self.numbers)

    def _of(self, x: Any) -> Any:
        """x as what a symbol computes with; a float as an argument of the kernel."""
        if isinstance(x, Cell):
            return x.now
        if isinstance(x, float | np.floating):
            self.numbers.append(float(x))
            return self.now.program.symbol(
                "number", (len(self.numbers) - 1,), self.now.dtype, False
            )
        return x

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> "Cell":
        (out,) = kwargs.pop("out", (None,))
        y = self.now.__array_ufunc__(ufunc, method, *[self._of(x) for x in args], **kwargs)
        return self._into(out, y)

    def _into(self, out: Any, y: Symbol) -> "Cell":
        if out is None:
            return Cell(y, self.numbers)
        out.now = y.astype(out.dtype)
        return out

    def __bool__(self) -> bool:
        raise NotFusible("a branch on a value")

    def __getitem__(self, key: Any) -> Any:
        raise NotFusible("an index")

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not ... and key != ():
            raise NotFusible("an index")
        value = self._of(value)
        filled = value if isinstance(value, Symbol) else self.now * 0 + value  # type: ignore[operator]
        self._into(self, filled)


def _operator(ufunc: Any, reflected: bool = False, in_place: bool = False) -> Callable:
    def method(self: Cell, other: Any) -> Cell:
        args = (other, self) if reflected else (self, other)
        return self.__array_ufunc__(ufunc, "__call__", *args, out=(self if in_place else None,))

    return method


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
}.items():  # fmt: skip
    setattr(Cell, f"__{_name}__", _operator(_ufunc))
    setattr(Cell, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(Cell, f"__i{_name}__", _operator(_ufunc, in_place=True))


class Recorded:
    """What an update does to one element of (x, g, *state arrays), and the numbers it uses now."""

    def __init__(self, update: Callable, dtypes: Sequence[Any], names: Sequence[str], fixed: dict):
        program, self.numbers = Program(), []
        self.inputs = [
            program.symbol("input", (i,), dtype, False) for i, dtype in enumerate(dtypes)
        ]
        cells = []
        for s in self.inputs:
            cells.append(Cell(s.astype(accumulator(s.dtype) or s.dtype), self.numbers))
        starts = [c.now for c in cells]
        update(cells[0], cells[1], {**fixed, **dict(zip(names, cells[2:], strict=True))})
        self.written = [i for i, c in enumerate(cells) if c.now is not starts[i]]
        self.outputs = [cells[i].now.astype(self.inputs[i].dtype) for i in self.written]
        self.key = (
            tuple([(s.op, *[getattr(x, "number", x) for x in s.args], s.dtype)
                   for s in program.symbols]),
            tuple([y.number for y in self.outputs]),
        )  # fmt: skip

        self.width = cuda.lanes([x.dtype for x in self.inputs])
        self.many = cuda.table_length(len(self.inputs))

    def source(self) -> str:
        return cuda.table_source(
            self.inputs, self.outputs, self.written, self.width, len(self.numbers), self.many
        )

    def run(self, xp: Any, found: Sequence[Sequence[Any]]) -> None:
        """Write the arrays of each call found: contiguous, from a multiple of 16 bytes.

        One kernel takes many calls: their addresses and sizes travel as its argument, a table.
        """
        key = (self.key, xp.cuda.runtime.getDevice())
        kernel = _kernels.get_or_make(key, lambda: compiled(xp, self.source()))
        form = np.dtype([
            ("at", "u8", (self.many, len(self.inputs))), ("n", "i8", self.many),
            ("first", "i4", self.many), ("count", "i4"),
        ], align=True)  # fmt: skip
        found = [arrays for arrays in found if arrays[0].size]
        for start in range(0, len(found), self.many):
            calls = found[start : start + self.many]
            table = np.zeros(1, form)
            sizes = np.array([arrays[0].size for arrays in calls])
            blocks = -(-sizes // (cuda.BLOCK * self.width))
            table["at"][0, : len(calls)] = [[a.data.ptr for a in arrays] for arrays in calls]
            table["n"][0, : len(calls)] = sizes
            table["first"][0, : len(calls)] = np.cumsum(blocks) - blocks
            table["count"] = len(calls)
            kernel((int(blocks.sum()),), (cuda.BLOCK,), (table, *self.numbers))


_kernels = Cache("kernels of updates", max_entries=256)  # by what a program does
