"""What is compiled and kept on disk is used again, and never when it is old."""

import ast
import importlib
import pathlib

import numpy as np
import pytest

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
from minigrad import compiled
from minigrad.compiled import disk, jit

ROOM = pathlib.Path(compiled.__file__).parent
FILES = sorted(path.stem for path in ROOM.glob("*.py") if path.stem != "__init__")


@pytest.fixture
def fresh_digest():
    disk.digest.cache_clear()
    yield
    disk.digest.cache_clear()


def test_the_digest_covers_every_file_of_the_room_and_what_its_numbers_come_from():
    names = {path.name for path in ROOM.glob("*.py")}
    assert disk.sources().keys() == {*names, "normal.py"}


@pytest.mark.parametrize("name", ["jit.py", "functions.py", "planes.py", "normal.py"])
def test_a_change_of_one_file_is_another_digest(name, monkeypatch, fresh_digest):
    before, texts = disk.digest(), disk.sources()
    disk.digest.cache_clear()
    monkeypatch.setattr(disk, "sources", lambda: {**texts, name: texts[name] + "#"})
    assert disk.digest() != before


@pytest.mark.parametrize("stem", FILES)
def test_no_kernel_takes_anything_from_another_room(stem):
    """So that the digest, which is of this room, covers what is compiled into it."""
    module = importlib.import_module(f"minigrad.compiled.{stem}")
    imports = [
        node
        for node in ast.walk(ast.parse((ROOM / f"{stem}.py").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 1
    ]
    foreign = {alias.asname or alias.name for node in imports for alias in node.names}
    kernels = [fn.py_func for fn in vars(module).values() if hasattr(fn, "py_func")]
    assert not foreign & {name for fn in kernels for name in fn.__code__.co_names}


KERNEL = """
from minigrad.compiled.jit import kernel

@kernel
def twice(x, y):
    for i in range(len(x)):
        y[i] = 2 * x[i]
"""


def runs_of_a_new_program(path):
    """(hits, misses) on disk of a kernel in a module that is imported anew, and run once."""
    spec = importlib.util.spec_from_file_location("module_with_a_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = np.arange(3.0), np.empty(3)
    module.twice(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    stats = module.twice.stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def test_a_kernel_from_disk_serves_until_what_it_calls_has_changed(tmp_path, monkeypatch):
    path = tmp_path / "module_with_a_kernel.py"
    path.write_text(KERNEL)
    assert runs_of_a_new_program(path) == (0, 1)
    assert runs_of_a_new_program(path) == (1, 0)
    monkeypatch.setattr(disk, "digest", lambda: "of another room")
    assert runs_of_a_new_program(path) == (0, 1)
    assert runs_of_a_new_program(path) == (1, 0)


def test_a_numba_that_keeps_its_stamp_elsewhere_keeps_no_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "_stamp", lambda kept: False)
    path = tmp_path / "module_with_a_kernel.py"
    path.write_text(KERNEL)
    assert runs_of_a_new_program(path) == runs_of_a_new_program(path) == (0, 1)
    assert not list(tmp_path.glob("__pycache__/*.nbi"))
