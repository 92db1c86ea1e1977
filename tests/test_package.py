"""What an installed minigrad brings along: all that its packages read, and no less."""

import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "an installed package has all that it reads; examples in docstrings run; the site has a "
    "page for each link"
)

ROOT = Path(__file__).parents[1]
PATTERNS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "setuptools"
]["package-data"]
PACKAGES = [ROOT / "minigrad", ROOT / "viz/minigrad_viz", ROOT / "profiler/minigrad_profiler"]


def carried(package):
    """The files beside the modules that package-data names in one package of the tree."""
    for folder in [package, *(f for f in package.rglob("*") if (f / "__init__.py").exists())]:
        name = ".".join(folder.relative_to(package.parent).parts)
        for pattern in [*PATTERNS["*"], *PATTERNS.get(name, ())]:
            yield from folder.glob(pattern)


def test_every_file_in_a_package_goes_into_the_wheel():
    for package in PACKAGES:
        files = {f for f in package.rglob("*") if f.is_file() and f.suffix != ".py"}
        files = {f for f in files if f.parent.name != "__pycache__"}
        assert files and files == set(carried(package))


def test_the_readmes_model_finds_its_digits_where_there_is_no_checkout():
    names = {file.name for file in carried(ROOT / "minigrad")}
    assert {"digits.npz", "tragedies.txt.xz"} <= names


def test_each_op_is_reached_by_its_name_whatever_files_are_called():
    hidden = []
    for file in pkgutil.walk_packages(mg.ops.__path__, "minigrad.ops."):
        if file.name != "minigrad.ops.work":  # counts of operations, no ops
            names = getattr(importlib.import_module(file.name), "__all__", [])
            hidden += [name for name in names if not callable(vars(mg).get(name))]
    assert hidden == []
