"""A profile with sections=True: table, JSON, log and Chrome trace show the engine's own time."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument import sections
from minigrad.instrument.formats import EventReader
from minigrad.instrument.records import Mark


def work(count=5):
    x = mg.tensor(np.ones(4), requires_grad=True)
    for _ in range(count):
        mg.tanh(x * x)


def test_the_rows_hold_calls_and_nanoseconds_of_each_section():
    with mg.profile(sections=True) as prof:
        work()
    rows = {row["op"]: row for row in json.loads(prof.json())["sections"]}
    calls = {row.op: row.total_ns for row in prof.rows()}
    for op in ("mul", "tanh"):
        assert rows[op]["calls"] == 5 and rows[op]["forward_ns"] == calls[op]
        assert all(rows[op][f"{name}_ns"] > 0 for name in sections.NAMES)
    prof.reset()
    assert json.loads(prof.json())["sections"] == []


def test_many_calls_are_summed_in_between():
    with mg.profile(sections=True) as prof, mg.no_grad():
        work(5000)
    assert {row["calls"] for row in prof.sections.rows()} == {5000}
    assert len(prof.sections._pending) == 0


def test_the_table_shows_the_sections_below_the_ops():
    with mg.profile(sections=True) as prof:
        work()
    head, _, below = prof.table().partition("engine sections, a call:")
    assert "mul" in head and all(name in below for name in ("mul", "tanh", *sections.NAMES))
    assert max(len(line) for line in prof.table().splitlines()) <= 80
    assert "(1 more)" in prof.table(top=1)
    with mg.profile() as prof:
        work()
    assert "sections" not in prof.table() and "sections" not in json.loads(prof.json())


def test_only_steps_of_the_schedule_are_split():
    with mg.profile(sections=True, schedule=(1, 0, 1)) as prof:
        work(3)
        assert sections.hearing == ()
        prof.step()
        work(2)
        prof.step()
        work(3)
    assert {row["calls"] for row in prof.sections.rows()} == {2}


@pytest.mark.layer("fast")
def test_a_log_has_the_sections_as_marks_beside_the_op(tmp_path):
    path = tmp_path / "run.jsonl"
    with mg.event_log(path, sections=True):
        work(1)
    with EventReader(path) as reader:
        records = list(reader.records())
    marks = [r for r in records if isinstance(r, Mark) and r.what == "section"]
    of_mul = [m.name for m in marks if m.name.startswith("mul")]
    assert of_mul == ["mul: scan", "mul: unwrap", "mul: wrap", "mul: link"]
    (event,) = [r for r in records if getattr(r, "op", None) == "mul"]
    before, after = [[m for m in marks if m.name == f"mul: {n}"][0] for n in ("unwrap", "wrap")]
    assert before.t1 <= event.t0 and event.t1 <= after.t0
    assert sections.hearing == ()


def test_a_chrome_trace_has_a_slice_for_each_section(tmp_path):
    path = tmp_path / "run.trace.json"
    with mg.profile(sections=True, out=str(path)):
        work(1)
    slices = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    names = [e["name"] for e in slices if e.get("args", {}).get("what") == "section"]
    assert {"mul: scan", "mul: unwrap", "mul: link", "mul: wrap"} <= set(names)


def test_the_environment_switches_it_on(tmp_path):
    code = "import minigrad as mg\nx = mg.ones(3, requires_grad=True)\nx * x\n"
    env = {**os.environ, "MINIGRAD_PROFILE_SECTIONS": "1", "MINIGRAD_PROFILE_FORMAT": "table,json"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "engine sections, a call:" in run.stderr and '"sections"' in run.stderr
