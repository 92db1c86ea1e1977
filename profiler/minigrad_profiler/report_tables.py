"""The tables of the report: by op, shape, line, scope and thread, with a badge for each direction.

Their sums equal those of `minigrad-profile view --json`; a test compares the two.
"""

from collections.abc import Callable
from typing import Any

from minigrad.instrument.table import counted, shares

from .report_log import NO_LINE, Call, Measured, Sums, add, inert, inert_place
from .roofline import Calls, Peaks, Point
from .view import ENGINE

MOST_ROWS = 1000  # of a table; one row sums the rest

COLUMNS = (
    "name", "calls", "self", "forward", "backward", "total", "bytes", "flops", "moved", "share",
    "bound_forward", "bound_backward", "place",
)  # fmt: skip


def _engine_or(name: Callable[[Call], str]) -> Callable[[Call], str]:
    return lambda call: ENGINE if call.kind == "pass" else name(call)


BY: dict[str, Callable[[Call], str]] = {
    "op": _engine_or(lambda call: call.op),
    "shape": _engine_or(lambda call: f"{call.op} {call.shapes}".rstrip()),
    "line": lambda call: f"{call.place} {call.function}".rstrip(),
    "scope": _engine_or(lambda call: call.scope or "(no scope)"),
}


class Line:
    """A row while it is summed: its sums by kind, and its work compared with the machine's
    peaks."""

    def __init__(self, name: str, place: str = ""):
        self.name, self.place = name, place
        self.kinds: dict[str, Sums] = {}
        self.points = {"forward": Point(name, "forward"), "backward": Point(name, "backward")}
        self.bytes = self.flops = self.moved = 0
        self._work: dict[tuple, Calls] = {}

    def add(self, call: Call, sums: Sums) -> None:
        """Count calls of one kind."""
        add(self.kinds.setdefault(call.kind, Sums()), sums)
        n = sums.calls
        self.bytes += n * call.bytes
        self.flops += n * (call.flops or 0)
        self.moved += n * (call.moved or 0)
        if call.kind == "pass":
            return
        work = call.op, call.flops, call.moved, call.dtype
        calls = self._work.setdefault((call.kind, *work), Calls(*work))
        calls.more(n, sums.self_ns, sums.least_ns)

    def hold(self, peaks: Peaks) -> None:
        """Compare the counted work with the machine's peaks, once."""
        for (kind, *_), calls in self._work.items():
            self.points[kind].add(calls, peaks)
        self._work.clear()

    @property
    def self_ns(self) -> int:
        return sum(sums.self_ns for sums in self.kinds.values())

    @property
    def forward_ns(self) -> int:
        return self.kinds["forward"].self_ns if "forward" in self.kinds else 0

    @property
    def calls(self) -> int:
        return sum(sums.calls for sums in self.kinds.values())

    @property
    def total_ns(self) -> int:
        return sum(sums.total_ns for sums in self.kinds.values())

    def bound(self, phase: str) -> str:
        """ "compute", "memory", "overhead", or "" if unknown."""
        return self.points[phase].bound if self.points[phase].calls else ""


def lines_by(measured: Measured, by: str, peaks: Peaks) -> list[Line]:
    """The rows of a table, the longest first."""
    rows: dict[str, Line] = {}
    if by == "thread":
        for thread, found in measured.sums.items():
            name = f"{measured.lanes[thread].name} ({thread})"
            row = rows.setdefault(name, Line(name))
            for number, sums in found.items():
                row.add(measured.keys[number], sums)
    else:
        name_of = BY[by]
        for call, sums in measured.by_key():
            name = name_of(call)
            row = rows.get(name)
            if row is None:
                place = call.place if by == "line" and call.place != NO_LINE else ""
                row = rows[name] = Line(name, place)
            row.add(call, sums)
    for row in rows.values():
        row.hold(peaks)
    return sorted(rows.values(), key=lambda row: (-row.self_ns, row.name))


def table(lines: list[Line]) -> dict[str, Any]:
    """Rows as lists, in the order of COLUMNS; the last row sums those beyond MOST_ROWS.

    rest   how many rows the last one stands for; 0: none
    """
    parts = shares([line.self_ns for line in lines])
    rows = [_row(line, part) for line, part in zip(lines, parts, strict=True)]
    rest = rows[MOST_ROWS:]
    shown = rows[:MOST_ROWS]
    if rest:
        sums = [round(sum(row[i] for row in rest), 1) for i in range(1, 10)]
        shown.append([f"({counted(len(rest), 'more row')})", *sums, "", "", ""])
    return {"rows": shown, "rest": len(rest)}


def _row(line: Line, part: float) -> list[Any]:
    return [
        inert(line.name), line.calls, line.self_ns, line.forward_ns,
        line.self_ns - line.forward_ns, line.total_ns, line.bytes, line.flops, line.moved, part,
        line.bound("forward"), line.bound("backward"), inert_place(line.place),
    ]  # fmt: skip


def points(lines: list[Line], most: int = 200) -> list[dict[str, Any]]:
    """The points of the roofline, the longest first: ops with known work, in each direction."""
    found = [
        point
        for line in lines
        for point in line.points.values()
        if point.flops and point.moved and point.self_ns
    ]
    found.sort(key=lambda point: -point.self_ns)
    return [
        {
            "name": inert(point.name, 60), "phase": point.phase, "calls": point.calls,
            "self": point.self_ns, "rate": point.rate, "speed": point.speed,
            "intensity": point.intensity, "bound": point.bound,
            "roof": point.roof_ns / point.self_ns,
        }
        for point in found[:most]
    ]  # fmt: skip
