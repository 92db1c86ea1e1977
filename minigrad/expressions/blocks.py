"""A recorded program on the host: NumPy's functions on blocks that stay in cache, on all cores.

Each step writes into a buffer of one block (`out=`); buffers are used again as soon as their value
is no longer needed, so a chain of twenty steps touches main memory only for its inputs and results.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends import pool
from ..backends.dtypes import accumulator
from .dtypes import ufunc_of
from .trace import ROW_FUNCTIONS, Symbol, reached

BLOCK = 1 << 14  # elements; in float32 six buffers of it fit a core's second cache


def _wide(dtype: Any) -> np.dtype:
    """The dtype in which a value is computed: float32 for 16-bit floats."""
    return np.dtype(accumulator(dtype) or dtype)


def _operands(symbol: Symbol) -> list[Symbol]:
    return [x for x in symbol.args if isinstance(x, Symbol)]


class Blocks:
    """A program made ready: for each step the function, where it reads and where it writes."""

    def __init__(self, inputs: Sequence[Symbol], outputs: Sequence[Symbol]):
        self.outputs = list(outputs)
        self.steps: list[tuple] = []
        self.slots: list[tuple[np.dtype, bool]] = []  # buffers: dtype, and whether one value a row
        self.place: dict[int, Any] = {}  # symbol -> ("input", i), ("slot", k) or ("constant", v)
        needed = reached(outputs)
        symbols = [s for s in inputs[0].program.symbols if s.number in needed]
        last_read = {x.number: at for at, s in enumerate(symbols) for x in _operands(s)}
        kept = {y.number for y in outputs}
        free: list[int] = []
        for at, s in enumerate(symbols):
            if s.op in ("input", "constant"):
                self.place[s.number] = (s.op, s.args[0])
                continue
            reads = [self.place[x.number] for x in _operands(s)]
            over = [x.number for x in _operands(s) if last_read[x.number] == at]
            places = [self.place[number] for number in over if number not in kept]
            ending = [*dict.fromkeys(k for kind, k in places if kind == "slot")]
            slot = self._slot_for(s, ending, free)
            self.place[s.number] = ("slot", slot)
            self.steps.append((s.op, reads, slot))
            free += [k for k in ending if k != slot]

    def _slot_for(self, s: Symbol, ending: list[int], free: list[int]) -> int:
        """Where a step writes: over what it reads for the last time, into a free buffer, or anew.

        NumPy's functions of one element may write where they read; those of a row, and where, whose
        last operand is written first, may not.
        """
        want = (_wide(s.dtype), s.is_row)
        in_place = s.op not in ROW_FUNCTIONS and s.op != "where"
        slot = next((k for k in (*ending * in_place, *free) if self.slots[k] == want), None)
        if slot is None:
            self.slots.append(want)
            return len(self.slots) - 1
        if slot in free:
            free.remove(slot)
        return slot

    def __call__(self, arrays: Sequence[np.ndarray], kinds: Sequence[str], shape: tuple) -> list:
        """The outputs, for arrays read as `kinds` says (see fuse._block_kind)."""
        by_rows = any(k in ("row", "line") for k in kinds) or any(
            is_row for _, is_row in self.slots
        )
        length = shape[-1] if shape else 1
        ys = [
            np.empty((*shape[:-1], 1) if y.is_row and y.op != "constant" else shape, y.dtype)
            for y in self.outputs
        ]
        n = int(np.prod(shape, dtype=np.int64))
        if not n:
            return ys
        rows, width = (n // length, length) if by_rows else (n, 1)
        views = [self._view(x, kind, by_rows, rows) for x, kind in zip(arrays, kinds, strict=True)]
        targets = [y.reshape(rows, -1) if by_rows else y.reshape(-1) for y in ys]
        step = max(1, BLOCK // width)
        spans = [slice(i, min(i + step, rows)) for i in range(0, rows, step)]
        work = partial(self._block, views, targets, length, by_rows)
        if len(spans) > 3:
            pool.share(work, spans)
        else:
            for span in spans:
                work(span)
        return ys

    @staticmethod
    def _view(x: np.ndarray, kind: str, by_rows: bool, rows: int) -> tuple[str, Any]:
        if kind == "one":
            return "all", x.reshape(())
        if kind == "row":
            return "all", x.reshape(-1)
        if not by_rows:
            return "part", x.reshape(-1)
        return "part", x.reshape(rows, -1)

    def _block(self, views: list, targets: list, length: int, by_rows: bool, span: slice) -> None:
        """The program on one block of rows (of elements, where no row matters)."""
        inputs = []
        for kind, x in views:
            x = x[span] if kind == "part" else x
            wide = _wide(x.dtype)
            inputs.append(x if x.dtype == wide else x.astype(wide))
        count = span.stop - span.start
        full = (count, length) if by_rows else (count,)
        line = (count, 1) if by_rows else (count,)
        buffers = [np.empty(line if is_row else full, dtype) for dtype, is_row in self.slots]

        def value(place: tuple) -> Any:
            kind, at = place
            return inputs[at] if kind == "input" else buffers[at] if kind == "slot" else at

        with np.errstate(all="ignore"):
            for op, reads, slot in self.steps:
                _run(op, [value(place) for place in reads], buffers[slot], length)
            for y, target in zip(self.outputs, targets, strict=True):
                np.copyto(target[span], value(self.place[y.number]), casting="unsafe")


_OF_ROWS = {"sum": np.sum, "max": np.max, "min": np.min}


def _run(op: str, xs: list, out: np.ndarray, length: int) -> None:
    """One step on one block."""
    if op == "where":
        np.copyto(out, xs[2])
        np.copyto(out, xs[1], where=xs[0])
    elif op == "cast":
        np.copyto(out, xs[0], casting="unsafe")
    elif op == "length":
        out[...] = length
    elif op in _OF_ROWS and xs[0].ndim < out.ndim:  # one row that all rows share
        out[...] = _OF_ROWS[op](xs[0], axis=-1, keepdims=True)
    elif op in _OF_ROWS:
        _OF_ROWS[op](xs[0], axis=-1, keepdims=True, out=out)
    else:
        ufunc_of(op)(*xs, out=out)
