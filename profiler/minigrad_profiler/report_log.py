"""An event log read once for the report: sums by kind of call, and the calls in time.

Each event takes four numbers of memory, and each kind of call one key.
"""

from array import array
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minigrad.instrument.formats import Event
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.records import Kept, Record, Sample, Source
from minigrad.instrument.table import printable

from .names import place_of, relative
from .outside import recording_in_passes, span_of, without_recording
from .view import shapes_of

NO_LINE = "(unknown line)"


class Call(NamedTuple):
    """The key of a call; for a whole backward kind is "pass".

    stack   (place, function) of the callers, innermost first
    came    the line where the float64 of a promoted call came in, if known
    """

    kind: str
    op: str
    shapes: str
    place: str
    function: str
    scope: str
    bytes: int
    flops: int | None
    moved: int | None
    dtype: str
    promoted: bool
    stack: tuple[tuple[str, str], ...]
    came: str = ""


@dataclass(slots=True)
class Sums:
    """For the events with one key on one thread: their number, their own time, and their total
    time.

    least_ns: the own time of the shortest.
    """

    calls: int = 0
    self_ns: int = 0
    total_ns: int = 0
    least_ns: int = 0


@dataclass(slots=True)
class Measured:
    """A log: `sums[thread][number]` are those of `keys[number]`; lanes hold the events in time.

    seqs    of each lane: the number of each event's node, -1 for none
    """

    path: str
    header: dict[str, Any]
    end: dict[str, Any]
    cut: str | None
    dropped: int
    keys: list[Call]
    lanes: dict[int, Any]
    seqs: dict[int, array]
    sums: dict[int, dict[int, Sums]]
    marks: list[Any]
    events: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)  # by file
    samples: list[Sample] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    main: int = 0  # the thread that opened the log

    def by_key(self) -> list[tuple[Call, Sums]]:
        """The sums over all threads."""
        merged: dict[int, Sums] = {}
        for found in self.sums.values():
            for number, sums in found.items():
                add(merged.setdefault(number, Sums()), sums)
        return [(self.keys[number], sums) for number, sums in merged.items()]

    @property
    def span(self) -> tuple[int, int]:
        """The start and end of the log, on its own clock."""
        return span_of(self)


def add(to: Sums, more: Sums) -> None:
    """Add sums to sums."""
    if more.calls:
        to.least_ns = min(to.least_ns, more.least_ns) if to.calls else more.least_ns
    to.calls += more.calls
    to.self_ns += more.self_ns
    to.total_ns += more.total_ns


def measured(path: str, others: Callable[[Record], None] | None = None) -> Measured:
    """Read a log; FormatError if it is damaged. others: as in Lanes."""
    reading = _Reading()
    lanes = Lanes(path, reading.key_of, others)
    found = Measured(
        path, lanes.header, lanes.end, lanes.cut, lanes.dropped, lanes.keys, lanes.lanes,
        reading.seqs, {}, lanes.marks, sources=lanes.sources, samples=lanes.samples,
        kept=lanes.kept, main=lanes.main,
    )  # fmt: skip
    for thread, lane in lanes.lanes.items():
        sums: dict[int, Sums] = {}
        for _, number, own, whole in walk(lane):
            if own is not None:
                entry = sums.setdefault(number, Sums())
                entry.least_ns = min(entry.least_ns, own) if entry.calls else own
                entry.calls += 1
                entry.self_ns += own
                entry.total_ns += whole
        found.sums[thread] = sums
        passes = {n: sums[n].self_ns for n in sums if found.keys[n].kind == "pass"}
        for number, ns in without_recording(passes, recording_in_passes(found, thread)).items():
            sums[number].self_ns -= ns
        found.events += len(lane.t0)
    return found


class _Reading:
    """The key of each event; texts are made once for each definition that events share."""

    def __init__(self) -> None:
        self.seqs: dict[int, array] = {}
        self._known: dict[int, tuple[Any, Any]] = {}  # id -> (the object, kept alive; its text)

    def key_of(self, event: Event) -> Hashable:
        seq = -1 if event.seq is None else event.seq
        self.seqs.setdefault(event.thread, array("q")).append(seq)
        arrays, site = event.arrays, event.site
        shapes, dtype = self._once(arrays, lambda: (shapes_of(event), _dtype(arrays)))
        place, function = self._once(site, lambda: _named(site)) if site else (NO_LINE, "")
        stack = event.stack
        frames = self._once(stack, lambda: tuple(map(_named, stack))) if stack else ()
        return Call(
            event.kind, event.op, shapes, place, function, event.scope, event.bytes, event.flops,
            event.moved, dtype, event.promoted, frames, place_of(event.came),
        )  # fmt: skip

    def _once(self, what: Any, make: Any) -> Any:
        known = self._known.get(id(what))
        if known is None:
            known = self._known[id(what)] = (what, make())
        return known[1]


def _named(site: dict[str, Any]) -> tuple[str, str]:
    return place_of(site), site["function"]


def _dtype(arrays: dict[str, Any]) -> str:
    """The dtype of a call's work: that of its first output."""
    described = arrays["outputs"] or arrays["inputs"]
    return described[0]["dtype"] if described else "float64"


def inert(text: str, limit: int = 160) -> str:
    """A text that is safe to show: one line, no characters without a glyph, not too long; paths
    short."""
    text = with_glyphs(relative(text[: 8 * limit]))
    return text if len(text) <= limit else f"{text[: limit // 3]}…{text[limit // 3 + 1 - limit :]}"


def with_glyphs(text: str) -> str:
    """One line of text for a page, � where a character has no glyph."""
    return printable(text, "\N{REPLACEMENT CHARACTER}")


def inert_place(place: str) -> str:
    """file:line that is safe to show, the same for the same line everywhere in a page."""
    file, colon, line = place.rpartition(":")
    return f"{inert(file, 240)}{colon}{line}"
