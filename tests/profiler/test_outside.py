"""Time outside of ops: rows and lines of its own, and the recording in neither."""

import json
import re
import time

import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.report import report_of
from minigrad_profiler.view import summary

import minigrad as mg
from minigrad.instrument import event_log
from minigrad.instrument.writing import GrowingFile
from minigrad.modes.scopes import scope


def test_time_outside_of_ops_has_rows_and_lines(tmp_path, capsys):
    with event_log(tmp_path / "run.jsonl"):
        mg.ones(3).sum()
        with open(tmp_path / "busy.txt", "w") as file:
            for number in range(200_000):
                file.write(str(number))
    assert main(["view", str(tmp_path / "run.jsonl"), "--width", "200"]) == 0
    rest = capsys.readouterr().out.partition("outside of ops")[2]
    assert "Python" in rest and "test_outside.py" in rest
    assert main(["view", str(tmp_path / "run.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["outside"]
    rest_ns = found["run_ns"] - found["ops_ns"]
    assert sum(row["ns"] for row in found["rows"]) == pytest.approx(rest_ns, rel=0.01)


def test_a_slow_disk_is_recording_and_no_line_of_the_program(tmp_path, monkeypatch):
    write = GrowingFile.write

    def slow(self, text):
        time.sleep(0.02)
        write(self, text)

    monkeypatch.setattr(GrowingFile, "write", slow)
    with event_log(tmp_path / "run.jsonl"):
        for _ in range(1000):
            mg.ones(3) * 2
    found = summary(str(tmp_path / "run.jsonl"), "line").beside
    waited = 7 * 20_000_000  # seven batches while it runs
    assert found.recording > waited
    assert sum(found.lines.values()) < waited


def test_scopes_cost_is_recording_and_no_line_of_the_program(tmp_path, monkeypatch):
    with event_log(tmp_path / "run.jsonl"):
        for _ in range(300):
            with scope("part"):
                pass
    *lines, end = (tmp_path / "run.jsonl").read_text().splitlines()
    told = []
    for each in (0, 10**12):  # a mark that costs more than there is
        told_end = json.loads(end) | {"marking_ns": each}
        (tmp_path / "told.jsonl").write_text("\n".join([*lines, json.dumps(told_end), ""]))
        told.append(summary(str(tmp_path / "told.jsonl"), "line").beside)
    assert told[1].recording > told[0].recording
    assert sum(told[1].lines.values()) <= sum(told[0].lines.values())


def test_looking_at_the_program_is_recording_and_no_line_of_it(tmp_path):
    with event_log(tmp_path / "run.jsonl", sample_ms=1):
        mg.ones(3) * 2
        end_of_loop = time.perf_counter() + 0.03
        while time.perf_counter() < end_of_loop:
            pass
    *lines, end = (tmp_path / "run.jsonl").read_text().splitlines()
    told = []
    for spent in (0, 10**12):  # looks that cost more than there is
        told_end = json.loads(end) | {"recording_ns": spent}
        (tmp_path / "told.jsonl").write_text("\n".join([*lines, json.dumps(told_end), ""]))
        told.append(summary(str(tmp_path / "told.jsonl"), "line").beside)
    assert told[1].recording > told[0].recording
    assert sum(told[1].lines.values()) < sum(told[0].lines.values())


def test_recording_is_one_number_in_view_advice_and_report(tmp_path, capsys):
    path = str(tmp_path / "run.jsonl")
    with event_log(path, memory=True):
        x = mg.ones(3, requires_grad=True)
        for _ in range(2000):
            (x * 2).sum().backward()
    assert main(["view", path]) == 0
    (share,) = re.findall(r"recording took .*?\(([\d.]+)%\)", _unwrapped(capsys))
    assert main(["advice", path]) == 0
    assert f"recording took {share}% of the time" in _unwrapped(capsys)
    parts = {name: percent for name, _, percent, _ in report_of(path).data("t")["summary"]["parts"]}
    assert abs(parts["recording"] - float(share)) < 0.2


def _unwrapped(capsys):
    return " ".join(capsys.readouterr().out.split())
