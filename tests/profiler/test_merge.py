"""Merged logs of several ranks: names from anywhere, ranks without a log and with two."""

import json
from pathlib import Path

import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.merge import Merged, Rank

import minigrad as mg


@pytest.fixture
def log(tmp_path):
    """A run of one op."""
    path = tmp_path / "run.jsonl"
    with mg.event_log(path):
        mg.ones(3).sum()
    return str(path)


def of_ranks(numbers, size):
    ranks = [
        Rank(f"{number} of {size}", "log", 0, 0.0, 0.0, 0.0, 0, 0, 0, None) for number in numbers
    ]
    return Merged(ranks, 0)


@pytest.mark.parametrize("missing", [0, 10, 11])
def test_a_rank_without_a_log_is_named_however_many_there_are(missing):
    others = [number for number in range(12) if number != missing]
    assert of_ranks(others, 12).notes() == [f"of 12 ranks no log is here of: {missing}"]


def test_of_many_missing_ranks_the_first_are_named():
    [note] = of_ranks([0], 1_000_000).notes()
    assert note.endswith("no log is here of: 1, 2, 3, 4, 5, 6, 7, 8, ...")


def test_a_rank_whose_number_is_no_number_is_merged(log, tmp_path, capsys):
    head = Path(log).read_text().splitlines()[0]
    mark = {"kind": "mark", "what": "rank", "name": "² of 4", "t0": 1, "t1": 1, "thread": 0}
    thread = json.dumps({"kind": "define", "what": "thread", "id": 0, "name": "MainThread"})
    end = json.dumps({"kind": "end", "events": 0, "dropped": 0})
    odd = tmp_path / "odd.jsonl"
    odd.write_text("\n".join([head, thread, json.dumps(mark | {"thread": 0}), end, ""]))
    assert main(["merge", str(odd), log]) == 0
    assert "² of 4" in capsys.readouterr().out


def test_a_ranks_name_cannot_reach_the_terminal_or_break_the_table(log, tmp_path, capsys):
    head = Path(log).read_text().splitlines()[0]
    name = "\x1b[31mred\x1b]0;title\x07" + "x" * 900
    mark = {"kind": "mark", "what": "rank", "name": name, "t0": 1, "t1": 1, "thread": 0}
    thread = json.dumps({"kind": "define", "what": "thread", "id": 0, "name": "MainThread"})
    end = json.dumps({"kind": "end", "events": 0, "dropped": 0})
    odd = tmp_path / "odd.jsonl"
    odd.write_text("\n".join([head, thread, json.dumps(mark | {"thread": 0}), end, ""]))
    assert main(["merge", str(odd)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "\x1b" not in "".join(lines) and "\x07" not in "".join(lines)
    assert max(map(len, lines)) <= 100 and len(lines[0]) == len(lines[1])


def test_a_rank_that_is_missing_among_the_logs_or_there_twice_is_named(log, tmp_path, capsys):
    head = Path(log).read_text().splitlines()[0]
    thread = json.dumps({"kind": "define", "what": "thread", "id": 0, "name": "MainThread"})
    end = json.dumps({"kind": "end", "events": 0, "dropped": 0})
    logs = []
    for place, number in enumerate((0, 2, 2)):
        mark = {"kind": "mark", "what": "rank", "name": f"{number} of 4", "t0": 1, "t1": 1}
        logs.append(tmp_path / f"{place}.jsonl")
        logs[-1].write_text("\n".join([head, thread, json.dumps(mark | {"thread": 0}), end, ""]))
    assert main(["merge", *map(str, logs)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "minigrad-profile: rank 2 has 2 logs",
        "minigrad-profile: of 4 ranks no log is here of: 1, 3",
    ]
