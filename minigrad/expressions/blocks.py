"""NumPy calls on blocks that stay in cache, on all cores; and a recorded program as such calls.

Each call writes into the memory of one block (`out=`), which is used again as soon as its value is
no longer needed. A chain of twenty calls then touches main memory only for its arguments and
results.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.cuts import spans
from ..backends.dtypes import accumulator
from ..backends.pool import share
from .dtypes import ufunc_of
from .passes import operands
from .trace import NotFusible, Symbol, reached

BLOCK = 1 << 14  # elements; in float32 six such buffers fit a core's second-level cache


class Ref:
    """A placeholder for the value of this name among the arguments of a call."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class Calls:
    """NumPy calls, all of them on one block, then on the next.

    calls   (function, its arguments, its result); an argument is a Ref or a number; a result that
            exists already is overwritten
    inner   the values that only these calls read: dtype, and whether it is one number for each row

    Each value and number has a slot: an array seen as rows, a number, or the memory of one block,
    which holds several values one after the other.
    """

    def __init__(self, calls: Sequence[tuple], inner: Mapping[Hashable, tuple[Any, bool]]):
        self.slots: list[Any] = []  # numbers, and None for arrays
        self.outer: dict[Any, int] = {}  # the slot of each value that is not inner
        self.blocks: dict[int, tuple[Any, bool]] = {}  # the form of each slot for a block
        self.calls: list[tuple[Callable, list[int], int]] = []  # (function, slots read, slot)
        reads = [[x.value for x in args if type(x) is Ref] for _, args, _ in calls]
        last = {value: k for k, values in enumerate(reads) for value in values}
        held: dict[Any, int] = {}  # the slot of each inner value with later reads
        for k, (function, args, y) in enumerate(calls):
            read = [self._slot(x, held) for x in args]
            # in place only where a call asks for it: some NumPy loops round differently in place
            if y in inner and y not in held:
                held[y] = self._block(inner[y], set(held.values()))
            self.calls.append((function, read, self._slot(Ref(y), held)))
            for value in reads[k]:
                if last[value] == k:
                    held.pop(value, None)

    def _slot(self, x: Any, held: dict) -> int:
        if type(x) is not Ref:
            self.slots.append(x)
            return len(self.slots) - 1
        if x.value in held:
            return held[x.value]
        if x.value not in self.outer:
            self.outer[x.value] = len(self.slots)
            self.slots.append(None)
        return self.outer[x.value]

    def _block(self, form: tuple, taken: set[int]) -> int:
        """A free slot for a block of this form."""
        for slot, own in self.blocks.items():
            if own == form and slot not in taken:
                return slot
        self.slots.append(None)
        self.blocks[len(self.slots) - 1] = form
        return len(self.slots) - 1

    def run(self, arrays: Mapping, shape: tuple, step: int, idle: list) -> None:
        """Make the calls on `step` rows at a time of arrays seen as `shape`, rows first.

        arrays   the outer values: of that shape, or of length 1 along an axis, or one number
        idle     memory for blocks of this step and shape, of threads that do not run now
        """
        slots, (n, *row) = self.slots.copy(), shape
        for value, slot in self.outer.items():
            slots[slot] = arrays[value]
        cut = {k for k, x in enumerate(slots) if isinstance(x, np.ndarray) and x.shape[:1] == (n,)}

        def work(piece: slice) -> None:
            try:
                own = idle.pop()
            except IndexError:
                full, line = (step, *row), (step, *[1] * len(row))
                own = {k: np.empty(line if a else full, dt) for k, (dt, a) in self.blocks.items()}
            here = [x[piece] if k in cut else x for k, x in enumerate(slots)]
            for slot, block in own.items():
                here[slot] = block[: piece.stop - piece.start]
            for function, read, target in self.calls:
                function(*[here[slot] for slot in read], out=here[target])
            idle.append(own)

        share(work, spans(n, step))


# -- a recorded program ----------------------------------------------------------------------------


def _wide(dtype: Any) -> np.dtype:
    """The dtype for computing a value: float32 for 16-bit floats."""
    return np.dtype(accumulator(dtype) or dtype)


def _copy(x: Any, out: np.ndarray) -> None:
    np.copyto(out, x, casting="unsafe")


def _where(condition: Any, a: Any, b: Any, out: np.ndarray) -> None:
    np.copyto(out, b)
    np.copyto(out, a, where=condition)


def _over_row(function: Callable) -> Callable:
    def fold(x: Any, out: np.ndarray) -> None:
        out[...] = function(x, axis=-1, keepdims=True)  # x may be one row, shared by all rows

    return fold


_FUNCTIONS: dict[str, Callable] = {
    "cast": _copy, "where": _where,
    "sum": _over_row(np.sum), "max": _over_row(np.max), "min": _over_row(np.min),
}  # fmt: skip


class Program(Calls):
    """A recorded program for arrays of these `kinds` (see fuse._block_kind)."""

    def __init__(self, inputs: Sequence[Symbol], outputs: Sequence[Symbol], kinds: Sequence):
        if None in kinds:
            raise NotFusible("an array that is broadcast over axes between its own")
        self.outputs, self.kinds = outputs, kinds
        needed, calls, inner = reached(outputs), [], {}
        symbols = [s for s in inputs[0].program.symbols if s.number in needed]
        given: dict[int, Any] = {}  # symbol -> the argument of calls for it
        for s in symbols:
            n, wide = s.number, _wide(s.dtype)
            args = [given[x.number] for x in operands(s)]
            given[n] = s.args[0] if s.op == "constant" else Ref(n)
            if s.op == "input" and s.dtype != wide and kinds[n] in ("full", "line"):
                given[n] = Ref(("wide", n))
                calls.append((_copy, [Ref(n)], ("wide", n)))
                inner["wide", n] = wide, kinds[n] == "line"
            elif s.op not in ("input", "constant", "length"):
                calls.append((_FUNCTIONS.get(s.op) or ufunc_of(s.op), args, n))
                inner[n] = wide, s.is_row
        self.made: list[Any] = []  # the value of each result
        for i, y in enumerate(outputs):
            if y.number in inner and inner[y.number][0] == y.dtype:
                self.made.append(y.number)
                del inner[y.number]
            else:
                self.made.append(("result", i))
                calls.append((_copy, [given[y.number]], ("result", i)))
        self.lengths = [s for s in symbols if s.op == "length"]
        self.by_rows = any(s.is_row for s in symbols if s.op != "constant")
        self.by_rows |= any(kind in ("row", "line") for kind in kinds)
        super().__init__(calls, inner)

    def __call__(self, arrays: Sequence[np.ndarray], shape: tuple) -> list:
        """The results, for arrays of this common shape."""
        line, size = (*shape[:-1], 1), prod(shape)
        lines = [y.is_row and y.op != "constant" for y in self.outputs]
        ys = [np.empty(line if a else shape, y.dtype) for a, y in zip(lines, self.outputs)]
        if not size:
            return ys
        length = shape[-1] if shape else 1
        seen = (size // length, length) if self.by_rows else (size,)
        rows = (seen[0], -1) if self.by_rows else (-1,)
        known: dict[Any, Any] = {s.number: np.asarray(length, s.dtype) for s in self.lengths}
        known |= {i: _seen(x, kind, rows) for i, (x, kind) in enumerate(zip(arrays, self.kinds))}
        known |= {name: y.reshape(rows) for name, y in zip(self.made, ys)}
        with np.errstate(all="ignore"):
            self.run(known, seen, max(1, BLOCK // prod(seen[1:])), [])
        return ys


def _seen(x: np.ndarray, kind: Any, rows: tuple) -> np.ndarray:
    """An argument as rows; values that all blocks share are widened here."""
    if kind in ("one", "row"):
        return x.reshape(() if kind == "one" else (1, -1)).astype(_wide(x.dtype), copy=False)
    return x.reshape(rows)
