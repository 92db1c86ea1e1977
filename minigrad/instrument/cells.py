"""What the aggregate profile keeps of each op: pending numbers, and their sums."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.dtypes import bfloat16
from .records import CASTS

_WIDE = {np.dtype(name).num for name in ("float64", "complex128")}
_NARROW = {np.dtype(t).num for t in ("float32", "float16", "complex64", bfloat16) if t is not None}
MOST_SITES = 20  # lines kept of an op that promotes


@dataclass(slots=True)
class Row:
    """One op in one phase. Times are its own: what ran inside it is counted in its own row.

    site      file:line of the calls counted here, where lines were asked for
    promoted  the op was seen to make float64 of a narrower float; promoted_at: in these lines
    """

    op: str
    phase: str
    calls: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    bytes: int = 0
    share: float = 0.0
    promoted: bool = False
    site: str = ""
    promoted_at: tuple[str, ...] = ()


class Cell:
    """The numbers of one op (on one line) in one phase: pending ones, and the sums before."""

    __slots__ = ("times", "sizes", "row", "origin", "promotions")

    def __init__(self, op: str, phase: str, origin: tuple | None = None):
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.row = Row(op, phase)
        self.origin = origin  # keeps the code object, whose id is part of the key, alive
        self.promotions: dict[tuple, tuple] = {}  # (id of code, instruction) -> origin

    def fold(self) -> None:
        """Move what is pending into the sums. Others may append meanwhile, behind what is taken."""
        times, sizes, row = self.times[:], self.sizes[:], self.row
        del self.times[: len(times)], self.sizes[: len(sizes)]
        if times:
            low = min(times)
            row.min_ns = min(row.min_ns, low) if row.calls else low
            row.max_ns = max(row.max_ns, max(times))
            row.calls += len(times)
            row.total_ns += sum(times)
        row.bytes += sum(sizes)

    def promotes(self, origin: tuple | None) -> None:
        """Note that a call on this line made float64 of a narrower float."""
        self.row.promoted = True
        if origin is not None and len(self.promotions) < MOST_SITES:
            self.promotions[id(origin[0]), origin[1]] = origin


class Phase:
    """The cells of one phase, by op, and whether its events may lie in or around others."""

    __slots__ = ("cells", "may_nest")

    def __init__(self) -> None:
        self.cells: dict[Any, Cell] = {}
        self.may_nest = False


def promotes(op: str, inputs: tuple, outputs: tuple) -> bool:
    """Whether a call made double precision of an input that is a narrower float."""
    for y in outputs:
        if y is not None and y.dtype.num in _WIDE:
            if op in CASTS:
                return False
            return any(x.dtype.num in _NARROW for x in inputs if hasattr(x, "dtype"))
    return False
