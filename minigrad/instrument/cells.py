"""The aggregate profile's record of each op: pending numbers, their sums, and their counters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..backends.dtypes import WITHOUT_DTYPE, bfloat16
from ..backends.sites import calling_frame
from ..engine import modes
from ..engine.events import capture_origin
from ..engine.plan import Plan
from ..tensor_api.tensor import Tensor
from .records import CASTS

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
_WIDE = {np.dtype(name).num for name in ("float64", "complex128")}
_NARROW = {np.dtype(t).num for t in ("float32", "float16", "complex64", bfloat16) if t is not None}
REPLAY, IN_GRAPH = "replay", "in a graph"  # phases of the calls of mg.compile
BATCH = 4096  # numbers kept per op before they are summed
_MOST_CELLS = 100_000  # separate lines; further ones are counted under their op
_MOST_SITES = 20  # lines kept of an op that promotes


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

    __slots__ = ("times", "sizes", "row", "dtype", "plan", "origin", "promotions")

    def __init__(self, op: str, phase: str, dtype: Any = None, origin: tuple | None = None):
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.row = Row(op, phase)
        self.dtype = dtype  # of the first call's result
        self.plan: Any = None  # of the latest call that was heard whole; see _tell_brief
        self.origin = origin  # keeps the code object, whose id is part of the key, alive
        self.promotions: dict[tuple, tuple] = {}  # (id of code, instruction) -> origin

    def fold(self) -> None:
        """Move what is pending into the sums. Other threads may append at the same time, behind the
        part taken."""
        times, sizes, row = self.times[:], self.sizes[:], self.row
        del self.times[: len(times)], self.sizes[: len(sizes)]
        if times:
            taken = np.fromiter(times, np.int64, len(times))
            low = int(taken.min())
            row.min_ns = min(row.min_ns, low) if row.calls else low
            row.max_ns = max(row.max_ns, int(taken.max()))
            row.calls += len(times)
            row.total_ns += int(taken.sum())
        row.bytes += sum(sizes)


Briefs = dict[Plan, tuple[Cell, int | None]]


class Phase:
    """The cells of one phase.

    cells     by op; with separate lines by (op, *site)
    may_nest  whether its events may lie in or around others
    room      how many numbers of a cell may wait as the short form is heard: none while they nest
    briefs    by the plan of a call, whose short form is enough: its cell, and which parent is the
              last, None where its inputs have to be looked at
    lines     by site: what its nodes have as their origin, and its briefs
    """

    __slots__ = ("cells", "may_nest", "room", "briefs", "lines", "lock")

    def __init__(self, lock: Any) -> None:
        self.cells: dict[Any, Cell] = {}
        self.set_nesting(False)
        self.briefs: Briefs = {}
        self.lines: dict[tuple, tuple[tuple, Briefs]] = {}
        self.lock = lock

    def set_nesting(self, may_nest: bool) -> None:
        """Say whether events may nest from now on."""
        self.may_nest, self.room = may_nest, 0 if may_nest else BATCH - 1

    def clear(self) -> None:
        """Forget all; under the lock: no brief then has a forgotten cell."""
        for found in (self.cells, self.briefs, self.lines):
            found.clear()


def counter(
    forward: Phase, backward: Phase, own_time: Callable, fold: Callable, lines: bool
) -> Callable[[tuple], None]:
    """The listener of a profile, a function of one event: names bound here cost little.

    Every call is looked at for a promotion, by what costs least: a result of float32, or of the
    dtype of all inputs, is none.
    """
    forward_cells, backward_cells, state = forward.cells, backward.cells, modes.state

    def hear(event: tuple) -> None:
        kind, key, t0, t1, node, inputs, outputs, _ = event
        if lines:
            if node is not None and (origin := node.origin) is not None:
                key = key, id(origin[0]), origin[1], origin[2]
            elif kind == "forward":  # no look-up so far
                frame = calling_frame(4)  # below it: this, the op's call, and what called that
                key = key, id(frame.f_code), frame.f_lasti, state.scope
        if kind == "forward":
            try:
                cell = forward_cells[key]
            except KeyError:
                cell = _new_cell(forward, event, key)
            if lines and node is not None:
                node.origin = cell.origin  # one for all nodes of a line
            times = cell.times
            times.append(t1 - t0 if not forward.may_nest else own_time(kind, t0, t1 - t0))
            if len(outputs) != 1:
                for y in outputs:
                    cell.sizes.append(y.nbytes)
                _look(cell, event)
            else:
                y = outputs[0]
                cell.sizes.append(y.nbytes)
                dtype = y.dtype
                if dtype is not FLOAT32 and not all_are(inputs, dtype):
                    _look(cell, event)
                if node is not None and node.plan is not cell.plan:
                    _tell_brief(forward, cell, key, node)
        else:
            try:
                cell = backward_cells[key]
            except KeyError:
                cell = _new_cell(backward, event, key)
            times = cell.times
            times.append(t1 - t0 if not backward.may_nest else own_time(kind, t0, t1 - t0))
            dtype = FLOAT64 if node is None else node.dtype
            if dtype is FLOAT64:
                for y in outputs:
                    if y is not None:
                        cell.sizes.append(y.nbytes)
            else:
                for y in outputs:
                    if y is not None:
                        cell.sizes.append(y.nbytes)
                        if y.dtype is not dtype:
                            _look(cell, event)
        if len(times) >= BATCH:
            fold(cell)

    return hear


def brief_counter(forward: Phase, lines: bool) -> Callable[[Any, Any, int, int], bool]:
    """The same for the short form of a call (engine/events.py): whether that was enough.

    It is, once a call of this plan has been heard whole, where the dtypes of the node's parents
    tell that it promotes nothing.
    """
    of_all, sites, state = forward.briefs, forward.lines, modes.state

    def count(node: Any, y: Any, t0: int, t1: int) -> bool:
        briefs = of_all
        try:
            if lines:
                frame = calling_frame(4)  # below it: this, the op's call, and what called that
                node.origin, briefs = sites[id(frame.f_code), frame.f_lasti, state.scope]
            cell, last = briefs[node.plan]
        except KeyError:
            return False
        dtype = node.dtype
        if dtype is not FLOAT32:
            if last is None:
                return False
            parents = node.parents
            if parents[0].dtype is not dtype or parents[last].dtype is not dtype:
                return False
        times = cell.times
        if len(times) >= forward.room:  # `counter` forms sums, and knows what to do inside others
            return False
        times.append(t1 - t0)
        cell.sizes.append(y.nbytes)
        return True

    return count


def _tell_brief(forward: Phase, cell: Cell, key: Any, node: Any) -> None:
    """Let the short form be enough of further calls like this one, which has one result.

    Not those of mg.Function: each has another plan, which holds its arrays.
    """
    if not isinstance(node.plan, Plan):
        return
    count = len(node.parents)
    with forward.lock:
        if forward.cells.get(key) is not cell:
            return  # forgotten since, or counted under its op
        briefs = forward.briefs
        if cell.origin is not None:
            briefs = forward.lines.setdefault(key[1:], (cell.origin, {}))[1]
        briefs[node.plan] = cell, count - 1 if count == node.op.arity < 3 else None
        cell.plan = node.plan


def _new_cell(phase: Phase, event: tuple, key: Any) -> Cell:
    kind, op = event[:2]
    origin = None
    if isinstance(key, tuple):
        origin = origin_of(event)
    if len(phase.cells) >= _MOST_CELLS:
        key, origin = op, None
    dtype = getattr(event[6][0], "dtype", None) if event[6] else None
    return phase.cells.setdefault(key, Cell(op, kind, dtype, origin))


def _look(cell: Cell, event: tuple) -> None:
    """Note where the event's call has made double precision of a narrower float, if it has."""
    if promotes(cell.row.op, event[5], event[6]):
        cell.row.promoted = True
        if len(cell.promotions) < _MOST_SITES and (origin := cell.origin or origin_of(event)):
            cell.promotions[id(origin[0]), origin[1]] = origin


def origin_of(event: tuple) -> tuple | None:
    """Where the event's op was called, if that is known; called from a listener."""
    node = event[4]
    if node is not None and node.origin is not None:
        return node.origin
    return capture_origin(3) if event[0] == "forward" else None


def all_are(inputs: tuple, dtype: np.dtype) -> bool:
    """Whether all inputs that are no Python numbers have this dtype; cheaper than `promotes`."""
    for x in inputs:
        if x.__class__ is Tensor:
            if x._data.dtype is not dtype:
                return False
        elif x.__class__ is ndarray:
            if x.dtype is not dtype:
                return False
        elif x.__class__ not in WITHOUT_DTYPE and getattr(x, "dtype", None) is not dtype:
            return False
    return True


def promotes(op: str, inputs: tuple, outputs: tuple) -> bool:
    """Whether a call made double precision of an input that is a narrower float."""
    for y in outputs:
        if y is not None and y.dtype.num in _WIDE:
            return op not in CASTS and any_narrow(inputs)
    return False


def any_narrow(inputs: Iterable) -> bool:
    """Whether one of these is a float of less than double precision."""
    for x in inputs:
        if x.__class__ is Tensor:
            x = x._data
        dtype = getattr(x, "dtype", None)
        if dtype is not None and dtype.num in _NARROW:
            return True
        if (x.__class__ is list or x.__class__ is tuple) and any_narrow(x):
            return True  # the cotangents of several outputs, the arrays of concatenate
    return False
