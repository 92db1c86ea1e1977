"""docs/ops.md is what the registry says now; every op explains itself; docstring examples run."""

import doctest
import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import minigrad_profiler
import minigrad_viz
import pytest

import minigrad
import minigrad.testing.samples  # registers the specs
from minigrad.core.primitive import Primitive
from minigrad.core.registry import op
from minigrad.testing.spec import specs

ROOT = Path(__file__).parents[1]


def test_the_page_of_ops_is_up_to_date():
    program = "import runpy; print(runpy.run_path('docs/make_ops.py')['page'](), end='')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert done.stdout == written, "run: python docs/make_ops.py"


def test_the_examples_in_docstrings_run_as_they_stand():
    packages, attempted = (minigrad, minigrad_profiler, minigrad_viz), 0
    for package in packages:
        for file in Path(package.__file__).parent.rglob("*.py"):
            if ">>> " in file.read_text(encoding="utf-8"):
                inside = file.relative_to(Path(package.__file__).parents[1]).with_suffix("").parts
                name = ".".join(inside).removesuffix(".__init__")
                done = doctest.testmod(importlib.import_module(name))
                assert done.failed == 0, name
                attempted += done.attempted
    assert attempted > 10


def test_every_op_has_a_formula():
    assert specs
    assert not [name for name in specs if not (getattr(op, name).__doc__ or "").strip()]


def test_every_primitive_is_reached_by_one_name():
    for entry in op:
        name = entry.name if isinstance(entry, Primitive) else entry.__name__
        assert getattr(op, name) is entry


def test_the_site_has_the_pictures_of_tutorials_beside_their_pages(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    for notebook in (tmp_path / "tutorials").glob("*.ipynb"):
        for picture in re.findall(r"\]\((pictures/[^)]+)\)", notebook.read_text("utf-8")):
            assert (notebook.with_suffix("") / picture).is_file(), notebook.name
    assert not list((tmp_path / "pictures").glob("*.py")), "each would be a page"
