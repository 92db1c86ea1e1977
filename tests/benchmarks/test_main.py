"""`python -m benchmarks` says which there are."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("pears", 2)])
def test_help_and_a_wrong_name_list_the_benchmarks_and_run_none(word, code):
    command = [sys.executable, "-m", "benchmarks", word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == code and "peers, instructions, small_ops" in said
    assert "==" not in said and "Traceback" not in said
