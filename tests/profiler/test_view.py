"""`minigrad-profile view` and `export`: tables whose numbers agree, and clear refusals."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from minigrad_profiler import report_source
from minigrad_profiler.cli import main
from minigrad_profiler.outside import recording_in_passes
from minigrad_profiler.view import BY, SORT, summary

import minigrad as mg
from minigrad.instrument import event_log, reading
from minigrad.instrument.formats import EventReader
from minigrad.instrument.lanes import Lanes
from minigrad.instrument.table import cells
from minigrad.modes.scopes import scope


@pytest.fixture
def log(tmp_path):
    """A run with scopes, two shapes and a second derivative."""
    path = tmp_path / "run.jsonl"
    with event_log(path):
        for n in (2, 3):
            x = mg.tensor(np.ones((n, n)), requires_grad=True)
            with scope("model"):
                y = mg.tanh(x @ x)
            (g,) = mg.grad(y.sum(), [x], create_graph=True)
            (g * g).sum().backward()
    return str(path)


@pytest.mark.parametrize(("file", "command"), [("train.py", "run"), ("run.jsonl", "view")])
def test_a_file_without_a_command_is_told_the_command(file, command, capsys):
    assert main([file]) == 2
    assert f"minigrad-profile {command} {file}\n" in capsys.readouterr().err


@pytest.mark.parametrize("by", list(BY))
def test_however_events_are_grouped_the_sums_agree(log, by):
    rows, ops = summary(log, by).rows, summary(log, "op").rows
    for field in ("calls", "self_ns", "bytes"):
        assert sum(getattr(row, field) for row in rows) == sum(getattr(row, field) for row in ops)
    assert round(sum(row.share for row in rows), 6) == 100.0


@pytest.mark.parametrize("by", list(BY))
def test_own_time_is_not_negative_and_splits_into_forward_and_backward(log, by):
    for row in summary(log, by).rows:
        assert 0 <= row.self_ns <= row.total_ns
        assert row.forward_ns + row.backward_ns == row.self_ns


def test_own_times_add_to_the_time_in_outermost_events(log):
    found = summary(log, "op")
    lines = [json.loads(line) for line in open(log, encoding="utf-8")]
    events = [line for line in lines if line.get("kind") in ("forward", "backward", "pass")]
    spans = sorted((event["t0"], event["t1"]) for event in events)
    covered, end = 0, 0
    for t0, t1 in spans:
        covered += max(0, t1 - max(t0, end))
        end = max(end, t1)
    recording = sum(recording_in_passes(Lanes(log, by_kind), n) for n in Lanes(log, by_kind).lanes)
    assert sum(row.self_ns for row in found.rows) == pytest.approx(covered - recording, abs=10)


def by_kind(event):
    return (event.kind,)


def test_forward_and_backward_of_an_op_stand_in_one_row(log):
    (row,) = [row for row in summary(log, "op").rows if row.name == "tanh"]
    assert row.calls == 4 and row.forward_ns > 0 and row.backward_ns > 0  # 2 forward, 2 backward


def test_shapes_lines_and_scopes_are_told_apart(log):
    names = {by: {row.name for row in summary(log, by).rows} for by in BY}
    assert {"matmul (2,2) (2,2)", "matmul (3,3) (3,3)"} <= names["shape"]
    assert any(name.startswith(f"{__file__}:") for name in names["line"])
    assert "model" in names["scope"]
    assert any(name.startswith("MainThread (") for name in names["thread"])


@pytest.mark.parametrize("sort", list(SORT))
def test_rows_can_be_sorted(log, sort):
    rows = summary(log, "op", sort).rows
    keys = [SORT[sort](row) for row in rows]
    assert keys == sorted(keys)


def test_the_table_fits_80_columns(log, capsys):
    for by in BY:
        assert main(["view", log, "--by", by]) == 0
        assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())


def test_top_shows_the_first_rows_and_sums_the_others(log, capsys):
    main(["view", log, "--top", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert "more rows" in lines[4] and lines[5].startswith("total")
    assert lines[-1].startswith("recording took")


def test_json_holds_every_row(log, capsys):
    main(["view", log, "--json", "--by", "scope"])
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "minigrad.view" and document["by"] == "scope"
    assert document["events"] == sum(row["calls"] for row in document["rows"])


def test_the_same_program_twice_agrees_in_counts(tmp_path):
    seen = []
    for name in ("a", "b"):
        with event_log(tmp_path / name):
            mg.tanh(mg.tensor(np.ones(3), requires_grad=True)).sum().backward()
        rows = summary(str(tmp_path / name), "op").rows
        seen.append(sorted((row.name, row.calls, row.bytes) for row in rows))
    assert seen[0] == seen[1]


def test_export_writes_what_is_asked_for(log, tmp_path, capsys):
    wanted = {name: str(tmp_path / name) for name in ("chrome", "speedscope", "folded")}
    arguments = [word for name, path in wanted.items() for word in (f"--{name}", path)]
    assert main(["export", log, *arguments]) == 0
    error = capsys.readouterr().err
    assert all(path in error for path in wanted.values())
    assert json.loads((tmp_path / "chrome").read_text())["traceEvents"]
    assert json.loads((tmp_path / "speedscope").read_text())["profiles"]
    assert "model;tanh " in (tmp_path / "folded").read_text()


@pytest.mark.parametrize("command", [["view"], ["export", "--chrome", "out.json"]])
def test_a_log_that_was_cut_off_is_read_up_to_the_cut_and_says_so(
    log, command, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    lines = open(log, encoding="utf-8").read().splitlines(keepends=True)
    kept = [line for line in lines[:-1] if '"kind":"forward"' in line]
    bad = tmp_path / "run.jsonl.partial"
    bad.write_text("".join(lines[:-1]) + '{"kind":"forw')
    assert main([command[0], str(bad), *command[1:]]) == 0
    captured = capsys.readouterr()
    assert f"cut off after {len(list(EventReader(log)))} events" in captured.err
    if command[0] == "view":
        assert kept and "tanh" in captured.out


def test_a_log_still_being_written_is_pointed_to(log, tmp_path, capsys):
    path = tmp_path / "new.jsonl"
    path.with_name("new.jsonl.partial").write_text("")
    assert main(["view", str(path)]) == 2
    assert "new.jsonl.partial is there" in capsys.readouterr().err


def test_export_to_nothing_says_what_to_say(log, capsys):
    assert main(["export", log]) == 2
    assert "--chrome" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["view"], ["export", "--chrome", "out.json"]])
@pytest.mark.parametrize("damage", ["binary", "empty", "newer", "missing", "graph"])
def test_a_log_that_cannot_be_used_is_one_line_and_exit_code_2(
    log, damage, command, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text = open(log, encoding="utf-8").read()
    contents = {
        "binary": b"\x80\x04pickle\x00\n\x1b[31m",
        "empty": b"",
        "newer": re.sub(r'"version":.1,..', '"version":[9,0]', text).encode(),
        "graph": text.replace("minigrad.events", "minigrad.graph").encode(),
    }
    bad = tmp_path / "bad.jsonl"
    if damage in contents:
        bad.write_bytes(contents[damage])
    assert main([command[0], str(bad), *command[1:]]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "bad.jsonl" in error and "\x1b" not in error
    assert not (tmp_path / "out.json").exists()


def test_hostile_names_cannot_move_the_cursor(tmp_path, capsys):
    with event_log(tmp_path / "run.jsonl") as recording:
        recording.hear(("forward", "\x1b[2J\r\n" + "x" * 300, 5, 9, None, (), (), {}))
    assert main(["view", str(tmp_path / "run.jsonl")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\r" not in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_help_ends_with_0_and_a_wrong_call_with_2(capsys):
    assert main(["--help"]) == 0
    assert main(["view"]) == 2
    assert main([]) == 2


def test_a_kind_of_mark_from_anywhere_does_not_widen_the_table(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    with mg.event_log(str(path)), mg.scope("a"):
        mg.ones(3).sum()
    old, new = '"kind":"mark","what":"scope"', f'"kind":"mark","what":"{5_000 * "k"}"'
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert main(["view", str(path), "--marks"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_no_export_is_replaced_by_another(log, capsys, tmp_path):
    out = str(tmp_path / "out.json")
    assert main(["export", log, "--chrome", out, "--folded", out]) == 2
    assert "would replace" in capsys.readouterr().err and not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    "command",
    ["export LOG --chrome OUT", "export LOG --html OUT", "merge LOG --chrome OUT",
     "roofline LOG --svg OUT", "report LOG -o OUT"],
)  # fmt: skip
def test_no_log_is_replaced_by_what_is_made_of_it(log, command, capsys, tmp_path):
    before = open(log, "rb").read()
    out = tmp_path / "link.jsonl"
    out.symlink_to(log)
    words = [{"LOG": str(log), "OUT": str(out)}.get(word, word) for word in command.split()]
    assert main(words) == 2
    assert "would replace" in capsys.readouterr().err and open(log, "rb").read() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("view LOG --top -3", "--top: '-3' should be an integer, 0 or more"),
        ("view LOG --top all", "--top: 'all' should be an integer, 0 or more"),
        ("memory LOG --width -1", "--width: '-1' should be an integer, 0 or more"),
        ("run --stack -1 LOG", "--stack: '-1' should be an integer, 0 or more"),
        ("run --max-events -1 LOG", "--max-events: '-1' should be an integer, 0 or more"),
        ("view --width a LOG", "--width: 'a' should be an integer, 0 or more"),
        ("run --min-us a LOG", "--min-us: 'a' is not a number of microseconds"),
        ("run --min-us nan LOG", "--min-us: 'nan' is not a number of microseconds"),
        ("run --min-us 1e308 LOG", "--min-us: '1e308' is not a number of microseconds"),
        ("compare --repeats 0 PROGRAM", "--repeats is 1 or more, got 0"),
        ("compare --workers 99999 PROGRAM", "each at most 1,024, got '99999'"),
    ],
)
def test_a_number_that_makes_no_sense_is_one_line_and_exit_2(log, command, message, capsys):
    files = {"LOG": str(log), "PROGRAM": __file__}
    assert main([files.get(word, word) for word in command.split()]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(message)


def test_the_narrowest_table_is_still_one(log, capsys):
    for command in ("view", "roofline", "advice"):
        assert main([command, str(log), "--width", "0"]) == 0


@pytest.mark.parametrize("wrong", ['1,"ph":"X"', {}, [1], -1, 2**70, None])
def test_a_header_with_odd_numbers_makes_a_trace_that_is_whole(log, wrong, tmp_path, capsys):
    header, rest = open(log).read().split("\n", 1)
    odd = json.loads(header) | {"pid": wrong, "base_unix_ns": wrong}
    (tmp_path / "odd.jsonl").write_text(f"{json.dumps(odd)}\n{rest}")
    out = str(tmp_path / "trace.json")
    for command in ("export", "merge"):
        assert main([command, str(tmp_path / "odd.jsonl"), "--chrome", out]) == 0
        assert all(type(e["pid"]) is int for e in json.load(open(out))["traceEvents"])


def through_a_pipe(log, tmp_path, *command):
    """The exit code of a command on a named pipe that a log is written into."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(log), str(pipe)]) as writing:
        code = main([command[0], str(pipe), *command[1:]])
        writing.kill()  # where nothing was read
    return code


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "command",
    [
        ["view"],
        ["memory"],
        ["advice"],
        ["report", "-o", "OUT"],
        ["merge"],
        ["export", "--html", "OUT"],
    ],
)
def test_a_log_may_come_through_a_pipe(command, tmp_path, capsys):
    log = tmp_path / "run.jsonl"
    with event_log(log, memory=True):
        mg.tanh(mg.ones((2, 2)))
    command = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    assert through_a_pipe(log, tmp_path, *command) == 0, capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("command", [["view", "PIPE"], ["report", "LOG", "--compare", "PIPE"]])
def test_a_pipe_that_nobody_writes_into_is_said_and_not_waited_for(
    log, command, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(reading, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    names = {"PIPE": str(tmp_path / "pipe"), "LOG": str(log)}
    assert main([names.get(word, word) for word in command]) == 2
    assert "it is a pipe without a writer" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "command", [["merge", "--chrome", "OUT"], ["export", "--chrome", "OUT", "--folded", "OUT"]]
)
def test_a_pipe_that_would_be_read_twice_is_refused_and_says_so(log, command, tmp_path, capsys):
    command = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    assert through_a_pipe(log, tmp_path, *command) == 2
    assert "a pipe can be read only once" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_log_that_names_a_pipe_as_its_source_does_not_keep_the_report_waiting(log, tmp_path):
    pipe = tmp_path / "model.py"
    os.mkfifo(pipe)
    assert report_source._text(str(pipe), None, ())[0] is None


def test_an_export_of_which_one_file_cannot_be_made_writes_none(log, tmp_path, capsys):
    chrome, alive = tmp_path / "trace.json", tmp_path / "bytes.json"
    assert main(["export", log, "--chrome", str(chrome), "--bytes", str(alive)]) == 2
    said = capsys.readouterr().err
    assert "recorded without memory" in said and said.count("\n") == 1
    assert not chrome.exists() and not alive.exists()


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_fits_a_narrow_terminal(width, by, log, capsys):
    for command in ("view", "roofline") if width > 40 else ("view",):
        assert main([command, str(log), "--by", by, "--width", str(width)]) == 0
        table = capsys.readouterr().out.split("\n\n")[0]
        assert max(map(cells, table.splitlines())) <= width
        assert by != "thread" or "MainThread" in table or width < 80


@pytest.mark.parametrize("width", [60, 80])
def test_sentences_beside_a_table_keep_to_the_width(width, tmp_path, capsys):
    path = str(tmp_path / "run.jsonl")
    with event_log(path, memory=True):
        x = mg.tensor(np.ones((64, 64), np.float32), requires_grad=True)
        (mg.tanh(x @ x) * np.float64(2)).sum().backward()
    assert main(["view", path, "--width", str(width)]) == 0
    said = capsys.readouterr().out
    assert main(["memory", path, "--width", str(width)]) == 0
    said += capsys.readouterr().out
    sentences = [line for line in said.splitlines() if "  " not in line.lstrip()]
    assert len(sentences) > 5 and max(map(len, sentences)) <= width


def test_a_log_that_says_it_had_no_length_goes_to_its_last_event(log, tmp_path, capsys):
    *lines, end = Path(log).read_text().splitlines()
    lines.append(re.sub(r'("wall_ns":)\d+(.*"recording_ns")', r"\1 0\2", end))
    (tmp_path / "short.jsonl").write_text("\n".join([*lines, ""]))
    assert lines[-1] != end
    found = summary(str(tmp_path / "short.jsonl"), "op").beside
    assert 0 < found.ops <= found.run


@pytest.mark.parametrize("command", ["view", "memory", "advice"])
def test_a_log_whose_header_is_nested_deeply_is_shown_or_refused_in_one_line(
    command, log, tmp_path, capsys
):
    head, rest = open(log).read().split("\n", 1)
    deep = tmp_path / "deep.jsonl"
    deep.write_text(head[:-1] + ',"new":' + "[" * 900 + "]" * 900 + "}\n" + rest)
    assert main([command, str(deep), "--json"]) in (0, 2)
    assert capsys.readouterr().err.count("\n") <= 1
