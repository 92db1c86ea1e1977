"""Programs with one planted fault: the first finding is that fault, with its line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "planted").glob("*.py"))
KINDS = {
    "data_loader": "data",
    "evaluation": "no backward",
    "float64_line": "float64",
    "growing_losses": "kept graph",
    "import_in_loop": "import",
    "numpy_round_trip": "round trip",
    "retained_graph": "retained graph",
    "slow_op": "slow line",
    "slow_transform": "python",
    "token_loop": "tiny ops",
}


def profiled(tmp_path, *arguments):
    """Run the command in a process of its own; what it printed."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "minigrad_profiler", *map(str, arguments)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def cause_in(program):
    """The number of the line that is marked as the cause."""
    lines = program.read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if "# cause" in line]
    return number


def test_every_program_is_of_a_known_kind():
    assert {program.stem for program in PROGRAMS} == KINDS.keys()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_planted_fault_is_the_first_finding_with_its_line(tmp_path, program):
    profiled(tmp_path, "run", "-o", "run.jsonl", program)
    first = json.loads(profiled(tmp_path, "advice", "--json", "run.jsonl"))["findings"][0]
    assert first["kind"] == KINDS[program.stem]
    assert first["place"].endswith(f"{program.name}:{cause_in(program)}")


def test_the_report_begins_with_the_same_finding(tmp_path):
    (program,) = [program for program in PROGRAMS if program.stem == "growing_losses"]
    profiled(tmp_path, "run", "-o", "run.jsonl", "--html", "run.html", program)
    text = (tmp_path / "run.html").read_text()
    data = text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    first = json.loads(data)["advice"][0]
    assert first["kind"] == "kept graph" and first["place"].endswith(f":{cause_in(program)}")
