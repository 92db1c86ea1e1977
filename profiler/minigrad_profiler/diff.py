"""What changed between two profiles, and whether it is more than noise.

Rows are matched by scope, op, direction and shapes. The noise of a row is estimated from the spread
of its calls (median absolute deviation, by √calls), or, where a side has several logs, from the
spread of its totals; a difference counts only beyond it.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from minigrad.instrument.formats import Event, header, json_text
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.table import duration, text_table

from .names import fitted
from .view import shapes_of

_DEVIATIONS = 3.0  # of the estimated noise: what lies within is not a difference
_FROM_MEDIAN = 1.4826  # standard deviations in a median absolute deviation, for a normal spread
_NOTABLE = 0.05  # of the whole: a row that may fail a comparison by itself


@dataclass(slots=True)
class Change:
    """One row: nanoseconds (self, of all calls) before and after; noise of their difference."""

    name: str
    calls_before: int
    calls_after: int
    before_ns: float
    after_ns: float
    noise_ns: float

    @property
    def delta_ns(self) -> float:
        return self.after_ns - self.before_ns

    @property
    def verdict(self) -> str:
        """ "slower", "faster", "same", or "only before", "only after"."""
        if self.calls_before and not self.calls_after:
            return "only before"
        if self.calls_after and not self.calls_before:
            return "only after"
        if abs(self.delta_ns) <= self.noise_ns:
            return "same"
        return "slower" if self.delta_ns > 0 else "faster"

    def slower_by(self, limit: float) -> bool:
        """Whether it is slower by more than this part, noise allowed for."""
        return self.delta_ns > self.noise_ns + limit * self.before_ns


@dataclass(slots=True)
class Difference:
    """All rows, the largest change first, and their sum."""

    changes: list[Change]
    total: Change
    notes: list[str]

    def failures(self, limit: float) -> list[Change]:
        """The total, and the rows of some weight, that are slower by more than `limit`."""
        weighty = [c for c in self.changes if c.before_ns >= _NOTABLE * self.total.before_ns]
        return [c for c in [self.total, *weighty] if c.calls_before and c.slower_by(limit)]

    def json(self) -> str:
        """Everything as a JSON text."""
        rows = [asdict(c) | {"verdict": c.verdict, "delta_ns": c.delta_ns} for c in self.changes]
        total = asdict(self.total) | {"verdict": self.total.verdict}
        return json_text({**header("minigrad.diff"), "total": total, "rows": rows})

    def text(self, width: int = 80, top: int = 20) -> str:
        """A table: what changed beyond noise, then a line on the rest, then the sum."""
        told = [c for c in self.changes if c.verdict != "same"]
        rows = [_cells(c) for c in [*told[:top], self.total]]
        columns = ["<scope op shapes", "before", "after", "change", "noise", "<"]
        parts = [text_table(columns, rows, width, fitted)]
        if len(told) > top:
            parts.append(f"({len(told) - top} more that changed)")
        same = len(self.changes) - len(told)
        parts.append(f"{same} of {len(self.changes)} rows are the same within their noise")
        return "\n".join(parts)


class _Side:
    """One side: for each row the times of its calls, and its total in each log."""

    def __init__(self, paths: Sequence[str]):
        self.times: dict[str, array] = {}
        self.totals: list[dict[str, int]] = []
        self.notes: list[str] = []
        for path in paths:
            lanes = Lanes(path, _key)
            totals: dict[str, int] = {}
            for lane in lanes.lanes.values():
                for _, number, own, _ in walk(lane):
                    if own is not None:
                        name = lanes.keys[number]
                        self.times.setdefault(name, array("q")).append(own)
                        totals[name] = totals.get(name, 0) + own
            self.totals.append(totals)
            if lanes.cut:
                self.notes.append(lanes.cut)
            if lanes.dropped:
                self.notes.append(f"{path}: {lanes.dropped:,} events were dropped")

    def calls(self, name: str) -> int:
        """Calls in one log, on average."""
        return round(len(self.times.get(name, ())) / len(self.totals))

    def total(self, name: str) -> float:
        """Nanoseconds in one log: the median over the logs."""
        return float(np.median([totals.get(name, 0) for totals in self.totals]))

    def noise(self, name: str) -> float:
        """The standard deviation that `total` may have."""
        if len(self.totals) > 1:
            values = np.array([totals.get(name, 0) for totals in self.totals], float)
            return float(values.std(ddof=1) / math.sqrt(len(values)))
        times = np.asarray(self.times.get(name, array("q")), float)
        if len(times) < 2:
            return 0.1 * float(times.sum())  # one call tells nothing of its spread
        spread = _FROM_MEDIAN * float(np.median(np.abs(times - np.median(times))))
        return spread * math.sqrt(len(times))

    def whole(self) -> float:
        return float(np.median([sum(totals.values()) for totals in self.totals]))

    def whole_noise(self) -> float:
        if len(self.totals) > 1:
            values = np.array([sum(totals.values()) for totals in self.totals], float)
            return float(values.std(ddof=1) / math.sqrt(len(values)))
        return math.sqrt(sum(self.noise(name) ** 2 for name in self.times))


def _key(event: Event) -> str:
    if event.kind == "pass":
        return "(engine and recording)"
    op = f"{event.op}.backward" if event.kind == "backward" else event.op
    return " ".join(filter(None, (event.scope, op, shapes_of(event))))


def difference(before: Sequence[str], after: Sequence[str]) -> Difference:
    """Compare the logs of two states of a program; several of each narrow the noise."""
    a, b = _Side(before), _Side(after)
    changes = []
    for name in dict.fromkeys([*a.times, *b.times]):
        noise = _DEVIATIONS * math.hypot(a.noise(name), b.noise(name))
        changes.append(
            Change(name, a.calls(name), b.calls(name), a.total(name), b.total(name), noise)
        )
    changes.sort(key=lambda c: (-abs(c.delta_ns), c.name))
    total = Change(
        "total",
        sum(c.calls_before for c in changes),
        sum(c.calls_after for c in changes),
        a.whole(),
        b.whole(),
        _DEVIATIONS * math.hypot(a.whole_noise(), b.whole_noise()),
    )
    return Difference(changes, total, [*a.notes, *b.notes])


def _cells(change: Change) -> list[str]:
    if not change.calls_after:
        part = "gone" if change.calls_before else ""
    elif change.before_ns:
        part = f"{100 * change.delta_ns / change.before_ns:+.1f} %"
    else:
        part = "new"
    noise = f"±{100 * change.noise_ns / change.before_ns:.1f} %" if change.before_ns else ""
    return [
        change.name,
        duration(change.before_ns) if change.calls_before else "",
        duration(change.after_ns) if change.calls_after else "",
        part,
        noise,
        change.verdict,
    ]
