"""An event log as a speedscope file (www.speedscope.app) and as folded stacks (flame graphs).

A stack is the callers that the log has kept and the scopes, outermost first, then the op, then what
ran inside it.
"""

import os
from collections.abc import Iterator
from typing import Any, TextIO

from ..version import __version__
from .formats import Event, json_text, write_whole, written_whole
from .lanes import Lane, Lanes, walk
from .table import printable

MAX_DEPTH = 256  # frames of a folded stack
_DEEPER = "(deeper)"
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(log: str, out: str | os.PathLike) -> str | None:
    """Convert the event log `log` into the speedscope file `out`: one evented profile a thread.

    Returns where the log was cut off, in one line, or None.
    """
    lanes = Lanes(log, _key)
    frames = _Frames()
    top = {
        "$schema": _SCHEMA,
        "exporter": f"minigrad@{lanes.header.get('minigrad', '')}",
        "name": os.path.basename(log),
        "activeProfileIndex": 0,
    }
    with written_whole(os.fspath(out)) as file:
        file.write(json_text(top)[:-1] + ',"profiles":[')
        for at, lane in enumerate(lanes.lanes.values()):
            file.write(",\n" if at else "\n")
            _write_profile(lane, lanes, frames, file)
        file.write(f'],"shared":{{"frames":{json_text(frames.records)}}}}}\n')
    return lanes.cut


def write_folded(log: str, out: str | os.PathLike) -> str | None:
    """Convert the event log `log` into folded stacks: "scope;op;op nanoseconds" lines.

    A line names all frames above its own, so stacks deeper than MAX_DEPTH count as one there.
    """
    lanes = Lanes(log, _key)
    times: dict[tuple[str, ...], int] = {}
    for lane in lanes.lanes.values():
        stack: list[str] = []
        for _, own, frames in _framed(lane, lanes):
            if own is None:
                stack.extend(name for name, _, _ in frames)
            else:
                names = tuple(stack if len(stack) <= MAX_DEPTH else [*stack[:MAX_DEPTH], _DEEPER])
                times[names] = times.get(names, 0) + own
                del stack[len(stack) - len(frames) :]
    with written_whole(os.fspath(out)) as file:
        for names, time in sorted(times.items()):
            file.write(f"{';'.join(map(_plain, names))} {time}\n")
    return lanes.cut


def _plain(name: str) -> str:
    """The name on one line, without what separates frames or what a terminal would obey."""
    return printable(" ".join(name.replace(";", ":").split()))


def write_sampled(
    stacks: list[tuple[list[tuple[str, str | None, int | None]], int]],
    unit: str,
    name: str,
    out: str | os.PathLike,
) -> None:
    """A speedscope file of weighted stacks: frames (name, file, line), root first, and a weight."""
    frames = _Frames()
    samples = [[frames.place(frame) for frame in stack] for stack, _ in stacks]
    weights = [weight for _, weight in stacks]
    profile = {
        "type": "sampled", "name": name, "unit": unit, "startValue": 0,
        "endValue": sum(weights), "samples": samples, "weights": weights,
    }  # fmt: skip
    top = {"$schema": _SCHEMA, "exporter": f"minigrad@{__version__}", "name": name}
    top |= {"activeProfileIndex": 0, "profiles": [profile], "shared": {"frames": frames.records}}
    write_whole(os.fspath(out), json_text(top) + "\n")


_Frame = tuple[str, str | None, int | None]  # name, file, line


def _key(event: Event) -> tuple[str, str, _Frame, tuple[_Frame, ...]]:
    name = f"{event.op}.backward" if event.kind == "backward" else event.op
    site = event.site or {}
    callers = tuple(
        [(caller["function"], caller["file"], caller["line"]) for caller in reversed(event.stack)]
    )
    return event.kind, event.scope, (name, site.get("file"), site.get("line")), callers


def _framed(lane: Lane, lanes: Lanes) -> Iterator[tuple[int, int | None, list[_Frame]]]:
    """`walk`, with the frames that each event opens or closes: (time, own time, frames).

    An event brings the frames of its scope along unless another op encloses it, and those of its
    callers unless anything does.
    """
    stack: list[list[_Frame]] = []
    ops = 0  # how many of them are ops, not whole backwards
    for time, number, own, _ in walk(lane):
        kind, scope, frame, callers = lanes.keys[number]
        if own is None:
            scopes = scope.split("/") if scope and not ops else []
            outer = () if stack else callers
            stack.append([*outer, *((name, None, None) for name in scopes), frame])
            ops += kind != "pass"
            yield time, None, stack[-1]
        else:
            ops -= kind != "pass"
            yield time, own, stack.pop()


class _Frames:
    """The frames that stacks refer to by position."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._places: dict[_Frame, int] = {}

    def place(self, frame: _Frame) -> int:
        if frame not in self._places:
            self._places[frame] = len(self.records)
            record = dict(zip(("name", "file", "line"), frame, strict=True))
            self.records.append({key: value for key, value in record.items() if value is not None})
        return self._places[frame]


def _write_profile(lane: Lane, lanes: Lanes, frames: _Frames, file: TextIO) -> None:
    """One thread, written as it is walked: a million events are never in memory as text."""
    base = lanes.header["base_ns"]
    top = {
        "type": "evented",
        "name": lane.name,
        "unit": "nanoseconds",
        "startValue": min(lane.t0) - base,
        "endValue": max(lane.t1) - base,
    }
    file.write(json_text(top)[:-1] + ',"events":[')
    comma = ""
    for time, own, opened in _framed(lane, lanes):
        letter, order = ("O", opened) if own is None else ("C", reversed(opened))
        for frame in order:
            place = frames.place(frame)
            file.write(f'{comma}{{"type":"{letter}","frame":{place},"at":{time - base}}}')
            comma = ",\n"
    file.write("]}")
