"""What is compiled and kept on disk is used again, and never when it is old."""

import ast
import importlib
import os
import pathlib
import pickle
import stat
import warnings

import numpy as np
import pytest

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
import numba

from minigrad import compiled
from minigrad.compiled import disk, jit

pytestmark = pytest.mark.promise("a kernel or loop on disk is never older than its sources")

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


# -- whose files these are -------------------------------------------------------------------------

on_posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="of POSIX's users and modes")
SOURCE = "def fused(n0, x0, y0):\n    for j in range(n0):\n        y0[j] = {} * x0[j]\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder for caches, in which nothing is yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    disk.is_private.cache_clear()
    yield tmp_path / "cache"
    disk.is_private.cache_clear()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def compiled_and_run(source):
    launch = importlib.import_module("minigrad.compiled.launch")
    launch.loops.clear()
    loop, y = launch.compiled(source), np.empty(3)
    loop(3, np.arange(3.0), y)
    return y


class Planted:
    """What runs a command when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def plant(folder, mark):
    found = [*folder.glob("__pycache__/*.nbi")]
    for index in found:
        index.write_bytes(pickle.dumps(numba.__version__) + pickle.dumps(Planted(mark)))
    return found


@on_posix
@pytest.mark.parametrize("umask", [0, 0o002, 0o077])
def test_the_folders_are_made_for_the_user_alone(home, umask):
    before = os.umask(umask)
    try:
        compiled_and_run(SOURCE.format(2))
    finally:
        os.umask(before)
    made = [home, home / "minigrad", disk.directory(), disk.directory() / "__pycache__"]
    assert [mode(path) for path in made] == [0o700] * 4
    assert [*disk.directory().glob("__pycache__/*.nbi")]


@on_posix
@pytest.mark.parametrize("name, bits", [
    (".", 0o777), (".", 0o770), (".", 0o702), ("__pycache__", 0o777), ("..", 0o777),
    ("../..", 0o707),
])  # fmt: skip
def test_what_others_can_write_is_refused_with_one_warning_and_runs_nothing(
    home, tmp_path, name, bits
):
    mark = tmp_path / "ran"
    compiled_and_run(SOURCE.format(3))
    assert plant(disk.directory(), mark)
    (disk.directory() / name).chmod(bits)
    disk.is_private.cache_clear()
    with pytest.warns(RuntimeWarning, match="others can write to it.*chmod 700"):
        y = compiled_and_run(SOURCE.format(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compiled_and_run(SOURCE.format(3))
    assert not mark.exists() and (y == [0, 3, 6]).all() and (again == y).all()


@on_posix
def test_a_folder_of_another_user_is_refused(home, monkeypatch):
    compiled_and_run(SOURCE.format(4))
    monkeypatch.setattr(disk, "_owners", lambda: {os.geteuid() + 1})
    disk.is_private.cache_clear()
    with pytest.warns(RuntimeWarning, match="another user's"):
        assert disk.file_of(SOURCE.format(4)) is None


@on_posix
def test_a_foreign_file_in_a_folder_that_is_private_now_is_removed(home, tmp_path):
    mark = tmp_path / "ran"
    compiled_and_run(SOURCE.format(5))
    [index] = plant(disk.directory(), mark)
    index.chmod(0o666)
    assert (compiled_and_run(SOURCE.format(5)) == [0, 5, 10]).all()
    assert not mark.exists() and mode(index) & 0o022 == 0


@on_posix
def test_a_cache_of_numba_that_others_share_is_refused(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(shared))
    disk.is_private.cache_clear()
    with pytest.warns(RuntimeWarning, match="others can write to it"):
        path = tmp_path / "module_with_a_kernel.py"
        path.write_text(KERNEL)
        assert runs_of_a_new_program(path) == (0, 1)
    assert runs_of_a_new_program(path) == (0, 1) and not [*shared.rglob("*.nbi")]
    disk.is_private.cache_clear()
