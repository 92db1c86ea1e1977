"""Findings about time: slow lines, tiny ops, accidental float64, copies, time outside of ops."""

from typing import Any

from minigrad.instrument.table import counted, duration, size

from .finding import Finding
from .names import often
from .report_log import NO_LINE, Measured
from .report_tables import Line

_TINY_NS = 100_000  # below, an op is mostly being called, on a slow and busy machine too
_MANY = 0.1  # of all calls
_LOOP = 16  # calls on a line for each backward: from this many on, they come from a loop
_TRANSFERS = ("device_copy",)


def time_findings(measured: Measured, lines: list[Line]) -> list[Finding]:
    """Of each kind the weightiest come first."""
    found = [*_slowest(measured, lines), *_promotions(measured), *_tiny(measured, lines)]
    return [*found, *_transfers(measured)]


def last_findings(measured: Measured) -> list[Finding]:
    """What is said behind all others."""
    return [*_outside(measured), *_recording(measured)]


def _time_of(line: Line) -> int:
    """Of the ops on a line, without the engine."""
    return sum(line.points[phase].self_ns for phase in line.points)


def _passes(measured: Measured) -> int:
    return sum(sums.calls for call, sums in measured.by_key() if call.kind == "pass")


def _slowest(measured: Measured, lines: list[Line]) -> list[Finding]:
    known = [line for line in lines if line.place]
    total = sum(map(_time_of, lines))
    if not known or not total:
        return []
    line = max(known, key=_time_of)
    spent = _time_of(line)
    op, calls, times = _main_op(measured, line.place)
    rounds = _passes(measured)
    each = calls / max(1, rounds)
    part = spent / total
    forward, backward = (line.points[phase].self_ns for phase in ("forward", "backward"))
    ran = counted(calls, "forward call")
    if each >= 1 and rounds:
        ran += f", {format(each, ',.0f' if each > 99 else '.3g')} for each backward"
    evidence = (
        f"{duration(spent)} of the {duration(total)} in ops ({part:.0%}): {duration(forward)} "
        f"forward, {duration(backward)} backward, most of it in {op} ({ran})"
    )
    bound = line.bound("backward" if backward > forward else "forward")
    return [
        Finding("slow line", f"slowest line: {part:.0%} of the time in ops", line.place, evidence,
                _faster(bound, op, each, bool(rounds), times, forward / max(1, calls)), part)
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


_LONG_NS = 100_000  # of a call: what calling costs is some µs


def _faster(bound: str, op: str, each: float, steps: bool, same: int, call_ns: float) -> str:
    if each >= 4 and same >= 4:
        return (
            f"{op} runs {each:,.0f} times {'a step ' * steps}here, most on the same shapes: "
            "compute what does not change once, regroup the products, or do all in one batched call"
        )
    if bound == "compute":
        return "the machine is busy computing: fewer operations or a narrower dtype help"
    if bound == "memory":
        return "it waits for memory: fewer passes over the data, or a narrower dtype, help"
    if call_ns > _LONG_NS:
        return (
            "it is far from what this machine can do, and not for its many calls: other programs "
            "or BLAS's threads on the same cores (OPENBLAS_NUM_THREADS=1), memory read in another "
            "order than it lies, or a first call that imports or compiles something"
        )
    return "it reaches little of what this machine can do: larger arrays in fewer calls help"


def _tiny(measured: Measured, lines: list[Line]) -> list[Finding]:
    """Lines of many calls that hardly do anything."""
    every, rounds = sum(line.calls for line in lines), max(1, _passes(measured))
    found = []
    for line in lines:
        points = [point for point in line.points.values() if point.calls]
        calls = sum(point.calls for point in points)
        if not line.place or calls < max(100, _MANY * every, _LOOP * rounds):
            continue
        spent = _time_of(line)
        bounds = {point.bound for point in points}
        if spent / calls < _TINY_NS and bounds <= {"overhead", ""}:
            evidence = (
                f"{calls:,} of {every:,} calls ({calls / every:.0%}), {duration(spent / calls)} "
                f"each, {duration(spent)} together: calling them takes longer than their work"
            )
            text = "one op on the whole array instead of a loop over its parts"
            title = f"many tiny ops: {calls:,} calls"
            found.append(Finding("tiny ops", title, line.place, evidence, text, calls / every))
    return sorted(found, key=lambda finding: -finding.weight)[:3]


def _promotions(measured: Measured) -> list[Finding]:
    lines: dict[str, dict[str, Any]] = {}
    wide = 0
    for call, sums in measured.by_key():
        wide += sums.calls if call.dtype in ("float64", "complex128") else 0
        if call.promoted:
            line = lines.setdefault(call.place, {"ops": {}, "calls": 0, "bytes": 0})
            line["ops"][call.op] = line["ops"].get(call.op, 0) + sums.calls
            line["calls"] += sums.calls
            line["bytes"] += sums.calls * call.bytes
    found = []
    for place, line in sorted(lines.items(), key=lambda item: -item[1]["bytes"])[:5]:
        ops = ", ".join(f"{op} ({often(count)})" for op, count in line["ops"].items())
        evidence = (
            f"{ops} made {size(line['bytes'])} of float64; {counted(wide, 'call')} in the log gave "
            "float64 in all"
        )
        text = (
            "an array or scalar beside the tensors is float64, as NumPy makes it by default: give "
            "it dtype=float32 where it is made"
        )
        where = "" if place == NO_LINE else place
        title = "float64 made of a narrower float"
        found.append(Finding("float64", title, where, evidence, text, line["bytes"]))
    return found


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


def _outside(measured: Measured) -> list[Finding]:
    start, stop = measured.span
    busy = max((sum(s.self_ns for s in found.values()) for found in measured.sums.values()),
               default=0)  # fmt: skip
    idle = 1 - busy / (stop - start)
    if idle < 0.5 or stop - start < 100_000_000:
        return []
    evidence = f"ops and engine took {duration(busy)} of the {duration(stop - start)} recorded"
    text = "what the program does beside its ops (reading data, Python, printing) is not in the log"
    return [Finding("outside", f"{idle:.0%} of the time is outside of all ops", "", evidence, text,
                    idle)]  # fmt: skip


def _recording(measured: Measured) -> list[Finding]:
    wall, own = measured.end.get("wall_ns"), measured.end.get("recording_ns")
    if not wall or not own or own <= max(0.1 * wall, 1e6):
        return []
    evidence = f"about {duration(own)} of {duration(wall)}; nothing is subtracted"
    text = "times of short ops are too long by it; record without memory, or with --min-us"
    return [Finding("recording", f"recording took {own / wall:.0%} of the time", "", evidence, text,
                    own / wall)]  # fmt: skip
