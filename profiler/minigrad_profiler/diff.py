"""Changes between two states of a program, and whether they exceed the noise.

Rows are matched by scope, op, direction and shapes. The time of a row in one run is the mean of the
quick third of its calls, times their number. A call that the machine held up says nothing about the
program. Noise is the noise between runs, not between the calls of one run. Medians over the runs of
each side are compared in units of the runs' spread. Rows share that spread in part, since a row of
five runs knows its own spread badly.

In one comparison of a hundred, chance may make a row look changed. The rows divide that probability
by their share of the time; one tenth of it belongs to the total. Fewer than three runs a side give
no such spread and no verdict: only "slower?".
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from minigrad.instrument.formats import Event, header, json_text
from minigrad.instrument.lanes import Lanes, walk
from minigrad.instrument.table import duration, text_table

from .names import fitted, sentence
from .view import shapes_of

ENOUGH = 3  # runs of a side for a verdict
_CHANCE = 0.01  # that a comparison of two equal programs reports a change
_OF_TOTAL = 0.1  # the total's part of it
_SHARED = 2  # degrees of freedom that a row's spread takes from all rows
_LEAST_SPREAD = 0.004  # of the logarithm: runs never differ by less
_SINGLE = 3.0  # spreads of the calls' mean beyond which one run says "slower?"
_FROM_MEDIAN = 1.4826  # standard deviations in a median absolute deviation, for a normal spread
_OF_MEDIAN = 1.2533  # the standard error of a median, in that of a mean
_TOLD = 0.1  # of a row: runs go on until they can show such a change
_NOTABLE = 0.05  # of the whole: the least row that may fail a comparison by itself


@dataclass(slots=True)
class Change:
    """One row: nanoseconds (self, of all calls) before and after; noise of their difference.

    firm   enough runs for a verdict
    """

    name: str
    calls_before: int
    calls_after: int
    before_ns: float
    after_ns: float
    noise_ns: float
    firm: bool = True

    @property
    def delta_ns(self) -> float:
        return self.after_ns - self.before_ns

    @property
    def verdict(self) -> str:
        """ "slower", "faster", "same", or "only before", "only after"; with few runs "slower?"."""
        if self.calls_before and not self.calls_after:
            return "only before"
        if self.calls_after and not self.calls_before:
            return "only after"
        if abs(self.delta_ns) <= self.noise_ns:
            return "same"
        return ("slower" if self.delta_ns > 0 else "faster") + "?" * (not self.firm)

    def slower_by(self, limit: float) -> bool:
        """Whether it is slower beyond noise, and by more than `limit`, a part of the time
        before."""
        return self.verdict == "slower" and self.delta_ns > limit * self.before_ns


@dataclass(slots=True)
class Difference:
    """All rows, the largest change first, and their sum."""

    changes: list[Change]
    total: Change
    notes: list[str]
    runs: tuple[int, int] = (1, 1)

    @property
    def firm(self) -> bool:
        """Whether there are enough runs for verdicts."""
        return min(self.runs) >= ENOUGH

    @property
    def tells_enough(self) -> bool:
        """Whether each row of some weight would show a change of a tenth.

        To continue while one would not makes no false alarm likelier: the test ignores the change
        itself.
        """
        return all(c.noise_ns <= _TOLD * c.before_ns for c in self._weighty)

    @property
    def _weighty(self) -> list[Change]:
        return [c for c in self.changes if c.before_ns >= _NOTABLE * self.total.before_ns]

    def failures(self, limit: float) -> list[Change]:
        """The total, and the rows of some weight, that are slower by more than `limit`."""
        return [c for c in [self.total, *self._weighty] if c.calls_before and c.slower_by(limit)]

    def json(self) -> str:
        """The whole comparison as a JSON text."""
        rows = [asdict(c) | {"verdict": c.verdict, "delta_ns": c.delta_ns} for c in self.changes]
        total = asdict(self.total) | {"verdict": self.total.verdict}
        found = {**header("minigrad.diff"), "runs": list(self.runs), "total": total, "rows": rows}
        return json_text(found)

    def text(self, width: int = 80, top: int = 20) -> str:
        """A table: the changes beyond noise, then a line on the rest, then the sum."""
        told = [c for c in self.changes if c.verdict != "same"]
        rows = [_cells(c) for c in [*told[:top], self.total]]
        columns = ["<scope op shapes", "before", "after", "change", "noise", "<"]
        parts = [text_table(columns, rows, width, fitted)]
        if len(told) > top:
            parts.append(f"({len(told) - top} more that changed)")
        same = len(self.changes) - len(told)
        parts.append(f"{same} of {len(self.changes)} rows are the same within their noise")
        if not self.firm:
            parts += sentence(
                "one run says nothing of the noise between runs: "
                "minigrad-profile diff --runs 5 before.py after.py runs both in turns",
                width,
            )
        return "\n".join(parts)


class _Side:
    """One side: for each row the times of its calls in each log, and their summary."""

    def __init__(self, paths: Sequence[str]):
        self.notes: list[str] = []
        self.runs = [self._read(path) for path in paths]
        self.rows = list(dict.fromkeys(name for run in self.runs for name in run))
        self.values = {
            name: np.array([_steady(run.get(name, ())) for run in self.runs]) for name in self.rows
        }
        self.sums = np.sum(list(self.values.values()), axis=0) if self.rows else np.zeros(1)

    def _read(self, path: str) -> dict[str, array]:
        times: dict[str, array] = {}
        lanes = Lanes(path, _key)
        for lane in lanes.lanes.values():
            for _, number, own, _ in walk(lane):
                if own is not None:
                    times.setdefault(lanes.keys[number], array("q")).append(own)
        if lanes.cut:
            self.notes.append(lanes.cut)
        if lanes.dropped:
            self.notes.append(f"{path}: {lanes.dropped:,} events were dropped")
        return times

    def calls(self, name: str) -> int:
        """Calls in one log, on average."""
        return round(sum(len(run.get(name, ())) for run in self.runs) / len(self.runs))

    def value(self, name: str) -> float:
        """Nanoseconds in one log: the median over the logs."""
        return float(np.median(self.values[name])) if name in self.values else 0.0

    def call_noise(self, name: str) -> float:
        """The standard deviation that the sum of a row's calls may have, by their own spread."""
        times = np.concatenate([np.asarray(run.get(name, ()), float) for run in self.runs])
        if len(times) < 2:
            return 0.1 * float(times.sum())  # one call says nothing about its spread
        spread = _FROM_MEDIAN * float(np.median(np.abs(times - np.median(times))))
        return spread * math.sqrt(len(times)) / len(self.runs)


def _steady(times: Sequence[int]) -> float:
    """Nanoseconds of all calls, if each took as long as the quick third of them.

    A busy machine holds calls up and never speeds them up. The quickest tenth does not count
    either.
    """
    if not len(times):
        return 0.0
    ordered = np.sort(np.asarray(times, float))
    first, last = len(ordered) // 10, max(len(ordered) // 10 + 1, len(ordered) // 3)
    return float(ordered[first:last].mean()) * len(ordered)


def _spread(values: np.ndarray) -> float:
    """The standard deviation of one run's logarithm, from deviations robust to outliers."""
    logs = np.log(values[values > 0])
    if len(logs) < 2:
        return 0.0
    deviation = float(np.abs(logs - np.median(logs)).mean())
    return _OF_MEDIAN * deviation * len(logs) / (len(logs) - 1)


def _key(event: Event) -> str:
    if event.kind == "pass":
        return "(engine and recording)"
    op = f"{event.op}.backward" if event.kind == "backward" else event.op
    return " ".join(filter(None, (event.scope, op, shapes_of(event))))


def difference(before: Sequence[str], after: Sequence[str]) -> Difference:
    """Compare the logs of two states of a program: the logs of several runs of each."""
    a, b = _Side(before), _Side(after)
    runs = len(a.runs), len(b.runs)
    firm = min(runs) >= ENOUGH
    noise = _Noise(a, b)
    names = dict.fromkeys([*a.rows, *b.rows])
    changes = [
        Change(name, a.calls(name), b.calls(name), a.value(name), b.value(name), 0.0, firm)
        for name in names
    ]
    whole = sum(c.before_ns + c.after_ns for c in changes) or 1.0
    for change in changes:
        share = (change.before_ns + change.after_ns) / whole
        change.noise_ns = noise.of_row(change, (1 - _OF_TOTAL) * _CHANCE * share)
    changes.sort(key=lambda c: (-abs(c.delta_ns), c.name))
    total = Change(
        "total",
        sum(c.calls_before for c in changes),
        sum(c.calls_after for c in changes),
        float(np.median(a.sums)),
        float(np.median(b.sums)),
        0.0,
        firm,
    )
    total.noise_ns = noise.of_total(total, _OF_TOTAL * _CHANCE)
    return Difference(changes, total, [*a.notes, *b.notes], runs)


class _Noise:
    """How far the medians of two sides may differ by chance."""

    def __init__(self, a: _Side, b: _Side):
        self.a, self.b = a, b
        self.runs = len(a.runs), len(b.runs)
        own = [self._own(name) for name in a.rows if name in b.values and a.value(name)]
        weights = [a.value(name) for name in a.rows if name in b.values and a.value(name)]
        self.shared = _weighted_median(own, weights)

    def _own(self, name: str) -> float:
        return self._of_both(self.a.values[name], self.b.values[name])

    def _of_both(self, a: np.ndarray, b: np.ndarray) -> float:
        """The spread of a row's runs, both sides together."""
        n, m = len(a) - 1, len(b) - 1
        squares = n * _spread(a) ** 2 + m * _spread(b) ** 2
        return math.sqrt(squares / max(1, n + m))

    def of_row(self, change: Change, chance: float) -> float:
        """The largest change of a row that is chance, except with this probability."""
        name = change.name
        if not change.firm or not (change.calls_before and change.calls_after):
            noise = [side.call_noise(name) for side in (self.a, self.b) if name in side.values]
            return _SINGLE * math.hypot(*noise)
        return self._bound(self._own(name), chance) * change.before_ns

    def of_total(self, total: Change, chance: float) -> float:
        """The same for the sum of all rows."""
        if not total.firm:
            sides = (self.a, self.b)
            return _SINGLE * math.hypot(*(s.call_noise(name) for s in sides for name in s.rows))
        return self._bound(self._of_both(self.a.sums, self.b.sums), chance) * total.before_ns

    def _bound(self, own: float, chance: float) -> float:
        n, m = self.runs
        free = n + m - 2
        squares = (free * own**2 + _SHARED * self.shared**2) / (free + _SHARED)
        error = max(math.sqrt(squares), _LEAST_SPREAD) * _OF_MEDIAN * math.sqrt(1 / n + 1 / m)
        return math.expm1(error * _student(1 - max(chance, 1e-9) / 2, free + _SHARED))


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value below which half of the weight lies."""
    if not values:
        return 0.0
    order = np.argsort(values)
    sums = np.cumsum(np.asarray(weights)[order])
    return float(np.asarray(values)[order][np.searchsorted(sums, sums[-1] / 2)])


def _student(probability: float, free: int) -> float:
    """A quantile of Student's distribution, by its expansion around the normal one."""
    z = NormalDist().inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / free + second / free**2 + third / free**3


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
