"""The layers: what may be deleted, who imports whom, how many lines each has."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad import layers

ROOT = Path(__file__).resolve().parents[1]
REMOVABLE = ("fast", "courtesy")


def imports_of(file: Path) -> set[str]:
    """The layers that a file of the package imports from, in any of its lines."""
    found = set()
    package = file.relative_to(ROOT).parts[:-1]
    for part in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(part, ast.ImportFrom):
            above = package[: len(package) - part.level + 1] if part.level else ()
            path = [*above, *(part.module or "").split(".")]
            if path[:1] == ["minigrad"]:
                found |= {*path[1:2]} - {""} or {alias.name for alias in part.names}
        elif isinstance(part, ast.Import):
            found |= {name.name.split(".")[1] for name in part.names if "minigrad." in name.name}
    return found


FILES = [
    file
    for folder in ("minigrad", "viz", "profiler", "tutorials", "benchmarks")
    for file in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("layer", REMOVABLE)
def test_one_line_of_the_package_imports_a_removable_layer(layer):
    importers = [file for file in FILES if layer in imports_of(file)]
    outside = [f for f in importers if not f.is_relative_to(ROOT / "minigrad" / layer)]
    assert outside == [ROOT / "minigrad" / "__init__.py"]


def test_an_import_of_a_layer_inside_a_function_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "minigrad" / "ops" / "sums.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f():\n    from ..fast.ownership import private\n", encoding="utf-8")
    assert imports_of(file) == {"fast"}


@pytest.mark.parametrize("layer", layers.BUDGETS)
def test_a_layer_keeps_to_its_budget(layer):
    assert sum(layers.lines_of(layer).values()) <= layers.BUDGETS[layer]


@pytest.mark.parametrize("layer", layers.LAYERS)
def test_no_file_of_a_layer_is_too_long(layer):
    assert max(layers.lines_of(layer).values()) <= layers.LONGEST


def test_docstrings_comments_and_blank_lines_are_no_code_lines():
    source = '"""Words."""\n\n# more\nx = [\n    1,  # one\n]\n\n'
    source += 'def f():\n    """Words,\n\n    words."""\n'
    assert layers.code_lines(source) == {4, 5, 6, 8}


def test_without_fast_and_courtesy_the_engines_tests_pass(tmp_path):
    for folder in ("minigrad", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for layer in REMOVABLE:
        shutil.rmtree(tmp_path / "minigrad" / layer)
    tests = ["engine/test_backward.py", "engine/test_plan.py", "engine/test_ports.py",
             "ops/test_arithmetic.py", "func/test_nesting.py", "tape/test_tape.py",
             "parallel/test_parallel.py"]  # fmt: skip
    tests = [f"tests/{name}" for name in tests if (tmp_path / "tests" / name).exists()]
    assert len(tests) >= 6
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--plain", *tests]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
