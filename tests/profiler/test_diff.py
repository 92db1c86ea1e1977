"""diff: what changed beyond noise, and the exit code for a build."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from minigrad_profiler import runs as profiler_runs
from minigrad_profiler.cli import main
from minigrad_profiler.diff import Change, _Noise, difference

from minigrad.instrument import formats

pytestmark = pytest.mark.promise("a difference counts only beyond noise")


def written(path, times, op="mul", scope=None):
    """A log of one op whose calls took these nanoseconds."""
    lines = [formats.header(formats.EVENTS) | {"base_ns": 0, "pid": 1}]
    lines.append({"kind": "define", "what": "thread", "id": 0, "name": "main"})
    if scope:
        lines.append({"kind": "define", "what": "scope", "id": 1, "name": scope})
    t = 0
    for time in times:
        event = {"kind": "forward", "op": op, "t0": t, "t1": t + time, "thread": 0, "seq": None}
        lines.append(event | ({"scope": 1} if scope else {}))
        t += time + 10
    lines.append({"kind": "end", "events": len(times), "dropped": 0})
    path.write_text("".join(formats.json_text(line) + "\n" for line in lines))
    return str(path)


STEADY = [1000 + i % 7 for i in range(100)]


def runs(folder, side, factor=1.0, op="mul"):
    """Four runs of one program, which differ by a few tenths of a percent."""
    every = [1.0, 1.003, 0.998, 1.001]
    return [
        written(folder / f"{side}{n}", [round(factor * noise * t) for t in STEADY], op)
        for n, noise in enumerate(every)
    ]


def further(option, logs):
    return [text for log in logs for text in (option, log)]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.0001, "same"), (1.5, "slower?"), (0.5, "faster?")]
)
def test_one_run_of_each_says_only_what_may_have_changed(tmp_path, factor, verdict):
    a = written(tmp_path / "a", STEADY)
    b = written(tmp_path / "b", [round(factor * time) for time in STEADY])
    found = difference([a], [b])
    assert found.changes[0].verdict == verdict
    assert found.total.delta_ns == sum(c.delta_ns for c in found.changes)


def test_a_noisy_op_needs_a_larger_change(tmp_path):
    noisy = [1000 + 900 * (i % 2) for i in range(20)]
    a = written(tmp_path / "a", noisy)
    b = written(tmp_path / "b", [round(1.1 * time) for time in noisy])
    assert difference([a], [b]).changes[0].verdict == "same"


def test_several_runs_replace_the_spread_of_calls_by_their_own(tmp_path):
    before = [written(tmp_path / f"a{n}", [10_000 + n] * 5) for n in range(4)]
    after = [written(tmp_path / f"b{n}", [10_500 + n] * 5) for n in range(4)]
    assert difference(before, after).changes[0].verdict == "slower"
    shaky = [written(tmp_path / f"c{n}", [10_500 + 2000 * n] * 5) for n in range(4)]
    assert difference(before, shaky).changes[0].verdict == "same"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.01, "same"), (1.15, "slower"), (0.85, "faster")]
)
def test_runs_of_each_side_decide(tmp_path, factor, verdict):
    found = difference(runs(tmp_path, "a"), runs(tmp_path, "b", factor))
    assert found.changes[0].verdict == verdict == found.total.verdict


def test_one_run_that_the_machine_held_up_changes_nothing(tmp_path):
    held_up = runs(tmp_path, "b")
    held_up[1] = written(tmp_path / "b1", [3 * time for time in STEADY])
    assert difference(runs(tmp_path, "a"), held_up).changes[0].verdict == "same"


def test_a_call_that_the_machine_held_up_changes_nothing(tmp_path):
    slow = [written(tmp_path / f"b{n}", [*STEADY[1:], 1_000_000]) for n in range(4)]
    assert difference(runs(tmp_path, "a"), slow).changes[0].verdict == "same"


def test_chance_is_shared_out_so_that_equal_programs_rarely_differ():
    """400 comparisons of 40 rows with five runs a side, whose noise is 5 % and the same on both."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        a, b = (Side(rng.lognormal(10, 0.05, (40, 5))) for _ in range(2))
        noise = _Noise(a, b)
        rows = [Change(name, 1, 1, a.value(name), b.value(name), 0.0) for name in a.rows]
        for change in rows:
            change.noise_ns = noise.of_row(change, 0.009 / 40)
        alarms += any(change.verdict != "same" for change in rows)
    assert alarms <= 8  # 400 × 0.01, and twice that for the approximations


class Side:
    """What `_Noise` reads of a side, with drawn values."""

    def __init__(self, values):
        self.values = {f"row {n}": row for n, row in enumerate(values)}
        self.rows, self.runs = list(self.values), [None] * values.shape[1]
        self.sums = values.sum(axis=0)

    def value(self, name):
        return float(np.median(self.values[name]))


def test_rows_of_one_side_alone_are_told(tmp_path):
    a, b = written(tmp_path / "a", [5] * 9, "old"), written(tmp_path / "b", [7] * 9, "new")
    assert {c.name: c.verdict for c in difference([a], [b]).changes} == {
        "old": "only before", "new": "only after",
    }  # fmt: skip


def test_two_empty_logs_are_the_same(tmp_path, capsys):
    empty = written(tmp_path / "a", [])
    assert difference([empty], [empty]).total.verdict == "same"
    assert main(["diff", empty, empty]) == 0
    assert "gone" not in capsys.readouterr().out


def test_the_same_op_in_two_scopes_is_two_rows(tmp_path):
    a = written(tmp_path / "a", STEADY, scope="encoder")
    assert [c.name for c in difference([a], [a]).changes] == ["encoder mul"]


@pytest.mark.parametrize(
    ("factor", "limit", "code"), [(1.5, "10%", 1), (1.5, "60%", 0), (1.0, "0", 0), (0.5, "10", 0)]
)
def test_fail_over_decides_the_exit_code(tmp_path, capsys, factor, limit, code):
    a, *more_a = runs(tmp_path, "a")
    b, *more_b = runs(tmp_path, "b", factor)
    also = [*further("--also-a", more_a), *further("--also-b", more_b)]
    assert main(["diff", a, b, *also, "--fail-over", limit]) == code
    assert ("slower by 50" in capsys.readouterr().err) == bool(code)


def test_fail_over_of_one_run_is_refused(tmp_path, capsys):
    a = written(tmp_path / "a", STEADY)
    assert main(["diff", a, a, "--fail-over", "10%"]) == 2
    assert "--runs 5" in capsys.readouterr().err


@pytest.mark.parametrize("empty", ["a", "b"])
def test_fail_over_does_not_pass_where_a_side_has_recorded_nothing(tmp_path, capsys, empty):
    a, b = (str(written(tmp_path / x, [] if x == empty else STEADY)) for x in "ab")
    assert main(["diff", a, b, "--fail-over", "10%"]) == 2
    assert f"{tmp_path / empty}: no events" in capsys.readouterr().err


def test_a_limit_that_is_none_is_refused(tmp_path, capsys):
    assert main(["diff", "a", "b", "--fail-over", "much"]) == 2
    assert "percentage" in capsys.readouterr().err


def test_json_and_widths(tmp_path, capsys):
    a = written(tmp_path / "a", STEADY, scope="a/very/long/scope/" + "x" * 200)
    b = written(tmp_path / "b", [2 * t for t in STEADY], scope="a/very/long/scope/" + "x" * 200)
    assert main(["diff", a, b, "--width", "80"]) == 0
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())
    assert main(["diff", a, b, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["verdict"] == "slower?" == document["total"]["verdict"]


def test_what_was_dropped_is_told_where_something_was(tmp_path):
    whole, lossy = written(tmp_path / "a", STEADY), written(tmp_path / "b", STEADY)
    text = (tmp_path / "b").read_text().replace('"dropped":0', '"dropped":7')
    (tmp_path / "b").write_text(text)
    assert not any("dropped" in note for note in difference([whole], [whole]).notes)
    assert [n for n in difference([whole], [lossy]).notes if "7 events were dropped" in n]


def test_two_programs_are_run_in_turns(tmp_path, capsys, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text("import minigrad as mg\nmg.ones((3, 3)) + 1\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert main(["diff", "--runs", "3", str(program), str(program), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["runs"] in ([3, 3], [6, 6], [9, 9]) and document["total"]["firm"]


def written_runs(monkeypatch, folder, spread):
    """Makes every run of a program a log whose times differ from run to run by this part."""
    made = []

    def run(script, log):
        factor = 1 + spread * ((len(made) * 7) % 5 - 2)
        made.append(os.path.basename(log))
        return written(Path(log), [round(factor * time) for time in STEADY])

    monkeypatch.setattr(profiler_runs, "_run", run)
    program = folder / "program.py"
    program.write_text("")
    return str(program), made


@pytest.mark.parametrize(("spread", "count"), [(0.001, 3), (0.1, 9)])
def test_runs_go_on_while_their_noise_hides_a_change_of_a_tenth(
    tmp_path, capsys, monkeypatch, spread, count
):
    program, made = written_runs(monkeypatch, tmp_path, spread)
    assert main(["diff", "--runs", "3", program, program]) == 0
    assert len(made) == 2 * count
    assert made[:4] == ["0-0.jsonl", "1-0.jsonl", "1-1.jsonl", "0-1.jsonl"]


def test_a_program_that_fails_is_said_with_its_last_line(tmp_path, capsys, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('no data')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert main(["diff", "--runs", "3", str(program), str(program)]) == 2
    assert "no data" in capsys.readouterr().err
