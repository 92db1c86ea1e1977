"""Memory from an event log: the owners at the peak, the arrays that waited, the earliest releases.

An array waits for the backward from its last reading in a forward until the backward that it is
saved for reads it. An array that no later backward reads does not wait.

The log must have been recorded with memory=True (`minigrad-profile run --memory`). It counts the
inputs and outputs of ops; the log does not see the temporary arrays inside an op.
"""

import math
from array import array
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from minigrad.errors import FormatError
from minigrad.instrument.formats import EventReader, header, json_text
from minigrad.instrument.records import CATEGORIES, Allocation, Category, Held, Record, Release
from minigrad.instrument.speedscope import write_sampled
from minigrad.instrument.table import duration, size, text_table

from .names import fitted, place_of, sentence, wrapped

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDE = 110  # columns of a terminal from which a table has more columns
_KEPT = [CATEGORIES.index(kind) for kind in ("parameter", "optimizer state")]
FOREVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Owner:
    """Memory of one category from one op on one line, as it stood at the peak.

    waiting      bytes that wait for the backward
    needless     bytes that are still held although no later op reads them; without parameters and
                 an optimizer's state, which are for the next step
    earliest_ns  after the log's start, when the last op had read them
    released_ns  when the last of them was released; None: never
    """

    name: str
    op: str
    place: str
    scope: str
    category: str
    count: int
    bytes: int
    waiting: int
    needless: int
    earliest_ns: int
    released_ns: int | None


@dataclass(slots=True)
class Story:
    """A log's account of memory.

    timeline   (nanoseconds from the log's start, bytes alive, bytes by category), the most of each
               stretch of time
    possible   the peak if every array were released after its last use
    waiting    the most that waited for the backward at once, and waiting_ns: since when
    """

    peak: int
    peak_ns: int
    at_peak: dict[str, int]
    owners: list[Owner]
    possible: int
    at_end: int
    allocations: int
    releases: int
    timeline: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)
    log: dict[str, Any] = field(default_factory=dict)
    untracked: int = 0
    cut: str | None = None
    waiting: int = 0
    waiting_ns: int = 0

    def json(self) -> str:
        """The whole story as a JSON text."""
        return json_text({**header("minigrad.memory"), **asdict(self)})

    def text(self, width: int = 80, top: int = 20) -> str:
        """For the terminal: the peak, its owners, the possible savings, and the timeline."""
        waiting = sum(owner.waiting for owner in self.owners)
        needless = sum(owner.needless for owner in self.owners)
        kinds = [f"{size(n)} {kind}" for kind, n in self.at_peak.items()]
        parts = [
            *sentence(
                f"peak {size(self.peak)} at {duration(self.peak_ns)}, {size(self.at_end)} alive at "
                f"the end; {self.allocations:,} arrays came, {self.releases:,} went",
                width,
            ),
            *(wrapped("at the peak: ", kinds, width) if kinds else []),
            *sentence(
                f"{size(waiting)} of it waited for the backward (at most {size(self.waiting)}, at "
                f"{duration(self.waiting_ns)}); {size(needless)} would never be read again",
                width,
            ),
            *sentence(
                f"if every array went after its last use the peak would be {size(self.possible)}",
                width,
            ),
            "",
            _table(self.owners[:top], width),
        ]
        if rest := self.owners[top:]:
            parts.append(f"({len(rest)} more, {size(sum(owner.bytes for owner in rest))})")
        parts += ["", *self._chart(width)]
        if self.untracked:
            parts.append(f"{self.untracked:,} arrays were not followed: raise --max-events")
        return "\n".join(parts)

    def _chart(self, width: int) -> list[str]:
        """The timeline as a row of blocks."""
        bars = [live for _, live, _ in self.timeline]
        if not bars or not self.peak:
            return []
        count = min(len(bars), width)
        chunks = np.array_split(np.array(bars), count)
        heights = [math.ceil(8 * int(chunk.max()) / self.peak) for chunk in chunks]
        span = duration(self.timeline[-1][0])
        return ["".join(_BLOCKS[h] for h in heights), f"0 {'time':^{max(count - 10, 4)}} {span}"]


def _table(owners: list[Owner], width: int) -> str:
    """The owners; a narrow terminal omits the number of arrays."""
    wide = width >= _WIDE
    columns = ["<owner", "<category", *(["arrays"] if wide else [])]
    columns += ["bytes", "waiting", "last use", "gone"]
    rows = [
        [
            owner.name,
            owner.category,
            *([f"{owner.count:,}"] if wide else []),
            size(owner.bytes),
            size(owner.waiting) if owner.waiting else "",
            duration(owner.earliest_ns),
            "never" if owner.released_ns is None else duration(owner.released_ns),
        ]
        for owner in owners
    ]
    return text_table(columns, rows, width, fitted)


class Columns:
    """All arrays of a log in columns of numbers: a million arrays take some 60 MB.

    The caller passes each record to `take`, and then the log's header and end to `ends`.
    """

    def __init__(self, path: str):
        self.path = path
        self.place: dict[int, int] = {}  # id -> row
        self.born, self.died, self.bytes = array("q"), array("q"), array("q")
        self.used, self.used_forward = array("q"), array("q")
        self.owner, self.first = array("q"), array("b")
        self.changes = array("q"), array("q"), array("b")  # time, row, category
        self.owners: list[tuple] = []
        self.releases = self._total = 0
        self._numbers: dict[Hashable, int] = {}

    def take(self, record: Record) -> None:
        """Add a record; records without memory are skipped."""
        if isinstance(record, Allocation):
            self._allocation(record)
        elif isinstance(record, Release):
            self._release(record)
        elif isinstance(record, Held):
            self._held(record)
        elif isinstance(record, Category):
            self._category(record)

    def ends(self, header: dict[str, Any], end: dict[str, Any], cut: str | None) -> None:
        """Keep the log's header and end."""
        self.header, self.end, self.cut = header, end, cut

    def _allocation(self, record: Allocation) -> None:
        if record.id in self.place:
            raise FormatError(f"{self.path}: memory {record.id} is allocated twice")
        self._total += record.bytes
        if self._total > FOREVER:
            raise FormatError(f"{self.path}: its arrays add up to 2⁶³ bytes or more; it is damaged")
        self.place[record.id] = len(self.born)
        made_by = record.op or (record.category if record.phase == "before" else record.phase)
        if record.phase == "backward" and record.op:
            made_by += ".backward"
        key = (made_by, place_of(record.site), record.scope)
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self.owners):
            self.owners.append(key)
        self.born.append(record.t)
        self.died.append(FOREVER)
        self.bytes.append(record.bytes)
        self.used.append(FOREVER)
        self.used_forward.append(FOREVER)
        self.owner.append(number)
        self.first.append(CATEGORIES.index(record.category))

    def _release(self, record: Release) -> None:
        row = self.place.get(record.id)
        if row is None or self.died[row] != FOREVER:
            raise FormatError(f"{self.path}: memory {record.id} is released without being held")
        self.died[row] = max(record.t, self.born[row])
        self.used[row] = max(record.used, self.born[row])
        self.used_forward[row] = record.used_forward
        self.releases += 1

    def _held(self, record: Held) -> None:
        row = self.place.get(record.id)
        if row is not None:
            self.used[row] = max(record.used, self.born[row])
            self.used_forward[row] = record.used_forward

    def _category(self, record: Category) -> None:
        row = self.place.get(record.id)
        if row is not None:
            for column, value in zip(
                self.changes, (record.t, row, CATEGORIES.index(record.category)), strict=True
            ):
                column.append(value)


def story(path: str, buckets: int = 200) -> Story:
    """Replay a log; FormatError if it is damaged, or holds nothing of memory."""
    columns = Columns(path)
    with EventReader(path, salvage=True) as reader:
        if not reader.header.get("memory"):
            raise FormatError(
                f"{path}: it was recorded without memory; record it with "
                "minigrad-profile run --memory, or mg.event_log(path, memory=True)"
            )
        for record in reader.records():
            columns.take(record)
        columns.ends(reader.header, reader.end, reader.cut)
    return story_of(columns, buckets)


def story_of(columns: Columns, buckets: int) -> Story:
    """The story of a log's columns."""
    base = columns.header["base_ns"]
    born, died = np.asarray(columns.born), np.asarray(columns.died)
    sizes = np.asarray(columns.bytes)
    if not len(born):
        return Story(0, 0, {}, [], 0, 0, 0, 0, log=columns.header, cut=columns.cut)
    times, live = alive_over_time(born, died, sizes)
    top = int(np.argmax(live))
    peak_t = int(times[top])
    used = np.minimum(np.asarray(columns.used), died)
    possible = int(alive_over_time(born, used, sizes)[1].max())
    alive = (born <= peak_t) & (died > peak_t)
    category = _categories_at(columns, peak_t)
    waits, start, stop = waiting(columns)
    most, since = _most_at_once(start[waits], stop[waits], sizes[waits], base)
    at_peak = {name: int(sizes[alive & (category == i)].sum()) for i, name in enumerate(CATEGORIES)}
    return Story(
        peak=int(live[top]),
        peak_ns=peak_t - base,
        at_peak={k: v for k, v in sorted(at_peak.items(), key=lambda item: -item[1]) if v},
        owners=_owners(
            columns, np.flatnonzero(alive), category, waits & (start <= peak_t) & (peak_t < stop),
            peak_t, base,
        ),
        possible=possible,
        at_end=int(live[-1]),
        allocations=len(born),
        releases=columns.releases,
        timeline=_timeline(columns, buckets, base),
        log=columns.header,
        untracked=columns.end.get("untracked", 0),
        cut=columns.cut,
        waiting=most,
        waiting_ns=since,
    )  # fmt: skip


def waiting(columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(which arrays ever wait for the backward, since when, until when)."""
    start, stop = np.asarray(columns.used_forward), np.asarray(columns.used)
    return once(columns, "saved") & (start < stop) & (stop != FOREVER), start, stop


def once(columns: Columns, category: str) -> np.ndarray:
    """Which arrays were of this category at some time."""
    number = CATEGORIES.index(category)
    found = np.array(columns.first) == number
    _, rows, kinds = (np.asarray(column) for column in columns.changes)
    found[rows[kinds == number]] = True
    return found


def _most_at_once(
    start: np.ndarray, stop: np.ndarray, sizes: np.ndarray, base: int
) -> tuple[int, int]:
    """(the most bytes in these stretches at once, nanoseconds from `base` on to then)."""
    if not len(sizes):
        return 0, 0
    times, live = alive_over_time(start, stop, sizes)
    top = int(np.argmax(live))
    return int(live[top]), max(0, int(times[top]) - base)


def alive_over_time(
    born: np.ndarray, died: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(times, bytes alive after each of them); at equal times releases count first."""
    gone = died != FOREVER
    times = np.concatenate([died[gone], born])
    steps = np.concatenate([-sizes[gone], sizes])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[order])


def _categories_at(columns: Columns, t: int) -> np.ndarray:
    """The category of each array at a moment."""
    category = np.array(columns.first)
    times, rows, values = (np.asarray(column) for column in columns.changes)
    before = np.flatnonzero(times <= t)
    before = before[np.argsort(times[before], kind="stable")]
    category[rows[before]] = values[before]  # of several the last wins
    return category


def _owners(
    columns: Columns, rows: np.ndarray, category: np.ndarray, waits: np.ndarray, t: int, base: int
) -> list:
    """The live set, grouped by op, line and category; the largest first."""
    groups: dict[tuple, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault((columns.owner[row], int(category[row])), []).append(row)
    found = []
    for (number, kind), members in groups.items():
        made_by, place, scope = columns.owners[number]
        died = max(columns.died[row] for row in members)
        used = [columns.used[row] for row in members if columns.used[row] != FOREVER]
        found.append(
            Owner(
                name=" ".join(filter(None, (place, made_by, f"[{scope}]" if scope else ""))),
                op=made_by,
                place=place,
                scope=scope,
                category=CATEGORIES[kind],
                count=len(members),
                bytes=sum(columns.bytes[row] for row in members),
                waiting=sum(columns.bytes[row] for row in members if waits[row]),
                needless=sum(
                    columns.bytes[row]
                    for row in members
                    if kind not in _KEPT and columns.used[row] <= t
                ),
                earliest_ns=max((max(used) if used else t) - base, 0),
                released_ns=None if died == FOREVER else died - base,
            )
        )
    return sorted(found, key=lambda owner: (-owner.bytes, owner.name, owner.category))


def _timeline(columns: Columns, buckets: int, base: int) -> list[tuple[int, int, dict[str, int]]]:
    """The most bytes alive in each of this many stretches of time, with their categories."""
    steps: list[tuple[int, int, int, int]] = []  # time, order, category, bytes
    first, now = columns.first, list(columns.first)
    for row, t in enumerate(columns.born):
        steps.append((t, 1, first[row], columns.bytes[row]))
    for t, row, kind in zip(*columns.changes, strict=True):
        if t <= columns.died[row]:
            steps.append((t, 2, now[row], -columns.bytes[row]))
            steps.append((t, 2, kind, columns.bytes[row]))
            now[row] = kind
    for row, t in enumerate(columns.died):
        if t != FOREVER:
            steps.append((t, 0 if t > columns.born[row] else 3, now[row], -columns.bytes[row]))
    steps.sort(key=lambda step: step[:2])
    start, stop = steps[0][0], steps[-1][0]
    width = max(1, (stop - start) // buckets + 1)
    live, total, found = [0] * len(CATEGORIES), 0, []
    best: tuple[int, list[int]] = (0, live[:])
    bucket = 0
    for t, _, kind, change in steps:
        while (t - start) // width > bucket:
            found.append(_stretch(start + (bucket + 1) * width - base, *best))
            bucket, best = bucket + 1, (total, live[:])
        live[kind] += change
        total += change
        if total > best[0]:
            best = (total, live[:])
    found.append(_stretch(stop - base, *best))
    return found


def _stretch(t: int, total: int, live: list[int]) -> tuple[int, int, dict[str, int]]:
    return t, total, {name: n for name, n in zip(CATEGORIES, live, strict=True) if n}


def write_bytes(log: str, out: str) -> str | None:
    """Write the bytes alive at the peak as a speedscope file: scopes, then the op on its line."""
    found = story(log)
    stacks = []
    for owner in found.owners:
        scopes = [(name, None, None) for name in owner.scope.split("/") if name]
        file, _, line = owner.place.rpartition(":")
        frame = (f"{owner.op} ({owner.category})", file or None, int(line) if line else None)
        stacks.append(([*scopes, frame], owner.bytes))
    write_sampled(stacks, "bytes", f"alive at the peak of {log}", out)
    return found.cut
