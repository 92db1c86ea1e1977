"""The rooms of the house: imports go one way."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "minigrad": ROOT / "minigrad",
    "minigrad_viz": ROOT / "viz" / "minigrad_viz",
    "minigrad_profiler": ROOT / "profiler" / "minigrad_profiler",
}


def imported_by(module: str, file: Path, modules: set[str]) -> set[str]:
    """The modules that a file imports, at its top or inside a function."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for part in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(part, ast.Import):
            names = [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - part.level + 1]
            base = ".".join(
                [*(above if part.level else []), *([part.module] if part.module else [])]
            )
            names = [f"{base}.{alias.name}" for alias in part.names]
            names = [name if name in modules else base for name in names]
        else:
            continue
        found.update(names)
    return found & modules - {module}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_one_that_imports_it(package):
    files = {}
    for file in PACKAGES[package].rglob("*.py"):
        path = file.relative_to(PACKAGES[package]).with_suffix("").parts
        files[".".join([package, *path]).removesuffix(".__init__")] = file
    imports = {name: imported_by(name, file, set(files)) for name, file in files.items()}
    for name in imports:  # the finished library, which foreign_names.py reads for an error alone
        imports[name].discard(package)
    TopologicalSorter(imports).prepare()  # a CycleError names the modules of a cycle


def test_a_cycle_through_an_import_inside_a_function_is_seen(tmp_path):
    file = tmp_path / "low.py"
    file.write_text("def f():\n    from ..high import g\n", encoding="utf-8")
    assert imported_by("a.b.low", file, {"a.high", "a.b.low"}) == {"a.high"}
