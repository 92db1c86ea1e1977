"""`python -m benchmarks` says which there are."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [
    script.stem
    for script in sorted((ROOT / "benchmarks").glob("*.py"))
    if "ArgumentParser(" in script.read_text()
]


def options_of(script):
    """The calls of add_argument in a benchmark: (name, whether it has a help text)."""
    calls = [n for n in ast.walk(ast.parse(script.read_text())) if isinstance(n, ast.Call)]
    return [
        (call.args[0].value, any(given.arg == "help" for given in call.keywords))
        for call in calls
        if getattr(call.func, "attr", "") == "add_argument"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_benchmark_says_what_it_does(name):
    options = options_of(ROOT / "benchmarks" / f"{name}.py")
    assert options and [option for option, explained in options if not explained] == []


@pytest.mark.parametrize("name", ["gpu", "viewer"])
def test_the_help_of_a_benchmark_says_what_it_measures_also_where_it_cannot_run(name):
    pytest.importorskip("torch")
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    docstring = ast.get_docstring(ast.parse(Path(command[1]).read_text()))
    assert done.returncode == 0 and docstring in done.stdout


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("pears", 2), ("workloads", 2)])
def test_help_and_a_wrong_name_list_the_benchmarks_and_run_none(word, code):
    command = [sys.executable, "-m", "benchmarks", word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == code and "peers, instructions, small_ops" in said
    assert "==" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    "option, said", [([], "C library's heap untouched"), (["--process"], "keeps up to 256 MB")]
)
def test_a_benchmark_says_whether_the_process_is_tuned_as_the_option_asks_for(option, said):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "benchmarks", *option, "peers", "--only", "no such workload"]
    kept = {k: v for k, v in os.environ.items() if k != "MINIGRAD_ACCELERATE"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=kept
    )  # fmt: skip
    assert said in done.stdout, done.stderr


def test_the_parallel_benchmark_runs_with_one_turn_too():
    command = [sys.executable, "-m", "benchmarks", "parallel", "--repeats", "1", "small"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "same bits: True" in done.stdout, done.stderr


def test_the_checkout_is_measured_and_no_other_minigrad_in_the_path(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "minigrad.py").write_text("raise ImportError('another minigrad')")
    command = [sys.executable, "-m", "benchmarks", "peers", "--only", "no such workload"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0 and "another minigrad" not in done.stderr, done.stderr
