"""Time outside of ops: the main thread's work between them, by the user's lines.

The log has the times of ops, and marks of optimizers, the garbage collector and the recording. The
rest of each moment between two samples (minigrad/instrument/sampler.py) counts for the later one.
So the rows add up to the time outside of ops.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.instrument.records import Sample

from .names import place_of

CARVED = {  # marks that explain time by themselves, the surest first, with the name of their row
    "recording": "recording",
    "gc": "garbage collection",
    "optimizer": "optimizers",
    "waiting": "waiting for other ranks",
    "communication": "waiting for other ranks",
}
_HEARD = ("scope", "hook", "optimizer", "section", "to NumPy", "from NumPy")  # as they end
_EVER = (1 << 63) - 1  # ns: after every log
_MAIN_PART = 0.5  # of a line's time: a callee with more is named instead


@dataclass(slots=True)
class Spot:
    """A line with time outside of ops; `ns` includes its callees.

    what      "python", "import", or "data" where a DataLoader made or awaited batches
    function  of the line; via: its callee, if known
    asker     the line that waited for it: the loop over a DataLoader
    in_ops    nanoseconds of an import that are counted as time of ops
    waits     the main thread waited while workers made the batches
    """

    what: str
    place: str
    function: str
    ns: int
    via: str = ""
    asker: str = ""
    in_ops: int = 0
    waits: bool = False
    engine: bool = False
    top: bool = False  # an import at the head of a file


@dataclass(slots=True)
class Outside:
    """run: nanoseconds that were recorded; ops: of these in ops and engine; rows: of the rest.

    rows   (name, nanoseconds), the longest first: they add up to the time outside of ops
    spots  the lines with the rest of the time, the longest first
    lines  {place: nanoseconds} outside of ops, of each line alone
    """

    run: int
    ops: int
    rows: list[tuple[str, int]]
    spots: list[Spot]
    lines: dict[str, int]
    functions: dict[str, str]

    @property
    def recording(self) -> int:
        """Nanoseconds of the main thread that the recording took."""
        return dict(self.rows).get("recording", 0)

    @property
    def own(self) -> int:
        """Nanoseconds of the run without the recording: the whole of the shares in the advice."""
        return max(1, self.run - self.recording)

    @property
    def named(self) -> list[tuple[str, int]]:
        """Lines with their functions and the time outside of ops, the longest first."""
        order = sorted(self.lines.items(), key=lambda line: -line[1])
        return [(f"{place} {self.functions[place]}", ns) for place, ns in order if ns]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run_ns": self.run,
            "ops_ns": self.ops,
            "rows": [{"name": name, "ns": ns} for name, ns in self.rows],
            "lines": [{"name": name, "ns": ns} for name, ns in self.named],
        }


def outside(found: Any) -> Outside:
    """The time outside of ops in a log that has been read: `Lanes`, or `Measured`. A key begins
    with its kind."""
    start, stop = span_of(found)
    main = main_thread(found)
    lane = found.lanes.get(main)
    busy = Union(lane.t0, lane.t1) if lane is not None else Union([], [])
    covered = Union(*_unrecorded(found, start, stop))
    run = stop - start - covered.within(start, stop)
    before = covered.within(start, stop)
    covered = covered.joined(busy)
    ops = covered.within(start, stop) - before
    rows: dict[str, int] = {"recording": recording_in_passes(found, main)}
    ops -= rows["recording"]
    for what, name in CARVED.items():
        before = covered.within(start, stop)
        marks = [mark for mark in found.marks if mark.what == what and mark.thread == main]
        if marks:
            covered = covered.joined(Union([m.t0 for m in marks], [m.t1 for m in marks]))
            rows[name] = rows.get(name, 0) + covered.within(start, stop) - before
    looked = [s for s in found.samples if s.thread == main and s.doing != "op"]
    weighed, heard = _weighed(
        looked, (start, stop), covered, *_costs(found, lane, main), _look(found, len(looked))
    )
    rows["recording"] = rows.get("recording", 0) + heard
    for sample, ns in weighed:
        rows[_ROWS[_kind(sample)]] = rows.get(_ROWS[_kind(sample)], 0) + ns
    left = stop - start - covered.within(start, stop) - heard - sum(ns for _, ns in weighed)
    rows["not looked at"] = max(0, left)
    in_ops = _in_ops(looked, start, covered)
    others = [s for s in found.samples if s.thread != main and s.doing == "data" and s.inside]
    lines: dict[str, int] = {}
    functions: dict[str, str] = {}
    for sample, ns in weighed:
        site = sample.stack[0]
        lines[place_of(site)] = lines.get(place_of(site), 0) + ns
        functions[place_of(site)] = site["function"]
    spots = [*_python(weighed), *_imports(weighed, in_ops), *_data(weighed, others)]
    return Outside(
        run=max(1, run),
        ops=ops,
        rows=sorted(((k, ns) for k, ns in rows.items() if ns > 0), key=lambda row: -row[1]),
        spots=sorted(spots, key=lambda spot: -spot.ns),
        lines=lines,
        functions=functions,
    )


_ROWS = {"python": "Python", "import": "imports", "data": "DataLoader"}


def _kind(sample: Sample) -> str:
    return sample.doing if sample.doing in _ROWS else "python"


def span_of(found: Any) -> tuple[int, int]:
    """The start and end of a log, on its own clock."""
    base = found.header["base_ns"]
    wall = found.end.get("wall_ns")
    last = max([lane.t1[-1] for lane in found.lanes.values() if lane.t1], default=base)
    stop = max(last, base + wall if isinstance(wall, int) else last, base + 1)
    return base, min(stop, _EVER)  # a damaged log may hold any number


def main_thread(found: Any) -> int:
    """The thread that opened the log, unless the log holds only other threads."""
    seen = {sample.thread for sample in found.samples} | found.lanes.keys()
    if found.main in seen or not found.lanes:
        return found.main
    return max(found.lanes, key=lambda thread: len(found.lanes[thread].t0))


def _unrecorded(found: Any, start: int, stop: int) -> tuple[list[int], list[int]]:
    """The stretches that a schedule left out, between the recorded steps."""
    if not found.header.get("schedule"):
        return [], []
    steps = [mark for mark in found.marks if mark.what == "step"]
    last = max([lane.t1[-1] for lane in found.lanes.values() if lane.t1], default=start)
    ends = [start, *(mark.t1 for mark in steps)]
    begins = [*(mark.t0 for mark in steps), stop]
    if steps and last > steps[-1].t1:  # an unfinished step
        ends[-1] = last
    return ends, begins


class Union:
    """Stretches of time, joined where they overlap."""

    def __init__(self, t0: Sequence[int], t1: Sequence[int]) -> None:
        begin, end = np.asarray(t0, np.int64), np.asarray(t1, np.int64)
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], np.maximum.accumulate(end[order]) if len(end) else end
        first = np.ones(len(begin), bool)
        first[1:] = begin[1:] > end[:-1]
        self.t0 = begin[first]
        self.t1 = end[np.append(np.flatnonzero(first)[1:] - 1, len(end) - 1)] if len(end) else end
        self.t1 = np.maximum(self.t1, self.t0)
        self._sums = np.concatenate([[0], np.cumsum(self.t1 - self.t0)])

    def joined(self, other: "Union") -> "Union":
        """The stretches of both."""
        return Union(
            np.concatenate([self.t0, other.t0]).tolist(),
            np.concatenate([self.t1, other.t1]).tolist(),
        )

    def until(self, t: Any) -> Any:
        """How much of the time before t they cover."""
        at = np.searchsorted(self.t0, t, side="right")
        if not len(self.t0):
            return np.zeros_like(np.asarray(t))
        begun = np.maximum(at - 1, 0)
        part = np.clip(np.asarray(t) - self.t0[begun], 0, self.t1[begun] - self.t0[begun])
        return np.where(at > 0, self._sums[begun] + part, 0)

    def within(self, start: int, stop: int) -> int:
        return int(self.until(stop) - self.until(start))


def _hearing(found: Any, lane: Any) -> tuple[np.ndarray, float]:
    """(when forward events of a lane ended, nanoseconds that the listener takes for one event)."""
    if lane is None or not found.keys:
        return np.array([], np.int64), 0.0
    each = found.end.get("hearing_ns", 0) / max(1, found.end.get("events", 0))
    return np.sort(np.asarray(lane.t1, np.int64)[_of_kind(found, lane, "forward")]), float(each)


def _costs(found: Any, lane: Any, thread: int) -> tuple[np.ndarray, np.ndarray]:
    """(when events and marks of a thread ended, nanoseconds that the listener took for each)."""
    ends, each = _hearing(found, lane)
    heard = [mark for mark in found.marks if mark.what in _HEARD]
    marks = [mark.t1 for mark in heard if mark.thread == thread]
    mark = found.end.get("marking_ns", 0) / max(1, len(heard))
    times = np.concatenate([ends, np.array(marks, np.int64)])
    costs = np.repeat([each, float(mark)], [len(ends), len(marks)])
    order = np.argsort(times, kind="stable")
    return times[order], costs[order]


def _look(found: Any, looks: int) -> float:
    """Nanoseconds that each sample of a thread takes: the thread and the sampler's run in turns."""
    told = ("writing_ns", "hearing_ns", "marking_ns")
    spent = found.end.get("recording_ns", 0) - sum(found.end.get(name, 0) for name in told)
    return max(0, spent) / max(1, looks)


def _of_kind(found: Any, lane: Any, kind: str) -> np.ndarray:
    """Which events of a lane have this kind."""
    fitting = np.array([key[0] == kind for key in found.keys], bool)
    return fitting[np.asarray(lane.key, np.int64)]


def recording_in_passes(found: Any, thread: int) -> int:
    """Nanoseconds of whole backwards on a thread that the recording of events took."""
    lane = found.lanes.get(thread)
    if lane is None or not found.keys:
        return 0
    t0, t1 = np.asarray(lane.t0, np.int64), np.asarray(lane.t1, np.int64)
    whole = _of_kind(found, lane, "pass")
    passes = Union(t0[whole].tolist(), t1[whole].tolist())
    inside = _of_kind(found, lane, "backward")
    covered = passes.until(t1[inside]) - passes.until(t0[inside])
    heard = _hearing(found, lane)[1] * int((covered > 0).sum())
    written = sum(
        passes.within(mark.t0, mark.t1)
        for mark in found.marks
        if mark.what == "recording" and mark.thread == thread
    )
    others = Union(t0[~whole].tolist(), t1[~whole].tolist())
    free = passes.joined(others).within(0, _EVER) - others.within(0, _EVER)
    return max(0, min(round(heard) + written, free))


def without_recording(spent: dict[Any, int], recording: int) -> dict[Any, int]:
    """The recording's part of each whole backward's own time, in proportion to it."""
    total = sum(spent.values())
    part = min(1.0, recording / total) if total else 0.0
    return {key: round(part * ns) for key, ns in spent.items()}


def _weighed(
    samples: list[Sample], span: tuple[int, int], covered: Union, ends: np.ndarray, costs: Any,
    look: float,
) -> tuple[list[tuple[Sample, int]], int]:  # fmt: skip
    """Each sample with the uncovered time since the one before it; the recording's part of all.

    ends, costs  when an event or mark ended, and its cost in the listener; look: the cost of a
                 sample
    """
    times = np.array([span[0], *(sample.t for sample in samples), max(span)], np.int64)
    times = np.clip(times, *span)  # a sample may come while the log closes
    free = np.maximum(np.diff(times) - np.diff(covered.until(times)), 0)
    until = np.concatenate([[0.0], np.cumsum(costs)])[np.searchsorted(ends, times)]
    taken = np.diff(until)
    taken[1:] += look  # the first begins with the log
    heard = np.minimum(free, taken)
    left = (free - heard).astype(np.int64)
    return list(zip(samples, left[:-1].tolist(), strict=True)), int((free - left).sum())


def _in_ops(samples: list[Sample], start: int, covered: Union) -> list[int]:
    """For each sample, the covered time since the one before it."""
    times = np.array([start, *(sample.t for sample in samples)], np.int64)
    return np.diff(covered.until(times)).tolist()


# -- spots -----------------------------------------------------------------------------------------

_Frames = tuple[dict, ...]  # sites, outermost first


def _python(weighed: list[tuple[Sample, int]]) -> list[Spot]:
    """The lines where the program's Python, or its callees, spends most."""
    left = [
        (_outermost_first(s.stack), ns, s.via) for s, ns in weighed if _kind(s) == "python" and ns
    ]
    found = []
    while left and len(found) < 5:
        inner = _hot(left)
        place, function, members = inner
        ns = sum(left[i][1] for i in members)
        via = _heaviest((left[i][2], left[i][1]) for i in members)
        ours = sum(left[i][1] for i in members if left[i][2].partition(".")[0] == "minigrad")
        engine = ours > _MAIN_PART * ns
        found.append(Spot("python", place, function, ns, str(via or ""), engine=engine))
        left = [entry for i, entry in enumerate(left) if i not in members]
    return found


def _hot(stacks: list[tuple[_Frames, int, str]]) -> tuple[str, str, set[int]]:
    """(place, function, members): the innermost line or function that holds most of a hot line's
    time.

    The search goes from the outermost frames inwards: to the line with the most time, then to the
    function that it calls. It goes on while that function has most of the line's time. If a
    function spreads its time over many lines, the result is the whole function, with its heaviest
    line.
    """
    members = set(range(len(stacks)))
    depth = 0
    place, function = "", ""
    while True:
        here = [i for i in members if len(stacks[i][0]) > depth]
        total = sum(stacks[i][1] for i in members)
        called = _heaviest((_function(stacks[i][0][depth]), stacks[i][1]) for i in here)
        inner = {i for i in here if _function(stacks[i][0][depth]) == called}
        if depth and sum(stacks[i][1] for i in inner) < _MAIN_PART * total:
            return place, function, members
        whole = sum(stacks[i][1] for i in inner)
        place = str(_heaviest((place_of(stacks[i][0][depth]), stacks[i][1]) for i in inner))
        at_line = {i for i in inner if place_of(stacks[i][0][depth]) == place}
        function = stacks[next(iter(at_line))][0][depth]["function"]
        if depth and sum(stacks[i][1] for i in at_line) < _MAIN_PART * whole:
            return place, function, inner
        members = at_line
        depth += 1


def _outermost_first(sites: Sequence[dict]) -> _Frames:
    """The frames; a comprehension counts for the line of its function."""
    return tuple(site for site in reversed(sites) if not site["function"].endswith(_COMPREHENSIONS))


_COMPREHENSIONS = tuple(f"<{name}comp>" for name in ("list", "set", "dict"))


def _function(site: dict) -> Hashable:
    return site["file"], site["function"]


def _heaviest(weighted: Iterable[tuple[Hashable, int]]) -> Hashable:
    sums: dict[Hashable, int] = {}
    for what, ns in weighted:
        sums[what] = sums.get(what, 0) + ns
    return max(sums, key=lambda what: sums[what], default=None)


def _imports(weighed: list[tuple[Sample, int]], in_ops: list[int]) -> list[Spot]:
    """Imports, by the line that requested them."""
    found: dict[str, Spot] = {}
    names: dict[str, list[tuple[str, int]]] = {}
    for (sample, ns), more in zip(weighed, in_ops, strict=True):
        if sample.doing != "import":
            continue
        site = sample.stack[0]
        spot = found.setdefault(place_of(site), Spot("import", place_of(site), site["function"], 0))
        spot.ns += ns + more
        spot.in_ops += more
        spot.top = site["function"] == "<module>"
        names.setdefault(spot.place, []).append((sample.via, ns + more))
    for place, spot in found.items():
        spot.via = str(_heaviest(names[place]))
    return list(found.values())


def _data(weighed: list[tuple[Sample, int]], others: list[Sample]) -> list[Spot]:
    """Batches of DataLoaders: the line where they are made, and the loop that waits for them."""
    by_asker: dict[str, list[tuple[Sample, int]]] = {}
    for sample, ns in weighed:
        if sample.doing == "data" and ns:
            outer = sample.stack[min(sample.inside, len(sample.stack) - 1)]
            by_asker.setdefault(place_of(outer), []).append((sample, ns))
    found = []
    for asker, waited in by_asker.items():
        total = sum(ns for _, ns in waited)
        own = [(_outermost_first(s.stack[: s.inside]), ns, s.via) for s, ns in waited if s.inside]
        waits = sum(ns for _, ns, _ in own) < _MAIN_PART * total
        if waits:  # in workers: their lines; workers that are processes have none
            own = [(_outermost_first(s.stack[: s.inside]), 1, s.via) for s in others]
        place, function = asker, ""
        if own:
            place, function, _ = _hot(own)
        found.append(Spot("data", place, function, total, asker=asker, waits=waits))
    return found
