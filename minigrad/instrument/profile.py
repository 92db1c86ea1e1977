"""The aggregate profile: how often each op ran, forward and backward, and how long it took.

    with mg.profile() as prof:
        train()
    print(prof.table())

The listener appends two numbers per event to lists that belong to the op; sums are formed later,
a few thousand at a time. Appending is atomic in Python, so threads need no lock there.
"""

import threading
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..core import events
from ..core.careful import enter
from . import formats
from .table import duration, shares, text_table

_BATCH = 4096  # numbers kept per op before they are summed
_LOOK_EVERY = 16  # of an op's calls, the first and every 16th is looked at for a promotion
_FLOAT64 = np.dtype(np.float64)
_NARROW = ("float32", "float16", "bfloat16")
_MOST_NESTED = 100_000  # events remembered per thread while a backward runs


@dataclass(slots=True)
class Row:
    """One op in one phase. Times are its own: what ran inside it is counted in its own row.

    promoted: the op was seen to make float64 of a narrower float.
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


class Cell:
    """The numbers of one op in one phase: pending ones, and the sums of those before."""

    __slots__ = ("times", "sizes", "row")

    def __init__(self, op: str, phase: str):
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.row = Row(op, phase)

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


class Phase:
    """The cells of one phase, by op, and whether its events may lie in or around others."""

    __slots__ = ("cells", "may_nest")

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self.may_nest = False


class profile:
    """Counts and times every op while it is entered; may be nested and entered again.

    rows()   the numbers, longest first        json()   the same as a JSON text
    table()  the numbers as a text table       reset()  forget them
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may run ops while we hold it
        self._forward, self._backward = Phase(), Phase()
        self._running = 0  # backwards that run now
        self._nested: dict[int, list[tuple[int, int]]] = {}  # thread -> (t0, time) of its events
        self._entered = 0
        self._since = 0
        self._wall = 0

    def __enter__(self) -> "profile":
        if not self._entered:
            self._since = perf_counter_ns()
            events.listen(self)
        self._entered += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered -= 1
        if not self._entered:
            events.unlisten(self)
            self._wall += perf_counter_ns() - self._since
            self._set_running(0)

    # -- listening -------------------------------------------------------------------------------

    def hear(self, event: tuple) -> None:
        kind, op, t0, t1, _, _, outputs = event
        phase = self._forward if kind == "forward" else self._backward
        spent = self._own_time(kind, t0, t1 - t0) if phase.may_nest else t1 - t0
        try:
            cell = phase.cells[op]
        except KeyError:
            cell = phase.cells.setdefault(op, Cell(op, kind))
        times = cell.times
        times.append(spent)
        for y in outputs:
            if y is not None:
                cell.sizes.append(y.nbytes)
        if len(times) % _LOOK_EVERY == 1 and _promotes(event[5], outputs):
            cell.row.promoted = True
        if len(times) >= _BATCH:
            with self._lock:
                cell.fold()

    def graph_ready(self, order: list, roots: list) -> None:
        with self._lock:
            self._set_running(self._running + 1)

    def graph_done(self, error: BaseException | None) -> None:
        with self._lock:
            self._set_running(max(0, self._running - 1))

    def _set_running(self, count: int) -> None:
        """In a plain backward only arrays are computed with, so nothing nests; see _own_time."""
        self._running = count
        if not count:
            self._nested.clear()
        self._forward.may_nest = count > 0
        self._backward.may_nest = count > 1 or bool(self._nested)

    def _own_time(self, kind: str, t0: int, spent: int) -> int:
        """The event's time without that of the events inside it.

        Only a node's backward can hold others: the ops that a rule records under create_graph, a
        recomputation with a backward of its own. They end, and so are told, before it, and they
        began after it did.
        """
        own = spent
        with self._lock:
            earlier = self._nested.setdefault(threading.get_ident(), [])
            if kind == "backward":
                while earlier and earlier[-1][0] >= t0:
                    own -= earlier.pop()[1]
                if self._running == 1:  # nothing encloses this event, nor what came before it
                    del self._nested[threading.get_ident()]
                    self._backward.may_nest = bool(self._nested)
                    return own
            self._backward.may_nest = True
            earlier.append((t0, spent))
            if len(earlier) > _MOST_NESTED:
                del earlier[: _MOST_NESTED // 2]
        return own

    # -- results ---------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """One row per op and phase, the longest total first; shares add to 100."""
        with self._lock:
            cells = [*self._forward.cells.values(), *self._backward.cells.values()]
            for cell in cells:
                cell.fold()
            rows = [Row(**asdict(cell.row)) for cell in cells if cell.row.calls]
        rows.sort(key=lambda row: (-row.total_ns, row.op, row.phase))
        for row, share in zip(rows, shares([row.total_ns for row in rows]), strict=True):
            row.share = share
        return rows

    @property
    def wall_ns(self) -> int:
        """Nanoseconds that the profile was entered, until now."""
        return self._wall + (perf_counter_ns() - self._since if self._entered else 0)

    def reset(self) -> None:
        """Forget everything counted so far."""
        with self._lock:
            self._forward.cells, self._backward.cells = {}, {}
            self._wall, self._since = 0, perf_counter_ns()

    def as_dict(self) -> dict[str, Any]:
        """The rows and what they were measured on, ready for JSON."""
        rows = self.rows()
        return {
            **formats.header("minigrad.profile"),
            "wall_ns": self.wall_ns,
            "calls": sum(row.calls for row in rows),
            "total_ns": sum(row.total_ns for row in rows),
            "recording_ns_per_call": round(recording_cost()),
            "rows": [asdict(row) for row in rows],
        }

    def json(self) -> str:
        """`as_dict` as a JSON text."""
        return formats.json_text(self.as_dict())

    def table(self, top: int = 40) -> str:
        """The rows as plain text for 80 columns; those behind the first `top` in one line."""
        rows, wall = self.rows(), self.wall_ns
        calls, total = sum(row.calls for row in rows), sum(row.total_ns for row in rows)
        title = (
            f"minigrad profile: {calls:,} calls, {duration(total)} in ops, {duration(wall)} wall"
        )
        if not rows:
            return title
        lines = [_cells_of(row) for row in rows[:top]]
        if rest := rows[top:]:
            name = f"({len(rest)} more rows)"
            other = Row(name, "", sum(row.calls for row in rest), sum(row.total_ns for row in rest))
            other.share = sum(row.share for row in rest)
            lines.append(_cells_of(other))
        lines.append(["total", "", f"{calls:,}", duration(total), "", "100.0 %" if total else ""])
        columns = ["<op", "<phase", "calls", "total", "per call", "share"]
        cost = recording_cost()
        part = f", {cost * calls / wall:.1%} of wall time" if wall else ""
        note = f"recording: at least {duration(cost)} a call{part}; not subtracted"
        promoted = [f"{row.op} ({row.phase})" for row in rows if row.promoted]
        if promoted:
            note += (
                "\nfloat64 was made of narrower floats, which doubles the memory they move, in:\n  "
                + "\n  ".join(promoted[:10])
                + "\n(a NumPy float64 beside a tensor? write a Python number instead, or cast)"
            )
        return "\n".join([title, text_table(columns, lines), note])


def _promotes(inputs: tuple, outputs: tuple) -> bool:
    """Whether a call made float64 of an input that is a narrower float."""
    if not any(y is not None and y.dtype is _FLOAT64 for y in outputs):
        return False
    return any(str(getattr(x, "dtype", "")) in _NARROW for x in inputs)


def _cells_of(row: Row) -> list[str]:
    return [
        row.op,
        row.phase,
        f"{row.calls:,}",
        duration(row.total_ns),
        duration(row.total_ns / row.calls),
        f"{row.share:.1f} %",
    ]


def recording_cost() -> float:
    """Nanoseconds that one event costs on this machine, now.

    Measured on the steps that are the same for every op, in a loop of their own; between real ops,
    which push the listener out of the processor's caches, it is up to twice as much.
    """
    hear, outputs, rounds = profile().hear, (np.empty(1),), 1000
    t0 = perf_counter_ns()
    for _ in range(rounds):
        enter(None, (), {})
        a, b = perf_counter_ns(), perf_counter_ns()
        hear(("forward", "op", a, b, None, outputs, outputs))
    return (perf_counter_ns() - t0) / rounds
