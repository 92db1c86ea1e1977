"""The layers: what may be deleted, who imports whom, how many lines each has."""

import ast
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from minigrad import layers

ROOT = Path(__file__).resolve().parents[1]
REMOVABLE = ("fast", "courtesy")


@cache
def imports_in(file: Path) -> list[ast.stmt]:
    """The imports of a file, in any of its lines."""
    parts = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [part for part in parts if isinstance(part, ast.Import | ast.ImportFrom)]


def imports_of(file: Path) -> set[str]:
    """The layers that a file of the package imports from."""
    found = set()
    package = file.relative_to(ROOT).parts[:-1]
    for part in imports_in(file):
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


FAST_MODULES = {"blocks", "cuts", "image_layout", "pool"}  # of backends/: what makes ops fast


def test_ops_know_no_blocks_threads_cuts_nor_memory_layouts():
    ops, users = ROOT / "minigrad" / "ops", set()
    for file in ops.rglob("*.py"):
        for part in imports_in(file):
            names = [alias.name for alias in part.names]
            path = [*(getattr(part, "module", "") or "").split("."), *names]
            if "backends" in path and FAST_MODULES & {*path}:
                users.add(str(file.relative_to(ops)))
    assert not users


def modules_imported_by(file: Path) -> set[str]:
    """The modules of the package that a file of the engine imports, by their paths in it."""
    found = set()
    for part in imports_in(file):
        if isinstance(part, ast.ImportFrom) and part.level:
            above = ("engine",) if part.level == 1 else ()
            path = [*above, *(part.module or "").split(".")]
            names = [path] if part.module else [[*path[:-1], alias.name] for alias in part.names]
            if part.level == 2 and part.module and (ROOT / "minigrad" / part.module).is_dir():
                names = [[part.module, alias.name] for alias in part.names]
            found |= {".".join(name) for name in names}
        elif isinstance(part, ast.ImportFrom) and (part.module or "").startswith("minigrad"):
            found.add((part.module or "").removeprefix("minigrad").lstrip("."))
        elif isinstance(part, ast.Import):
            found |= {name.name for name in part.names if name.name.startswith("minigrad")}
    return found


def test_the_reading_order_names_every_file_of_the_engine():
    files = {file.stem for file in (ROOT / "minigrad" / "engine").glob("*.py")} - {"__init__"}
    assert sorted(layers.READING) == sorted(files)


@pytest.mark.parametrize("at", range(len(layers.READING)), ids=layers.READING)
def test_a_file_of_the_engine_imports_only_files_before_it_and_backends(at):
    imported = modules_imported_by(ROOT / "minigrad" / "engine" / f"{layers.READING[at]}.py")
    above = {name for name in imported if not name.startswith("backends.")}
    assert above <= {f"engine.{name}" for name in layers.READING[:at]}


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("from . import events", "engine.events"),
        ("from .graph import raw", "engine.graph"),
        ("from ..modes import hooks", "modes.hooks"),
        ("from ..modes.hooks import add", "modes.hooks"),
        ("from .. import modes", "modes"),
        ("from ..errors import HookError", "errors"),
        ("from minigrad.modes import hooks", "modes"),
        ("import minigrad.modes", "minigrad.modes"),
    ],
)
def test_each_form_of_an_import_is_seen_inside_a_function_too(line, module, tmp_path):
    file = tmp_path / "low.py"
    file.write_text(f"def f():\n    {line}\n", encoding="utf-8")
    assert modules_imported_by(file) == {module}


@pytest.mark.parametrize(("file", "function"), layers.BODIES)
def test_the_two_bodies_of_the_engine_keep_to_their_budgets(file, function):
    assert layers.lines_of_body(file, function) <= layers.BODIES[file, function]


@pytest.mark.parametrize("layer", layers.BUDGETS)
def test_a_layer_keeps_to_its_budget(layer):
    assert sum(layers.lines_of(layer).values()) <= layers.BUDGETS[layer]


@pytest.mark.parametrize("layer", layers.LAYERS)
def test_no_file_of_a_layer_is_too_long(layer):
    assert max(layers.lines_of(layer).values()) <= layers.LONGEST


def test_a_reader_who_leaves_early_gets_no_traceback():
    command = [sys.executable, "-m", "minigrad.layers"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as run:
        run.stdout.close()
        assert run.stderr.read() == ""
        assert run.wait(60) == 1


def printed_by(program: str, plain: str = "1") -> str:
    """What the program prints, in plain mode (without fast and courtesy) or with plain="" not."""
    env = {**os.environ, "MINIGRAD_PLAIN": plain, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_reader_of_the_walk_reads_as_much_as_its_budget_says():
    printed = printed_by("from minigrad import layers; print(*layers.walk().values())")
    lines = [int(count) for count in printed.split()]
    assert 200 < sum(lines) <= layers.WALK
    assert 6 <= len(lines) <= layers.WALK_FILES


CALLS_TO = """
import sys
import minigrad as mg

def calls_to(name, run):
    made, op = [], getattr(mg.engine.registry.op, name)
    forward, here = op.forward, sys._getframe()

    def count(*args, **params):
        frame = sys._getframe(1)
        while frame.f_back is not here:
            made.append(frame := frame.f_back)
        return forward(*args, **params)

    op.forward = count
    run()
    print(len(made))

x = mg.ones(3, requires_grad=True)
"""


@pytest.mark.parametrize(
    ("name", "call"), [("mul", "x * x"), ("sum", "x.sum()"), ("exp", "x.exp()"), ("neg", "-x")]
)
def test_a_method_calls_an_op_whose_next_call_is_the_forward(name, call):
    assert printed_by(f"{CALLS_TO}calls_to({name!r}, lambda: {call})") == "2\n"


@pytest.mark.layer("fast")
@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("name", "call"), [("mul", "x * x"), ("sum", "x.sum()"), ("exp", "x.exp()"), ("max", "x.max()")]
)
def test_help_and_speed_put_no_call_before_the_forward(name, call):
    program = f"{CALLS_TO}calls_to({name!r}, lambda: {call})"
    assert printed_by(program, plain="") == "2\n"


def test_docstrings_comments_and_blank_lines_are_no_code_lines():
    source = '"""Words."""\n\n# more\nx = [\n    1,  # one\n]\n\n'
    source += 'def f():\n    """Words,\n\n    words."""\n'
    assert layers.code_lines(source) == {4, 5, 6, 8}


@pytest.mark.layer("fast")  # it runs the copy's tests in plain mode, whichever mode it is run in
@pytest.mark.layer("courtesy")
def test_without_fast_and_courtesy_the_engines_tests_pass(tmp_path):
    for folder in ("minigrad", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for layer in REMOVABLE:
        shutil.rmtree(tmp_path / "minigrad" / layer)
    tests = ["engine/test_backward.py", "engine/test_plan.py", "engine/test_ports.py",
             "ops/test_elementwise.py", "func/test_nesting.py", "tape/test_tape.py",
             "parallel/test_parallel.py"]  # fmt: skip
    tests = [f"tests/{name}" for name in tests if (tmp_path / "tests" / name).exists()]
    assert len(tests) >= 6
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--plain", *tests]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
