"""Tables of an event log: by op, shape, source line, scope or thread, forward next to backward."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from minigrad.instrument.formats import Event, header, json_text
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.table import counted, duration, shares, shortened, size, text_table

from .names import fitted, often, place_of, scaled, sentence
from .outside import Outside, outside, recording_in_passes, without_recording

_SPARE = ("output", "calls", "forward", "backward")  # columns that a narrow terminal omits
_WIDE = 110  # columns of a terminal from which a table has more columns
_MOST_PROMOTIONS = 10
_LEAST_REST = 0.05  # of the run, outside of ops: less is not shown
_LEAST_ROW = 0.001
_MOST_LINES = 5  # of those outside of ops


def _by_op(event: Event) -> str:
    return event.op


def shapes_of(event: Event) -> str:
    """The shapes of the inputs; for a backward, of its cotangent."""
    return " ".join(str(tuple(x["shape"])).replace(" ", "") for x in event.arrays["inputs"])


def _by_shape(event: Event) -> str:
    return f"{event.op} {shapes_of(event)}".rstrip()


def _by_line(event: Event) -> str:
    site = event.site
    return f"{place_of(site)} {site['function']}" if site else "(unknown line)"


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
ENGINE = "(engine)"  # the time of a whole backward without its ops


@dataclass(slots=True)
class Row:
    """self: without the events inside; total: with them; forward, backward: parts of self.

    flops, moved: operations and bytes of all calls, as far as known.
    """

    name: str
    calls: int = 0
    forward_ns: int = 0
    backward_ns: int = 0
    self_ns: int = 0
    total_ns: int = 0
    bytes: int = 0
    share: float = 0.0
    flops: int = 0
    moved: int = 0


@dataclass(slots=True)
class Summary:
    """The rows of one log, and facts about the whole log.

    promotions   lines that made float64 of narrower floats, with the ops and how often
    marks        how often and how long: {(what, name): (count, nanoseconds)}
    beside       the time outside of ops
    """

    by: str
    rows: list[Row]
    header: dict[str, Any]
    events: int
    dropped: int
    end: dict[str, Any] = field(default_factory=dict)
    cut: str | None = None
    promotions: dict[str, int] = field(default_factory=dict)
    marks: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    beside: Outside | None = None

    def json(self) -> str:
        """The whole summary as a JSON text."""
        return json_text(
            {
                **header("minigrad.view"),
                "log": self.header,
                "by": self.by,
                "events": self.events,
                "dropped": self.dropped,
                "end": self.end,
                "cut": self.cut,
                "promotions": self.promotions,
                "marks": [
                    {"what": what, "name": name, "count": count, "total_ns": spent}
                    for (what, name), (count, spent) in self.marks.items()
                ],
                "rows": [asdict(row) for row in self.rows],
                "outside": None if self.beside is None else self.beside.data(),
            }
        )

    def table(self, top: int = 40, width: int = 80) -> str:
        """Plain text; one line sums the rows after the first `top` (0: shows all rows)."""
        wide = width >= _WIDE
        shown = self.rows[: top or None]
        lines = [_cells(row, wide) for row in shown]
        if rest := self.rows[len(shown) :]:
            lines.append(_cells(_sum(f"({counted(len(rest), 'more row')})", rest), wide))
        total = _sum("total", self.rows)
        lines.append(_cells(total, wide, counts_once=False))
        columns = [f"<{self.by}", "calls", "forward", "backward", "self"]
        columns += ["total", "per call", "FLOP", "moved"] if wide else []
        columns += ["output", "share"]
        parts = [
            self._title(),
            text_table(columns, lines, width, fitted, _SPARE),
            *self._outside(width),
            *self._notes(width),
        ]
        return "\n".join(parts)

    def _title(self) -> str:
        lost = f", {self.dropped:,} dropped" if self.dropped else ""
        return f"{counted(self.events, 'event')}{lost}"

    def _outside(self, width: int) -> list[str]:
        """The rows of the rest of the run, and the lines that took most of it."""
        found = self.beside
        rest = 0 if found is None else max(0, found.run - found.ops)
        if found is None or rest < _LEAST_REST * found.run:
            return []
        told = [row for row in found.rows if row[1] > _LEAST_ROW * found.run]
        lines = [(f"  {name}", ns) for name, ns in found.named[:_MOST_LINES]]
        rows = [
            [name, duration(ns), f"{100 * ns / found.run:.1f} %"] for name, ns in [*told, *lines]
        ]
        table = text_table(["<outside of ops", "time", "of the run"], rows, width, fitted)
        return ["", table, ""]

    def _notes(self, width: int) -> list[str]:
        notes = []
        found = self.beside
        if found is not None and found.recording:
            unsure = self.end.get("uncertain_ns")
            within = f" ± {duration(unsure)}" if unsure else ""
            notes += sentence(
                f"recording took {duration(found.recording)}{within} of {duration(found.run)} "
                f"({found.recording / found.run:.1%}); it is in no other row",
                width,
            )
        if self.promotions:
            notes += sentence(
                "float64 was made of narrower floats, which doubles the bytes they move, in:", width
            )
            for place, count in list(self.promotions.items())[:_MOST_PROMOTIONS]:
                notes.append(f"  {fitted(place, min(60, max(12, width - 16)))} ({often(count)})")
        return notes

    def marks_table(self, width: int = 80) -> str:
        """Scopes, steps, optimizer steps and hooks."""
        rows = [
            [name or "(none)", shortened(what, 20), f"{count:,}", duration(spent),
             duration(spent / count)]
            for (what, name), (count, spent) in self.marks.items()
        ]  # fmt: skip
        return text_table(["<name", "<what", "count", "total", "each"], rows, width)


def summary(path: str, by: str = "op", sort: str = "self") -> Summary:
    """The table of a log, grouped and sorted; FormatError if the log is damaged."""
    key = BY[by]

    def key_of(event: Event) -> tuple:
        site = f"{place_of(event.site)} {event.op}" if event.promoted else None
        name = event.thread if by == "thread" else key(event)
        return event.kind, name, event.bytes, event.flops, event.moved, site

    lanes = Lanes(path, key_of)
    rows: dict[str, Row] = {}
    promotions: dict[str, int] = {}
    events = 0
    for thread, lane in lanes.lanes.items():
        passes: dict[int, tuple[str, int]] = {}
        for _, number, own, whole in walk(lane):
            if own is None:
                continue
            kind, name, nbytes, flops, moved, promoted = lanes.keys[number]
            if by == "thread":
                name = f"{lane.name} ({thread})"
            elif kind == "pass" and by != "line":
                name = ENGINE
            row = rows.setdefault(name, Row(name))
            if kind == "pass":
                passes[number] = name, passes.get(number, (name, 0))[1] + own
            events += 1
            row.calls += 1
            row.self_ns += own
            row.total_ns += whole
            row.bytes += nbytes
            row.flops += flops or 0
            row.moved += moved or 0
            if kind == "forward":
                row.forward_ns += own
            else:
                row.backward_ns += own
            if promoted is not None:
                promotions[promoted] = promotions.get(promoted, 0) + 1
        spent = {number: ns for number, (_, ns) in passes.items()}
        for number, ns in without_recording(spent, recording_in_passes(lanes, thread)).items():
            row = rows[passes[number][0]]
            row.self_ns, row.backward_ns = row.self_ns - ns, row.backward_ns - ns
    ordered = sorted(rows.values(), key=lambda row: (SORT[sort](row), row.name))
    for row, share in zip(ordered, shares([row.self_ns for row in ordered]), strict=True):
        row.share = share
    promotions = dict(sorted(promotions.items(), key=lambda item: -item[1]))
    return Summary(
        by, ordered, lanes.header, events, lanes.dropped, lanes.end, lanes.cut, promotions,
        _marks(lanes), outside(lanes),
    )  # fmt: skip


def _marks(lanes: Lanes) -> dict[tuple[str, str], tuple[int, int]]:
    """How often each mark is in the log, and its time, the longest first; steps share one row."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for mark in lanes.marks:
        key = (mark.what, "each step" if mark.what == "step" else mark.name)
        count, spent = found.get(key, (0, 0))
        found[key] = count + 1, spent + mark.t1 - mark.t0
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


_SUMMED = (
    "calls", "forward_ns", "backward_ns", "self_ns", "total_ns", "bytes", "share", "flops", "moved",
)  # fmt: skip


def _sum(name: str, rows: Iterable[Row]) -> Row:
    total = Row(name)
    for row in rows:
        for field_name in _SUMMED:
            setattr(total, field_name, getattr(total, field_name) + getattr(row, field_name))
    total.share = round(total.share, 1)
    return total


def _cells(row: Row, wide: bool, counts_once: bool = True) -> list[str]:
    """counts_once: the row's totals hold each moment once; otherwise they mean nothing."""
    more = []
    if wide:
        more = [
            duration(row.total_ns) if counts_once else "",
            duration(row.self_ns / row.calls) if row.calls else "",
            scaled(row.flops).strip() if row.flops else "",
            size(row.moved) if row.moved else "",
        ]
    return [
        row.name,
        f"{row.calls:,}",
        duration(row.forward_ns) if row.forward_ns else "",
        duration(row.backward_ns) if row.backward_ns else "",
        duration(row.self_ns),
        *more,
        size(row.bytes) if row.bytes else "",
        f"{row.share:.1f} %",
    ]
