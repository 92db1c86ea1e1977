"""What a log says should be looked at first: findings, each with its line, figures and a next step.

Every finding is computed from the log alone. It says what was measured; whether the program can do
without it only its author knows.
"""

from dataclasses import asdict, dataclass
from typing import Any

from minigrad.instrument.formats import header, json_text
from minigrad.instrument.table import counted, duration, size

from .names import fitted, often, wrapped
from .report_log import NO_LINE, Measured, inert, inert_place
from .report_memory import Memory
from .report_tables import Line

_LEAST_BYTES = 1 << 16  # less memory than that is nobody's question
_TINY_NS = 100_000  # below, an op is mostly being called, on a slow and busy machine too
_MANY = 0.1  # of all calls
_LOOP = 16  # calls on a line for each backward: from this many on, they come from a loop
_TRANSFERS = ("device_copy",)


@dataclass(slots=True)
class Finding:
    """kind: a word for programs; place: file:line, "" where it is not a single line."""

    kind: str
    title: str
    place: str
    evidence: str
    suggestion: str
    weight: float = 0.0

    def data(self) -> dict[str, Any]:
        """With texts that may be shown."""
        return asdict(self) | {
            "title": inert(self.title, 400), "place": inert_place(self.place),
            "evidence": inert(self.evidence, 600), "suggestion": inert(self.suggestion, 600),
        }  # fmt: skip


def advice(measured: Measured, lines: list[Line], memory: Memory | None) -> list[Finding]:
    """All findings; of each kind the weightiest come first."""
    found = [*_slowest(measured, lines), *_promotions(measured), *_tiny(measured, lines)]
    found += _transfers(measured)
    if memory is not None:
        found += [*_hogs(memory), *_needless(memory), *_unread(memory), *_growing(memory)]
    return [*found, *_outside(measured), *_recording(measured)]


def as_text(findings: list[Finding], width: int = 80) -> str:
    """For the terminal."""
    if not findings:
        return "nothing stands out"
    lines = []
    for number, finding in enumerate(findings, 1):
        place = f"{fitted(finding.place, 50)}  " if finding.place else ""
        lines += wrapped(f"{number}. {place}", inert(finding.title, 400).split(), width, " ")
        for text in (finding.evidence, finding.suggestion):
            lines += ["   " + line.strip() for line in wrapped("", text.split(), width - 5, " ")]
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """The findings as a JSON text."""
    told = [finding.data() for finding in findings]
    return json_text({**header("minigrad.advice"), "findings": told})


# -- time ------------------------------------------------------------------------------------------


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


# -- memory ----------------------------------------------------------------------------------------


def _hogs(memory: Memory) -> list[Finding]:
    found = []
    for waiting in memory.waiting[:1]:
        if waiting.bytes < max(0.05 * memory.story.peak, _LEAST_BYTES):
            continue
        arrays = counted(waiting.count, "array")
        evidence = (
            f"{arrays} of {waiting.op}, {size(waiting.bytes)} at once (the peak of everything is "
            f"{size(memory.story.peak)}); the forward had last read them at "
            f"{duration(waiting.start_ns)}, the backward at {duration(waiting.stop_ns)}"
        )
        text = (
            "mg.checkpoint computes them again instead of keeping them; or an algebraically equal "
            "form with smaller intermediate arrays, a smaller batch, a narrower dtype"
        )
        title = f"memory hog: {size(waiting.bytes)} only waits for the backward"
        found.append(Finding("memory", title, waiting.place, evidence, text, waiting.bytes))
    return found


def _needless(memory: Memory) -> list[Finding]:
    held = [o for o in memory.story.owners if o.place and o.category != "gradient"]
    held = [o for o in held if o.needless > max(0.1 * memory.story.peak, _LEAST_BYTES)]
    found = []
    for owner in sorted(held, key=lambda owner: -owner.needless)[:2]:
        end = owner.released_ns
        freed = "never freed" if end is None else f"freed at {duration(end)}"
        if owner.released_ns is not None and owner.released_ns - memory.story.peak_ns < 1_000_000:
            continue  # on its way out
        evidence = (
            f"{size(owner.needless)} of {owner.op} at the peak were last read at "
            f"{duration(owner.earliest_ns)} and {freed}"
        )
        text = "del the name that holds it, or let it go out of scope, after its last use"
        title = f"{size(owner.needless)} held after the last use"
        found.append(Finding("held", title, owner.place, evidence, text, owner.needless))
    return found


def _unread(memory: Memory) -> list[Finding]:
    found = []
    for unread in memory.unread[:3]:
        shape = "×".join(map(str, unread.shape)) or "scalar"
        places = unread.first_use or ((unread.place,) if unread.place else ())
        used = f"; tensors of that shape enter at {', '.join(map(_short, unread.first_use))}"
        evidence = (
            f"a gradient of shape {shape}, {size(unread.bytes)}, was computed "
            f"{often(unread.count)} (the backward at {_short(unread.place)}) and read by no "
            "optimizer and no op"
            f"{used if unread.first_use else ''}"
        )
        text = "make that tensor without requires_grad, or detach it; its backward is not run then"
        title = "unused gradient: nobody reads it"
        where = places[0] if places else ""
        found.append(Finding("unused gradient", title, where, evidence, text, unread.bytes))
    return found


def _growing(memory: Memory) -> list[Finding]:
    growth = memory.growth
    if growth is None:
        return []
    evidence = (
        f"after {growth.steps:,} optimizer steps {size(growth.after)} were alive, "
        f"{size(growth.before)} after the first; most of what stayed was made by {growth.op}"
    )
    text = "something keeps old results: append loss.item() to lists, not the loss with its graph"
    return [Finding("leak", "memory grows from step to step", growth.place, evidence, text,
                    growth.after - growth.before)]  # fmt: skip


def _short(place: str) -> str:
    return fitted(place, 50)
