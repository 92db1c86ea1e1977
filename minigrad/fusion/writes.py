"""Code that writes into arrays (`x -= …`, `np.multiply(a, b, out=c)`) as one kernel.

An optimizer's update is such code. It is recorded on cells, which stand for arrays and hold the
symbol of what is in them now; a float becomes an argument of the kernel, so that a learning rate
that changes at every step needs no other kernel.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator
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

    def source(self) -> str:
        width = cuda.lanes([x.dtype for x in self.inputs])
        kinds = ["full"] * len(self.inputs)
        return cuda.elementwise_source(
            self.inputs, self.outputs, kinds, width, numbers=len(self.numbers), aliased=True
        )

    def ready(self, xp: Any) -> None:
        """Find or compile the kernel; NotFusible where there can be none."""
        key = (self.key, xp.cuda.runtime.getDevice())
        if key not in _kernels:
            if len(_kernels) == _MOST:
                _kernels.clear()
            _kernels[key] = compiled(xp, self.source())
        self.kernel = _kernels[key]
        self.span = cuda.BLOCK * cuda.lanes([x.dtype for x in self.inputs])

    def run(self, arrays: Sequence[Any]) -> None:
        """Write the arrays, which are contiguous and start at a multiple of 16 bytes."""
        n = arrays[0].size
        if n:
            targets = [arrays[i] for i in self.written]
            arguments = (*arrays, *targets, n, *self.numbers)
            self.kernel((-(-n // self.span),), (cuda.BLOCK,), arguments)


_kernels: dict[tuple, Any] = {}  # by what a program does: its source need not be written again
_MOST = 256
