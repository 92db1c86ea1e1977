"""The timeline of the report: the longest events one by one, the rest as the load of each moment.

For a log of any length, the page gets at most MOST_EVENTS bars, and says how many are missing.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.instrument.formats import is_count
from minigrad.instrument.lanes import Lane
from minigrad.instrument.records import Mark

from .report_log import Call, Measured, inert, inert_place

MOST_EVENTS = 20_000
MOST_MARKS = 4_000
MOST_LANES = 64
EACH_LOG = 1 << 44  # node numbers of the second log begin here
_FAR = 10**15  # nanoseconds, some 11 days: logs with such a distance belong to different runs
BINS = 600  # stretches of time that count the events without a bar


class _Place(NamedTuple):
    """A lane to be drawn: its log, its thread, and the shift of its times on the page."""

    log: int
    measured: Measured
    thread: int
    shift: int

    @property
    def lane(self) -> Lane:
        return self.measured.lanes[self.thread]


def timeline(measured: Measured, others: Sequence[Measured] = ()) -> dict[str, Any]:
    """The timeline's data; times in nanoseconds from the start of the earliest log.

    others  logs of other processes of the same run
    calls   the calls of bars: [kind, op, shapes, place, function, scope, bytes, flops, moved]
    lanes   bars: flat lists of start, duration, call, node number (-1: none);
            marks: [start, duration, what, name]; rest: the number of events without a bar;
            busy: their percent of each stretch
    """
    logs = [measured, *others]
    shifts, span = _clocks(logs)
    places = [
        _Place(log, found, thread, shifts[log])
        for log, found in enumerate(logs)
        for thread in sorted(found.lanes, key=lambda thread: -len(found.lanes[thread].t0))
    ]
    shown, hidden = places[:MOST_LANES], places[MOST_LANES:]
    shortest, kept = _kept(shown)
    numbers: dict[tuple[int, int], int] = {}
    lanes = [_drawn(place, keep, numbers, span) for place, keep in zip(shown, kept, strict=True)]
    if others:
        for place, lane in zip(shown, lanes, strict=True):
            rank = _rank(place.measured)
            log = f"rank {rank.name}" if rank else os.path.basename(place.measured.path)
            lane["name"] = f"{inert(log, 40)}: {lane['name']}"
    return {
        "span": span,
        "calls": [_described(logs[log].keys[number]) for log, number in numbers],
        "lanes": lanes,
        "shortest": shortest,
        "hidden": len(hidden),
        "hidden_events": sum(len(place.lane.t0) for place in hidden),
        "marks": sum(len(found.marks) for found in logs),
    }


def _clocks(logs: list[Measured]) -> tuple[list[int], int]:
    """The shift to subtract from each log's times, and the length of all of them together.

    The moments at which a barrier let all ranks go become one moment. Without them the computer's
    clock decides; logs that it puts too far from each other begin together.
    """
    marks = [mark for mark in map(_rank, logs) if mark is not None]
    clocks: list[Any] = [found.header.get("base_unix_ns") for found in logs]
    starts = [found.span[0] for found in logs]
    begins = [0] * len(logs)
    if len(marks) == len(logs):
        begins = [start - mark.t1 for start, mark in zip(starts, marks, strict=True)]
    elif all(map(is_count, clocks)):
        begins = [clock - clocks[0] for clock in clocks]
    if max(map(abs, begins)) > _FAR:
        begins = [0] * len(logs)
    first = min(begins)
    ends = [begin - first + found.span[1] - found.span[0] for found, begin in zip(logs, begins)]
    return [start - begin + first for start, begin in zip(starts, begins)], max(ends)


def _rank(found: Measured) -> Mark | None:
    """The mark that mg.distributed.event_log writes when all ranks have begun."""
    return next((mark for mark in found.marks if mark.what == "rank"), None)


def _drawn(
    place: _Place, keep: np.ndarray, numbers: dict[tuple[int, int], int], span: int
) -> dict[str, Any]:
    lane, seqs = place.lane, place.measured.seqs[place.thread]
    t0 = np.asarray(lane.t0) - place.shift
    spent = np.asarray(lane.t1) - np.asarray(lane.t0)
    bars: list[int] = []
    for i in np.flatnonzero(keep)[np.lexsort((-spent[keep], t0[keep]))].tolist():
        call = numbers.setdefault((place.log, lane.key[i]), len(numbers))
        seq = seqs[i] + place.log * EACH_LOG if seqs[i] >= 0 else -1
        bars += (int(t0[i]), int(spent[i]), call, seq)
    return {
        "name": inert(lane.name, 60),
        "bars": bars,
        "marks": _marks(place),
        "rest": int(len(keep) - keep.sum()),
        "busy": _busy(t0[~keep], spent[~keep], span),
    }


def _kept(shown: list[_Place]) -> tuple[int, list[np.ndarray]]:
    """The length of the shortest event with a bar (0: all have one), and which have one, in each
    lane."""
    spent = [np.asarray(place.lane.t1) - np.asarray(place.lane.t0) for place in shown]
    count = sum(map(len, spent))
    if count <= MOST_EVENTS:
        return 0, [np.ones(len(times), bool) for times in spent]
    together = np.concatenate(spent)
    limit = int(np.partition(together, count - MOST_EVENTS)[count - MOST_EVENTS])
    return limit, [times > limit for times in spent]  # without ties, which may be many


def _busy(t0: np.ndarray, spent: np.ndarray, span: int) -> list[int]:
    """For each stretch of time, the percent of it taken by events that began there."""
    if not len(t0):
        return []
    width = span / BINS
    places = np.clip((t0 / width).astype(int), 0, BINS - 1)
    percent = 100 * np.bincount(places, weights=spent, minlength=BINS) / width
    return np.clip(np.ceil(percent), 0, 100).astype(int).tolist()


def _marks(place: _Place) -> list[list[Any]]:
    own = [mark for mark in place.measured.marks if mark.thread == place.thread]
    own = sorted(own, key=lambda mark: mark.t0 - mark.t1)[:MOST_MARKS]
    own.sort(key=lambda mark: (mark.t0, -mark.t1))
    return [
        [max(0, mark.t0 - place.shift), mark.t1 - mark.t0, mark.what, inert(mark.name, 80)]
        for mark in own
    ]


def _described(call: Call) -> list[Any]:
    return [
        call.kind, inert(call.op, 60), inert(call.shapes, 80), inert_place(call.place),
        inert(call.function, 60), inert(call.scope, 100), call.bytes, call.flops, call.moved,
    ]  # fmt: skip
