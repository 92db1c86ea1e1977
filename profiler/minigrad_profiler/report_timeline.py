"""The timeline of the report: the longest events one by one, the rest as how busy each moment was.

However long the log, the page gets at most MOST_EVENTS bars; it says how many it does not have.
"""

from typing import Any

import numpy as np

from minigrad.instrument.records import Mark

from .report_log import Call, Measured, inert

MOST_EVENTS = 20_000
MOST_MARKS = 4_000
MOST_LANES = 64
BINS = 1_500  # stretches of time in which what has no bar is counted


def timeline(measured: Measured) -> dict[str, Any]:
    """Times in nanoseconds from the log's start.

    calls  what bars are of: [kind, op, shapes, place, function, scope, bytes, flops, moved]
    lanes  bars: flat lists of start, duration, call, node number (-1: none);
           marks: [start, duration, what, name]; rest: how many have no bar, their busy part
           of each stretch in percent
    """
    start, stop = measured.span
    order = sorted(measured.lanes, key=lambda thread: -len(measured.lanes[thread].t0))
    shown, hidden = order[:MOST_LANES], order[MOST_LANES:]
    shortest, kept = _kept(measured, shown)
    numbers: dict[int, int] = {}
    lanes = []
    for thread in shown:
        lane = measured.lanes[thread]
        t0 = np.asarray(lane.t0)
        spent = np.asarray(lane.t1) - t0
        keep = kept[thread]
        bars: list[int] = []
        for i in np.flatnonzero(keep)[np.lexsort((-spent[keep], t0[keep]))].tolist():
            call = numbers.setdefault(lane.key[i], len(numbers))
            bars += (int(t0[i]) - start, int(spent[i]), call, measured.seqs[thread][i])
        lanes.append(
            {
                "name": inert(lane.name, 60),
                "bars": bars,
                "marks": _marks(measured.marks, thread, start),
                "rest": int(len(keep) - keep.sum()),
                "busy": _busy(t0[~keep], spent[~keep], start, stop),
            }
        )
    return {
        "span": stop - start,
        "calls": [_described(measured.keys[number]) for number in numbers],
        "lanes": lanes,
        "shortest": shortest,
        "hidden": len(hidden),
        "hidden_events": sum(len(measured.lanes[thread].t0) for thread in hidden),
        "marks": len(measured.marks),
    }


def _kept(measured: Measured, shown: list[int]) -> tuple[int, dict[int, np.ndarray]]:
    """Which events get a bar, in each lane, and how long the shortest of them is (0: all do)."""
    spent = {
        thread: np.asarray(measured.lanes[thread].t1) - np.asarray(measured.lanes[thread].t0)
        for thread in shown
    }
    count = sum(map(len, spent.values()))
    if count <= MOST_EVENTS:
        return 0, {thread: np.ones(len(times), bool) for thread, times in spent.items()}
    together = np.concatenate(list(spent.values()))
    limit = int(np.partition(together, count - MOST_EVENTS)[count - MOST_EVENTS])
    keep = {thread: times > limit for thread, times in spent.items()}  # ties might be many
    return limit, keep


def _busy(t0: np.ndarray, spent: np.ndarray, start: int, stop: int) -> list[int]:
    """For each stretch of time, the percent of it that events begun there took."""
    if not len(t0):
        return []
    width = (stop - start) / BINS
    places = np.clip(((t0 - start) / width).astype(int), 0, BINS - 1)
    percent = 100 * np.bincount(places, weights=spent, minlength=BINS) / width
    return np.clip(np.ceil(percent), 0, 100).astype(int).tolist()


def _marks(marks: list[Mark], thread: int, start: int) -> list[list[Any]]:
    own = [mark for mark in marks if mark.thread == thread]
    own = sorted(own, key=lambda mark: mark.t0 - mark.t1)[:MOST_MARKS]
    own.sort(key=lambda mark: (mark.t0, -mark.t1))
    return [
        [max(0, mark.t0 - start), mark.t1 - mark.t0, mark.what, inert(mark.name, 80)]
        for mark in own
    ]


def _described(call: Call) -> list[Any]:
    return [
        call.kind, inert(call.op, 60), inert(call.shapes, 80), inert(call.place, 120),
        inert(call.function, 60), inert(call.scope, 100), call.bytes, call.flops, call.moved,
    ]  # fmt: skip
