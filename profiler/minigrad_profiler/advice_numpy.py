"""Findings about NumPy and tensors: float64 that comes in, tensors that leave and return."""

from collections.abc import Iterator
from typing import Any

from minigrad.instrument.records import Mark
from minigrad.instrument.table import counted, duration, size

from .advice_time import NOTED
from .finding import Finding, short
from .names import often, place_of
from .outside import Outside
from .report_log import NO_LINE, Measured

_WIDE = ("float64", "complex128")
_MOST_GAP = 16  # ops between leaving and returning: with more, it is hardly the same array


def numpy_findings(measured: Measured, beside: Outside) -> list[Finding]:
    """All findings about NumPy; of each kind the weightiest come first."""
    return [*_promotions(measured, beside), *_round_trips(measured, beside)]


def _promotions(measured: Measured, beside: Outside) -> list[Finding]:
    """The lines at which float64 came in; the evidence names the lines that inherit it."""
    made: dict[str, dict[str, int]] = {}  # line that made it -> where it came in: calls
    ops: dict[str, dict[str, int]] = {}
    nbytes: dict[str, int] = {}
    wide = wide_ns = 0
    for call, sums in measured.by_key():
        if call.dtype in _WIDE and call.kind != "pass":
            wide += sums.calls
            wide_ns += sums.self_ns
        if call.promoted:
            came = made.setdefault(call.place, {})
            source = call.came or call.place
            came[source] = came.get(source, 0) + sums.calls
            at = ops.setdefault(call.place, {})
            at[call.op] = at.get(call.op, 0) + sums.calls
            nbytes[call.place] = nbytes.get(call.place, 0) + sums.calls * call.bytes
    sources: dict[str, list[str]] = {}
    for place, came in made.items():  # the first step may lack its source: take the most frequent
        sources.setdefault(max(came, key=lambda source: came[source]), []).append(place)
    every = sum(nbytes.values())
    found = []
    for source, places in sorted(sources.items(), key=lambda s: -sum(nbytes[p] for p in s[1]))[:3]:
        mixed = sum(nbytes[place] for place in places)
        part = wide_ns / beside.own * (mixed / every if every else 1.0)
        told = ", ".join(f"{op} ({often(n)})" for op, n in _sums(ops[p] for p in places).items())
        evidence = (
            f"{told} made {size(mixed)} of float64; {counted(wide, 'call')} in the log gave "
            f"float64 in all, {wide_ns / beside.own:.0%} of the run"
        )
        others = [short(place) for place in places if place != source]
        if others:
            evidence += f"; inherited by {', '.join(others[:3])}"
        text = (
            "an array or scalar among the tensors is float64, NumPy's default: give it "
            "dtype=float32 where it is made"
        )
        where = "" if source == NO_LINE else source
        title = "float64 comes in here and makes narrower floats wide"
        found.append(Finding("float64", title, where, evidence, text, part, part > NOTED))
    return found


def _sums(counts: Iterator[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _round_trips(measured: Measured, beside: Outside) -> list[Finding]:
    """Tensors that leave for NumPy in the middle of a step and come back a moment later."""
    trips: dict[tuple[str, str], list[int]] = {}
    for left, back in _pairs(measured):
        entry = trips.setdefault((place_of(left.site), place_of(back.site)), [0, 0])
        entry[0] += 1
        entry[1] += back.t1 - left.t0
    found = []
    for (out, back), (count, spent) in trips.items():
        if count < 2:
            continue
        part = spent / beside.own
        where = "" if out == back else f", back at {short(back)}"
        evidence = f"{often(count)}, {duration(spent)} from leaving to being back{where}"
        text = (
            "the same function on tensors (mg has most of NumPy's) keeps it among the ops, with "
            "its gradient; a plain array has none"
        )
        title = f"through NumPy and back: {part:.0%} of the run"
        found.append(Finding("round trip", title, out, evidence, text, part, part > NOTED / 3))
    return sorted(found, key=lambda finding: -finding.weight)[:3]


def _pairs(measured: Measured) -> Iterator[tuple[Mark, Mark]]:
    """Each leaving with the return that follows it, on one line or with an array of one shape."""
    left: dict[int, Mark] = {}  # thread -> the latest
    for mark in measured.marks:
        if mark.what == "to NumPy" and mark.site is not None:
            left[mark.thread] = mark
        elif mark.what == "from NumPy" and mark.site is not None:
            before = left.pop(mark.thread, None)
            if before is not None and _belong_together(before, mark):
                yield before, mark


def _belong_together(left: Mark, back: Mark) -> bool:
    a: Any = left.site
    b: Any = back.site
    if (a["file"], a["function"]) != (b["file"], b["function"]):
        return False
    same_shape = _shape(left) == _shape(back)
    return a["line"] == b["line"] or (same_shape and a["line"] < b["line"])


def _shape(mark: Mark) -> str:
    """The shape in "to NumPy (2, 3) float32"."""
    return mark.name.partition("(")[2].partition(")")[0]
