"""Programs with one planted fault: the first finding is that fault, with its line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from minigrad_profiler.cli import main

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((Path(__file__).parent / "planted").glob("*.py"))
KINDS = {
    "bag_of_words": "python",
    "cached_features": "kept graph",
    "collate": "data",
    "data_loader": "data",
    "evaluation": "no backward",
    "float64_line": "float64",
    "growing_losses": "kept graph",
    "growing_predictions": "pieces",
    "growing_sequence": "pieces",
    "import_in_loop": "import",
    "late_import": "import",
    "loss_by_rows": "tiny ops",
    "numpy_round_trip": "round trip",
    "parsing_loader": "data",
    "positions_float64": "float64",
    "retained_graph": "retained graph",
    "running_loss": "kept graph",
    "second_order": "retained graph",
    "slow_op": "slow line",
    "slow_transform": "python",
    "softmax_by_lists": "round trip",
    "token_loop": "tiny ops",
    "validation": "no backward",
    "wide_convolution": "slow line",
}
REPORTED = {  # recorded as a report needs it, with stacks and memory, which takes longer
    "data_loader",
    "float64_line",
    "growing_losses",
    "growing_predictions",
    "slow_transform",
    "token_loop",
}


def profiled(tmp_path, *arguments):
    """Run the program in a process of its own."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "minigrad_profiler", "run", "-o", "run.jsonl", *map(str, arguments)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def cause_in(program):
    """The number of the line that is marked as the cause."""
    lines = program.read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if "# cause" in line]
    return number


def test_every_program_is_of_a_known_kind():
    assert {program.stem for program in PROGRAMS} == KINDS.keys()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_planted_fault_is_the_first_finding_with_its_line(tmp_path, program, capsys):
    html = ["--html", "run.html"] if program.stem in REPORTED else []
    profiled(tmp_path, *html, program)
    assert main(["advice", "--json", str(tmp_path / "run.jsonl")]) == 0
    firsts = [json.loads(capsys.readouterr().out)["findings"][0]]
    if html:  # it is also what the report begins with
        text = (tmp_path / "run.html").read_text()
        data = text.partition('<script type="application/json" id="data">')[2]
        firsts.append(json.loads(data.partition("</script>")[0])["advice"][0])
    for first in firsts:
        assert first["kind"] == KINDS[program.stem]
        assert first["place"].endswith(f"{program.name}:{cause_in(program)}")
