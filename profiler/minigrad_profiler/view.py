"""Tables of an event log: by op, shape, source line, scope or thread, forward beside backward."""

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from minigrad.instrument.formats import Event, header, json_text
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.table import duration, shares, size, text_table


def _by_op(event: Event) -> str:
    return event.op


def _by_shape(event: Event) -> str:
    """The op on its input shapes; of a backward, on the shape of its cotangent."""
    shapes = [str(tuple(x["shape"])).replace(" ", "") for x in event.arrays["inputs"]]
    return f"{event.op} {' '.join(shapes)}" if shapes else event.op


def _by_line(event: Event) -> str:
    site = event.site
    return f"{site['file']}:{site['line']} {site['function']}" if site else "(unknown line)"


def _by_scope(event: Event) -> str:
    return event.scope or "(no scope)"


def _by_thread(event: Event) -> str:
    return f"thread {event.thread}"


BY: dict[str, Callable[[Event], str]] = {
    "op": _by_op,
    "shape": _by_shape,
    "line": _by_line,
    "scope": _by_scope,
    "thread": _by_thread,
}
SORT: dict[str, Callable[["Row"], Any]] = {
    "self": lambda row: -row.self_ns,
    "total": lambda row: -row.total_ns,
    "forward": lambda row: -row.forward_ns,
    "backward": lambda row: -row.backward_ns,
    "calls": lambda row: -row.calls,
    "bytes": lambda row: -row.bytes,
    "name": lambda row: row.name,
}
_ENGINE = "(engine and recording)"  # what a whole backward takes beside its ops


@dataclass(slots=True)
class Row:
    """self: without the events inside; total: with them; forward, backward: parts of self."""

    name: str
    calls: int = 0
    forward_ns: int = 0
    backward_ns: int = 0
    self_ns: int = 0
    total_ns: int = 0
    bytes: int = 0
    share: float = 0.0


@dataclass(slots=True)
class Summary:
    """The rows of one log, and what the log says of itself."""

    by: str
    rows: list[Row]
    header: dict[str, Any]
    events: int
    dropped: int

    def json(self) -> str:
        """Everything as a JSON text."""
        return json_text(
            {
                **header("minigrad.view"),
                "log": self.header,
                "by": self.by,
                "events": self.events,
                "dropped": self.dropped,
                "rows": [asdict(row) for row in self.rows],
            }
        )

    def table(self, top: int = 40) -> str:
        """Plain text for 80 columns; the rows behind the first `top` in one line (0: none are)."""
        shown = self.rows[: top or None]
        lines = [_cells(row) for row in shown]
        if rest := self.rows[len(shown) :]:
            lines.append(_cells(_sum(f"({len(rest)} more rows)", rest)))
        lines.append(_cells(_sum("total", self.rows)))
        columns = [f"<{self.by}", "calls", "forward", "backward", "self", "output", "share"]
        lost = f", {self.dropped:,} dropped" if self.dropped else ""
        return f"{self.events:,} events{lost}\n{text_table(columns, lines)}"


def summary(path: str, by: str = "op", sort: str = "self") -> Summary:
    """The table of a log, grouped and sorted; FormatError if the log is damaged."""
    key = BY[by]
    lanes = Lanes(path, lambda event: (event.kind, key(event), event.bytes))
    rows: dict[str, Row] = {}
    events = 0
    for thread, lane in lanes.lanes.items():
        for _, number, own, whole in walk(lane):
            if own is None:
                continue
            kind, name, nbytes = lanes.keys[number]
            if by == "thread":
                name = f"{lane.name} ({thread})"
            elif kind == "pass" and by != "line":
                name = _ENGINE
            row = rows.setdefault(name, Row(name))
            events += 1
            row.calls += 1
            row.self_ns += own
            row.total_ns += whole
            row.bytes += nbytes
            if kind == "forward":
                row.forward_ns += own
            else:
                row.backward_ns += own
    ordered = sorted(rows.values(), key=lambda row: (SORT[sort](row), row.name))
    for row, share in zip(ordered, shares([row.self_ns for row in ordered]), strict=True):
        row.share = share
    return Summary(by, ordered, lanes.header, events, lanes.dropped)


def _sum(name: str, rows: Iterable[Row]) -> Row:
    total = Row(name)
    for row in rows:
        for field in (
            "calls",
            "forward_ns",
            "backward_ns",
            "self_ns",
            "total_ns",
            "bytes",
            "share",
        ):
            setattr(total, field, getattr(total, field) + getattr(row, field))
    total.share = round(total.share, 1)
    return total


def _cells(row: Row) -> list[str]:
    return [
        _relative(row.name),
        f"{row.calls:,}",
        duration(row.forward_ns) if row.forward_ns else "",
        duration(row.backward_ns) if row.backward_ns else "",
        duration(row.self_ns),
        size(row.bytes) if row.bytes else "",
        f"{row.share:.1f} %",
    ]


def _relative(name: str) -> str:
    """A path below the current folder without that folder."""
    return name.removeprefix(os.getcwd() + os.sep)
