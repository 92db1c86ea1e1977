"""Findings about time: slow lines, tiny ops, accidental float64, copies, time outside of ops."""

import math
import re
from dataclasses import dataclass, field

from minigrad.instrument.table import counted, duration, size

from .finding import FAULT, Finding, short
from .outside import Outside, Spot
from .report_log import NO_LINE, Measured
from .report_tables import Line

_TINY_NS = 100_000  # below, calling an op dominates its time, even on a slow and busy machine
_MANY = 0.1  # of all calls
_LOOP = 16  # calls on a line for each backward: so many or more come from a loop
_SAME = 8  # calls of one of its ops
NOTED = 0.03  # of the run: a smaller part is no fault
_JOINING = ("concatenate_arrays", "stack_arrays")
_GROWN = 8  # joined lengths that a later join takes: so many or more come from a loop
_TRANSFERS = ("device_copy",)


def time_findings(measured: Measured, lines: list[Line], beside: Outside) -> list[Finding]:
    """Findings from the times of ops, and from the time between them."""
    pieces = _pieces(measured, lines, beside)
    growing = {finding.place: finding.weight for finding in pieces if finding.fault}
    found = [*_slowest(measured, lines, beside), *_tiny(measured, lines, beside, growing)]
    found += [*pieces, *_transfers(measured)]
    return [*found, *_outside(beside), *_recording(beside)]


def _time_of(line: Line) -> int:
    """The time of the ops on a line, without the engine."""
    return sum(line.points[phase].self_ns for phase in line.points)


def _passes(measured: Measured) -> int:
    return sum(sums.calls for call, sums in measured.by_key() if call.kind == "pass")


def _slowest(measured: Measured, lines: list[Line], beside: Outside) -> list[Finding]:
    known = [line for line in lines if line.place]
    total = sum(map(_time_of, lines))
    if not known or not total:
        return []
    line = max(known, key=_time_of)
    spent = _time_of(line)
    op, calls, times = _main_op(measured, line.place)
    rounds = _passes(measured)
    each = calls / max(1, rounds)
    part = spent / beside.own
    forward, backward = (line.points[phase].self_ns for phase in ("forward", "backward"))
    ran = counted(calls, "forward call")
    if each >= 1 and rounds:
        ran += f", {format(each, ',.0f' if each > 99 else '.3g')} for each backward"
    evidence = (
        f"{duration(spent)} of the {duration(total)} in ops ({spent / total:.0%}), of "
        f"{duration(beside.own)} without the recording: {duration(forward)} "
        f"forward, {duration(backward)} backward, most of it in {op} ({ran})"
    )
    bound = line.bound("backward" if backward > forward else "forward")
    return [
        Finding("slow line", f"slowest line of ops: {part:.0%} of the run", line.place, evidence,
                _faster(bound, op, each, bool(rounds), times), part)
    ]  # fmt: skip


def _main_op(measured: Measured, place: str) -> tuple[str, int, int]:
    """(the op that took most on a line, its forward calls, the most of them of one shape)."""
    spent: dict[str, int] = {}
    calls: dict[str, dict[str, int]] = {}
    for call, sums in measured.by_key():
        if call.place == place and call.kind != "pass":
            spent[call.op] = spent.get(call.op, 0) + sums.self_ns
            if call.kind == "forward":
                shapes = calls.setdefault(call.op, {})
                shapes[call.shapes] = shapes.get(call.shapes, 0) + sums.calls
    op = max(spent, key=lambda name: spent[name])
    shapes = calls.get(op, {})
    return op, sum(shapes.values()), max(shapes.values(), default=0)


_SHORTEST = 20_000_000  # ns of a run: a shorter one has too few samples


def _faster(bound: str, op: str, each: float, steps: bool, same: int) -> str:
    if each >= 4 and same >= 4:
        return (
            f"{op} runs {each:,.0f} times {'a step ' * steps}here, most on the same shapes: "
            "compute constant parts once, regroup the products, or use one batched call"
        )
    if bound == "compute":
        return "the machine is busy computing: fewer operations or a narrower dtype help"
    if bound == "memory":
        return "it waits for memory: fewer passes over the data, or a narrower dtype, help"
    if bound == "overhead":
        return "calling the ops takes longer than their work: larger arrays in fewer calls help"
    return (
        "it is far below this machine's peaks, and not because of many calls. Look for other "
        "programs or BLAS's threads on the same cores (OPENBLAS_NUM_THREADS=1), strided reads, "
        "or a first call that imports or compiles something"
    )


def _tiny(
    measured: Measured, lines: list[Line], beside: Outside, growing: dict[str, float]
) -> list[Finding]:
    """Functions with lines of many calls that hardly do anything.

    Where one of their lines makes an array grow, that line is the fault, and the loop ranks behind
    it.
    """
    every, rounds = sum(line.calls for line in lines), max(1, _passes(measured))
    repeats = _repeats(measured)
    loops: dict[tuple[str, str], list[tuple[Line, int]]] = {}
    grows: dict[tuple[str, str], float] = {}
    for line in lines:
        points = [point for point in line.points.values() if point.calls]
        calls = sum(point.calls for point in points)
        function = line.place.rpartition(":")[0], line.name.removeprefix(line.place)
        if line.place in growing:
            grows[function] = growing[line.place]
            continue
        if not line.place or calls < max(100, _MANY * every, _LOOP * rounds):
            continue
        if repeats.get(line.place, 0) < _SAME * rounds:
            continue  # a whole model on one line is no loop
        bounds = {point.bound for point in points}
        if _time_of(line) / calls < _TINY_NS and "overhead" in bounds <= {"overhead", ""}:
            loops.setdefault(function, []).append((line, calls))
    tiny = {member.place for members in loops.values() for member, _ in members}
    large = [line for line in lines if line.place not in tiny]
    found = []
    for function, members in loops.items():
        most = max(calls for _, calls in members)
        spent = sum(_time_of(member) for member, _ in members)
        if any(line.calls > most / 4 and _time_of(line) > spent for line in large):
            continue  # the small ops of a loop that does large ones
        line, _ = max(members, key=lambda member: member[1])
        calls = sum(n for _, n in members)
        places = [member.place for member, _ in members]
        part = _with_surroundings(measured, beside, spent, places, calls / every)
        evidence = (
            f"{calls:,} of {every:,} calls ({calls / every:.0%}), {duration(spent / calls)} "
            f"each, {duration(spent)} together: calling them takes longer than their work"
        )
        text = "one op on the whole array instead of a loop over its parts"
        title = f"many tiny ops: {calls:,} calls, {part:.0%} of the run"
        weight, fault = min(part, grows.get(function, 1.0)), part > NOTED and function not in grows
        found.append(Finding("tiny ops", title, line.place, evidence, text, weight, fault))
    return sorted(found, key=lambda finding: -finding.weight)[:3]


def _repeats(measured: Measured) -> dict[str, int]:
    """For each line, the forward calls of its most frequent op."""
    calls: dict[str, dict[str, int]] = {}
    for call, sums in measured.by_key():
        if call.kind == "forward":
            ops = calls.setdefault(call.place, {})
            ops[call.op] = ops.get(call.op, 0) + sums.calls
    return {place: max(ops.values()) for place, ops in calls.items()}


def _with_surroundings(
    measured: Measured, beside: Outside, spent: int, places: list[str], of_calls: float
) -> float:
    """Ops as a part of the run, with the Python of their lines and the engine's time for them."""
    engine = sum(sums.self_ns for call, sums in measured.by_key() if call.kind == "pass")
    around = sum(beside.lines.get(place, 0) for place in places)
    return (spent + around + engine * of_calls) / beside.own


@dataclass(slots=True)
class _Joins:
    """Sums over the joins of a line: calls forward, and in all; bytes they made; elements made, and
    joined."""

    forward: int = 0
    calls: int = 0
    spent: int = 0
    bytes: int = 0
    made: set[int] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)


def _pieces(measured: Measured, lines: list[Line], beside: Outside) -> list[Finding]:
    """Lines that make an array longer piece by piece: each join copies all of it."""
    every = max(1, sum(line.calls for line in lines))
    places: dict[str, _Joins] = {}
    for call, sums in measured.by_key():
        if call.op in _JOINING and call.kind != "pass" and call.place != NO_LINE:
            joins = places.setdefault(call.place, _Joins())
            joins.calls += sums.calls
            joins.spent += sums.self_ns
            if call.kind == "forward":
                sizes = _elements(call.shapes)
                joins.forward += sums.calls
                joins.bytes += sums.calls * call.bytes
                joins.made.add(sum(sizes))
                joins.taken.update(sizes)
    found = []
    for place, joins in places.items():
        if len(joins.made & joins.taken) >= _GROWN:
            of_calls = joins.calls / every
            part = _with_surroundings(measured, beside, joins.spent, [place], of_calls)
            evidence = (
                f"{joins.forward:,} joins, most of them of earlier joins' results, copied "
                f"{size(joins.bytes)}; with the backward they took {duration(joins.spent)}"
            )
            text = "keep the pieces in a list, and join them once after the loop"
            title = f"an array grows piece by piece: {part:.0%} of the run"
            found.append(Finding("pieces", title, place, evidence, text, part, part > NOTED))
    return sorted(found, key=lambda finding: -finding.weight)[:3]


def _elements(shapes: str) -> list[int]:
    """The number of elements of each array: [6, 4] for "(2,3) (4,)"."""
    return [math.prod(map(int, re.findall(r"\d+", shape))) for shape in shapes.split()]


def _transfers(measured: Measured) -> list[Finding]:
    places: dict[str, list[int]] = {}
    rounds = _passes(measured)
    for call, sums in measured.by_key():
        if call.op in _TRANSFERS and call.kind == "forward":
            entry = places.setdefault(call.place, [0, 0])
            entry[0] += sums.calls
            entry[1] += sums.calls * call.bytes
    found = []
    for place, (calls, nbytes) in sorted(places.items(), key=lambda item: -item[1][1])[:3]:
        if calls < max(2, rounds):
            continue
        evidence = f"{calls:,} copies between host and GPU, {size(nbytes)}"
        text = "copy once, before the loop, and keep it there"
        found.append(Finding("transfers", "repeated copies", place, evidence, text, nbytes))
    return found


def _outside(beside: Outside) -> list[Finding]:
    """The main thread's work between its ops, by line."""
    if beside.run < _SHORTEST:
        return []
    found = []
    for spot in beside.spots:
        part = spot.ns / beside.own
        if part >= NOTED:
            describe = {"data": _waits_for_data, "import": _imports}.get(spot.what, _in_python)
            found.append(describe(spot, part))
    return found


def _in_python(spot: Spot, part: float) -> Finding:
    via = f", most of it in {spot.via}" if spot.via else ""
    evidence = f"{duration(spot.ns)} in {spot.function} and its callees, outside of ops{via}"
    text = (
        "Python works through values one at a time: do it once before the loop, on whole arrays, "
        "or in a DataLoader's workers"
    )
    title = f"{part:.0%} of the run is Python outside of ops"
    if spot.engine:  # a known cause, such as a loop or a growing array, ranks first
        text = "the engine's work around small ops: larger arrays in fewer calls need less of it"
        part = min(part, FAULT)
    return Finding("python", title, spot.place, evidence, text, part)


def _waits_for_data(spot: Spot, part: float) -> Finding:
    where = f"the loop at {short(spot.asker)} "
    if spot.waits:
        evidence = f"{where}waited {duration(spot.ns)} for batches that workers had not made yet"
        text = (
            "more workers (num_workers), processes where the data set is Python "
            "(worker_kind='process'), or less work for each row"
        )
    else:
        evidence = f"{where}made its batches itself for {duration(spot.ns)}"
        text = (
            "num_workers=2 or more makes batches while the ops run; or less work for each row, "
            "such as preparing them once and keeping them"
        )
    title = f"{part:.0%} of the run waits for the DataLoader of {short(spot.asker)}"
    return Finding("data", title, spot.place, evidence, text, part)


def _imports(spot: Spot, part: float) -> Finding:
    what = spot.via or "a module"
    evidence = f"importing {what} took {duration(spot.ns)} in {spot.function}"
    if spot.in_ops > spot.ns / 2:
        evidence += ", in the middle of an op, whose time includes it"
    text = "import it at the top of the program, before the measured part"
    title = f"{part:.0%} of the run imports {what}"
    if spot.top:
        return Finding("import", title, spot.place, evidence, "it is loaded once", part / 4)
    return Finding("import", title, spot.place, evidence, text, part, True)


def _recording(beside: Outside) -> list[Finding]:
    part = beside.recording / beside.run
    if part <= 0.1 or beside.recording <= 1_000_000:
        return []
    evidence = f"about {duration(beside.recording)} of {duration(beside.run)}; it has its own row"
    text = "record without memory, or with --min-us, for times that it disturbs less"
    title = f"recording took {part:.1%} of the time"
    return [Finding("recording", title, "", evidence, text, part / 4)]
