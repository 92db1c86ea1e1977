"""diff: what changed beyond noise, and the exit code for a build."""

import json

import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.diff import difference

from minigrad.instrument import formats


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


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.0001, "same"), (1.5, "slower"), (0.5, "faster")]
)
def test_a_change_beyond_the_noise_of_its_calls_is_told(tmp_path, factor, verdict):
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
    a = written(tmp_path / "a", STEADY)
    b = written(tmp_path / "b", [round(factor * time) for time in STEADY])
    assert main(["diff", a, b, "--fail-over", limit]) == code
    assert ("slower by 50" in capsys.readouterr().err) == bool(code)


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
    assert document["rows"][0]["verdict"] == "slower" == document["total"]["verdict"]


def test_what_was_dropped_is_told_where_something_was(tmp_path):
    whole, lossy = written(tmp_path / "a", STEADY), written(tmp_path / "b", STEADY)
    text = (tmp_path / "b").read_text().replace('"dropped":0', '"dropped":7')
    (tmp_path / "b").write_text(text)
    assert not any("dropped" in note for note in difference([whole], [whole]).notes)
    assert [n for n in difference([whole], [lossy]).notes if "7 events were dropped" in n]
