"""The demo runs without a display, writes whole files, and stops cleanly when interrupted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATHS = [str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")]


def start(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    environment.pop("DISPLAY", None)
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tutorials" / "demo.py"), *arguments],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_short_run_trains_profiles_draws_and_checks(tmp_path):
    demo = start(tmp_path, "--epochs", "2", "--target", "80")
    text, progress = demo.communicate(timeout=120)
    assert demo.returncode == 0, progress
    assert progress.startswith("epoch  1/2: loss")
    out = tmp_path / "demo-output"
    assert sorted(path.name for path in out.iterdir()) == [
        "events.jsonl", "graph.html", "graph.json", "graph.svg", "profile.json", "report.html",
    ]  # fmt: skip
    graph = json.loads((out / "graph.json").read_text())
    used = {node["op"] for node in graph["nodes"] if node["op"]}
    assert {"conv", "max_pool", "relu", "linear"} <= used
    checked = [line.split() for line in text.splitlines() if " comparisons " in line]
    assert {words[0] for words in checked} == used
    assert all(words[1] == "passed" for words in checked)
    names = {node["name"] for node in graph["nodes"] if node["kind"] == "parameter"}
    assert {"conv1.weight", "out.bias"} <= names
    assert "</svg>" in (out / "graph.svg").read_text()
    report = (out / "report.html").read_text()
    assert report.startswith("<!DOCTYPE html>") and '"peak":' in report
    assert f"{out.as_uri()}/report.html" in text
    phases = {row["phase"] for row in json.loads((out / "profile.json").read_text())["rows"]}
    assert phases == {"forward", "backward"}


def test_an_accuracy_below_the_target_is_an_exit_code(tmp_path):
    demo = start(tmp_path, "--epochs", "1", "--target", "100", "--out", "here")
    text, _ = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert "BELOW 100 %" in text and (tmp_path / "here" / "graph.svg").exists()


@pytest.mark.skipif(os.name == "nt", reason="SIGINT reaches a child differently on Windows")
def test_an_interrupt_is_one_line_and_leaves_no_half_written_file(tmp_path):
    demo = start(tmp_path, "--epochs", "500")
    assert demo.stderr is not None
    demo.stderr.readline()  # the first epoch is done
    demo.send_signal(signal.SIGINT)
    _, rest = demo.communicate(timeout=30)
    assert demo.returncode == 130
    assert rest.splitlines()[-1] == "interrupted; what lies in demo-output/ is whole"
    assert "Traceback" not in rest
    assert list((tmp_path / "demo-output").iterdir()) == []
