"""The speedscope file and the folded stacks."""

import json

import jsonschema
import numpy as np

import minigrad as mg
from minigrad.instrument import event_log
from minigrad.instrument.speedscope import MAX_DEPTH, write_folded, write_sampled, write_speedscope
from minigrad.modes.scopes import scope


def recorded(tmp_path):
    with event_log(tmp_path / "run.jsonl"):
        x = mg.tensor(np.ones((3, 3)), requires_grad=True)
        with scope("model"), scope("act; 1"):
            y = mg.tanh(x)
        (g,) = mg.grad((y * y).sum(), [x], create_graph=True)
        (g * g).sum().backward()
    return str(tmp_path / "run.jsonl")


def document(tmp_path):
    write_speedscope(recorded(tmp_path), str(tmp_path / "out.json"))
    return json.loads((tmp_path / "out.json").read_text())


def test_openings_and_closings_balance_and_time_never_goes_back(tmp_path):
    for profile in document(tmp_path)["profiles"]:
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert event["type"] == "C" and stack.pop() == event["frame"]
        assert stack == [] and last <= profile["endValue"]


def test_the_file_has_the_fields_that_speedscope_asks_for(tmp_path):
    found = document(tmp_path)
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (profile,) = found["profiles"]
    assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
    frames = found["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and "line" not in frame or frame["line"] > 0
               for frame in frames)  # fmt: skip
    assert max(event["frame"] for event in profile["events"]) < len(frames)


def test_frames_tell_the_users_line(tmp_path):
    frames = document(tmp_path)["shared"]["frames"]
    assert {frame.get("file") for frame in frames if frame["name"] == "tanh"} == {__file__}


def test_a_stack_is_scopes_then_op_then_what_ran_inside_it(tmp_path):
    write_folded(recorded(tmp_path), str(tmp_path / "out.txt"))
    lines = [line.rpartition(" ") for line in (tmp_path / "out.txt").read_text().splitlines()]
    stacks = {stack: int(time) for stack, _, time in lines}
    assert "model;act: 1;tanh" in stacks
    assert "backward;model;act: 1;tanh.backward" in stacks
    assert "backward;mul.backward;mul" in stacks
    assert all(time >= 0 for time in stacks.values())


def test_a_folded_stack_holds_nothing_that_a_terminal_obeys(tmp_path):
    with mg.event_log(tmp_path / "log.jsonl"), mg.scope("\x1b[31mred\x07;\u202eb\n"):
        mg.tanh(mg.ones(2))
    write_folded(str(tmp_path / "log.jsonl"), tmp_path / "out.txt")
    (line,) = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert line.startswith("?[31mred?:?b;tanh ")


# The rules of speedscope's file format (its file-format-schema.json), for the parts that we write.
_FRAME = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "integer"},
        "col": {"type": "integer"},
    },
    "additionalProperties": False,
}
_UNITS = ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]
_COMMON = {
    "name": {"type": "string"},
    "unit": {"enum": _UNITS},
    "startValue": {"type": "number"},
    "endValue": {"type": "number"},
}
_INDEX = {"type": "integer", "minimum": 0}
_EVENT = {
    "type": "object",
    "required": ["type", "frame", "at"],
    "properties": {"type": {"enum": ["O", "C"]}, "frame": _INDEX, "at": {"type": "number"}},
    "additionalProperties": False,
}
_EVENTED = {
    "type": "object",
    "required": ["type", *_COMMON, "events"],
    "properties": {
        "type": {"const": "evented"},
        **_COMMON,
        "events": {"type": "array", "items": _EVENT},
    },
    "additionalProperties": False,
}
_SAMPLED = {
    "type": "object",
    "required": ["type", *_COMMON, "samples", "weights"],
    "properties": {
        "type": {"const": "sampled"},
        **_COMMON,
        "samples": {"type": "array", "items": {"type": "array", "items": _INDEX}},
        "weights": {"type": "array", "items": {"type": "number"}},
    },
    "additionalProperties": False,
}
SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "profiles", "shared"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "profiles": {"type": "array", "items": {"oneOf": [_EVENTED, _SAMPLED]}},
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {"frames": {"type": "array", "items": _FRAME}},
        },
        "name": {"type": "string"},
        "activeProfileIndex": {"type": "integer"},
        "exporter": {"type": "string"},
    },
    "additionalProperties": False,
}


def test_both_kinds_of_file_keep_the_rules_of_speedscope(tmp_path):
    log = str(tmp_path / "run.jsonl")
    with event_log(log):
        mg.tanh(mg.tensor(np.ones(3), requires_grad=True)).sum().backward()
    write_speedscope(log, tmp_path / "evented.json")
    stacks = [([("model", None, None), ("tanh", "a.py", 3)], 24), ([("model", None, None)], 8)]
    write_sampled(stacks, "bytes", "peak", tmp_path / "sampled.json")
    for name in ("evented", "sampled"):
        document = json.loads((tmp_path / f"{name}.json").read_text())
        jsonschema.validate(document, SPEEDSCOPE)


def test_folded_stacks_of_deep_nesting_grow_with_the_events_not_with_their_depth(tmp_path):
    def size(events: int) -> int:
        log = nested(tmp_path / "deep.jsonl", events)
        write_folded(log, tmp_path / "out.txt")
        lines = (tmp_path / "out.txt").read_text().splitlines()
        own = [int(line.rsplit(" ", 1)[1]) for line in lines]
        assert sum(own) == 3 * events - 1  # no time is lost: that of the outermost event
        assert max(line.count(";") for line in lines) <= MAX_DEPTH
        return sum(map(len, lines))

    assert size(8_000) < 3 * size(2_000)


def nested(path, events: int) -> str:
    """A log of events each of which ran inside the one before."""
    lines = [
        {"format": "minigrad.events", "version": [1, 1], "base_ns": 0},
        {"kind": "define", "what": "thread", "id": 0, "name": "main"},
    ]
    lines += [
        {"kind": "forward", "op": "f", "t0": i, "t1": 3 * events - 1 - i, "thread": 0, "seq": i}
        for i in reversed(range(events))
    ]
    lines.append({"kind": "end", "events": events, "dropped": 0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_kept_callers_stand_above_the_ops_that_they_called(tmp_path):
    def inner(x):
        return mg.tanh(x)

    def outer(x):
        return inner(x).sum()

    log, out = tmp_path / "run.jsonl", tmp_path / "folded.txt"
    with mg.event_log(log, stack=2):
        outer(mg.ones(3, requires_grad=True)).backward()
    write_folded(str(log), out)
    stacks = [line.rpartition(" ")[0].split(";") for line in out.read_text().splitlines()]
    (tanh,) = [stack for stack in stacks if stack[-1] == "tanh"]
    assert [name.rpartition(".")[2] for name in tanh] == ["outer", "inner", "tanh"]
    assert ["backward", "tanh.backward"] in [stack[-2:] for stack in stacks]
