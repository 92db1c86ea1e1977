"""What the profiler advises: planted faults with their lines, and nothing of sound programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from minigrad_profiler.advice_time import NOTED, _outside
from minigrad_profiler.cli import main
from minigrad_profiler.finding import Finding
from minigrad_profiler.outside import Outside, Spot
from minigrad_profiler.report import report_of
from minigrad_profiler.roofline import Peaks

import minigrad as mg

pytestmark = pytest.mark.promise("planted faults are named with their lines, in page and terminal")

ROOT = Path(__file__).parents[2]
SLOW = ROOT / "tutorials" / "slow.py"
PEAKS = Peaks(1e10, 5e9, 1e10)
FAULTS = {
    "slow line": "power = power @ self.mixing",
    "memory": "square = (",
    "float64": "loss = (errors * importance)",
    "tiny ops": "total = total + (row * row).sum()",
    "unused gradient": "square = (",
}


def line_of(text):
    (number,) = [
        n
        for n, line in enumerate(SLOW.read_text().splitlines(), 1)
        if line.strip().startswith(text)
    ]
    return number


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """The tutorial's script, run under the profiler: its log and its report."""
    folder = tmp_path_factory.mktemp("slow")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "minigrad_profiler", "run", "--html", "slow.html"]
    done = subprocess.run([*command, str(SLOW), "--steps", "12"], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "minigrad-profile.jsonl", folder / "slow.html"


def in_the_page(path):
    text = path.read_text()
    data = text.partition('<script type="application/json" id="data">')[2]
    return json.loads(data.partition("</script>")[0])["advice"]


def test_the_gradient_of_one_tensor_is_one_finding(slow, capsys):
    main(["advice", "--json", str(slow[0])])
    findings = json.loads(capsys.readouterr().out)["findings"]
    unread = [f["evidence"] for f in findings if f["kind"] == "unused gradient"]
    assert len(unread) == 1
    assert "shape 300×24, 28.1 KiB, was computed 12 times" in unread[0]


@pytest.mark.parametrize("kind", FAULTS)
def test_the_report_and_the_terminal_name_each_planted_fault_and_its_line(slow, capsys, kind):
    log, page = slow
    place = f"slow.py:{line_of(FAULTS[kind])}"
    found = [f for f in in_the_page(page) if f["kind"] == kind]
    assert place in [finding["place"].rpartition("/")[2] for finding in found]
    assert main(["advice", str(log), "--json"]) == 0
    told = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["kind"] == kind]
    assert place in [finding["place"].rpartition("/")[2] for finding in told]
    assert main(["advice", str(log), "--width", "200"]) == 0
    text = capsys.readouterr().out
    assert any(place in line and found[0]["title"][:10] in line for line in text.splitlines())


def test_the_first_float64_finding_is_the_only_line_that_promotes(slow):
    places = {f["place"] for f in in_the_page(slow[1]) if f["kind"] == "float64"}
    assert len(places) == 1


def advised(tmp_path, fn, memory=True):
    path = str(tmp_path / "run.jsonl")
    with mg.event_log(path, memory=memory):
        fn()
    return {finding.kind: finding for finding in report_of(path, PEAKS).findings}


def training(steps, each):
    def run():
        model = mg.nn.Linear(64, 64)
        optimizer = mg.optim.SGD(model.parameters(), lr=0.01)
        x = mg.tensor(np.ones((64, 64), "float32"))
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            each(loss, x)

    return run


def test_a_sound_loop_has_no_fault(tmp_path):
    found = advised(tmp_path, training(6, lambda loss, x: None))
    kinds = {"float64", "tiny ops", "unused gradient", "leak", "held", "transfers"}
    assert not kinds & found.keys() and "slow line" in found


def each_of(rows, size):
    def run():
        x = mg.tensor(np.ones((rows, size), "float32"))
        for i in range(rows):
            mg.exp(x[i])

    return run


def test_the_engines_work_around_ops_comes_after_every_fault():
    around = Spot("python", "train.py:3", "main", 29_000_000, engine=True)
    (finding,) = _outside(Outside(30_000_000, 0, [], [around], {}, {}))
    fault = Finding("pieces", "", "train.py:4", "", "", NOTED, True)
    assert finding.rank < fault.rank


def test_ops_are_tiny_where_calling_them_is_a_large_part_of_their_time(tmp_path):
    assert "tiny ops" in advised(tmp_path, each_of(300, 4), memory=False)
    assert "tiny ops" not in advised(tmp_path, each_of(300, 30_000), memory=False)


def test_results_that_are_kept_from_step_to_step_are_a_leak(tmp_path):
    kept = []
    found = advised(tmp_path, training(8, lambda loss, x: kept.append(x * 1.0)))
    assert found["leak"].place.endswith("test_report_advice.py:" + str(_line_with("x * 1" + ".0")))
    assert "mul made most of the growth" in found["leak"].evidence


def _line_with(text):
    return next(
        n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line
    )


def test_an_array_kept_long_after_its_last_use_is_named(tmp_path):
    def program():
        early = mg.ones(500, 500) * 2.0  # the one that is kept
        x = mg.ones(300, 300, requires_grad=True)
        for _ in range(20):
            (x @ x @ x).sum().backward()
        del early

    found = advised(tmp_path, program)
    assert found["held"].place.endswith(f":{_line_with('# the one that is ' + 'kept')}")


def test_a_few_bytes_that_wait_for_the_backward_are_no_finding(tmp_path):
    def program():
        x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (x * x).sum().backward()

    assert "memory" not in advised(tmp_path, program)


def test_repeated_copies_between_devices_are_named(tmp_path):
    path = tmp_path / "copies.jsonl"
    with mg.event_log(path):
        for _ in range(5):
            (mg.ones(3, requires_grad=True) * 2).sum().backward()
    text = path.read_text().replace('"op":"mul"', '"op":"device_copy"')
    path.write_text(text)
    found = {finding.kind: finding for finding in report_of(str(path), PEAKS).findings}
    assert found["transfers"].evidence.startswith("5 copies")
    assert "test_report_advice.py:" in found["transfers"].place


def test_an_empty_log_has_no_advice(tmp_path, capsys):
    path = tmp_path / "empty.jsonl"
    with mg.event_log(path, memory=True):
        pass
    assert main(["advice", str(path)]) == 0
    assert capsys.readouterr().out == "nothing stands out\n"
    assert main(["report", str(path), "-o", str(tmp_path / "empty.html")]) == 0


def test_a_log_that_says_it_was_open_for_no_time_has_no_share_of_recording(tmp_path, capsys):
    path = tmp_path / "odd.jsonl"
    with mg.event_log(path):
        mg.exp(1.0)
    *lines, end = path.read_text().splitlines()
    odd = {**json.loads(end), "wall_ns": 0, "recording_ns": 10**9}
    path.write_text("\n".join([*lines, json.dumps(odd), ""]))
    assert main(["advice", str(path)]) == 0
    assert "recording took" not in capsys.readouterr().out


def test_a_log_that_began_at_the_end_of_all_time_is_read(tmp_path):
    path = tmp_path / "odd.jsonl"
    with mg.event_log(path, schedule=(1, 0, 1, 1)) as log:
        for _ in range(2):
            mg.exp(1.0)
            log.step()
    first, *lines = path.read_text().splitlines()
    odd = {**json.loads(first), "base_ns": 2**63 - 1}
    path.write_text("\n".join([json.dumps(odd), *lines, ""]))
    assert main(["advice", str(path)]) == 0


def test_calls_without_any_backward_are_not_told_by_the_step(tmp_path):
    log = str(tmp_path / "run.jsonl")
    with mg.event_log(log):
        for _ in range(2000):
            mg.ones(3) + 1
    (slow,) = [f for f in report_of(log, PEAKS).findings if f.kind == "slow line"]
    assert "(2,000 forward calls)" in slow.evidence
    assert "add runs 2,000 times here" in slow.suggestion
