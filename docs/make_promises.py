"""Write docs/design/promises.md, the table of promises, from the tests that keep them.

python docs/make_promises.py       # a test fails while the page is not what this writes

A module of tests names its promises: `pytestmark = pytest.mark.promise("a sentence", …)`.
Several modules may keep one promise.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = """# Promises and their tests

Each promise, and the files under `tests/` that keep it. `pytest -m promise` runs them.
This page is made by `python docs/make_promises.py` from the marker `promise` of the tests.
"""


def promises_of(file: Path) -> list[str]:
    """The arguments of the marker in a module of tests."""
    calls = [n for n in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(n, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "pytest.mark.promise"]
    return [ast.literal_eval(text) for mark in marks for text in mark.args]


def promises() -> dict[str, list[Path]]:
    """{promise: the modules that keep it}"""
    found: dict[str, list[Path]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for promise in promises_of(file):
            found.setdefault(promise, []).append(file.relative_to(ROOT / "tests"))
    return found


def page() -> str:
    """The text of the page: a table for each folder of tests."""
    tables: dict[str, list[str]] = {}
    for promise, files in promises().items():
        folder = "/".join(files[0].parts[:1]) if len(files[0].parts) > 1 else "the package"
        text = re.sub(r"\b(K\d+)\b", r"[\1](../gradcheck.md#checks)", promise)
        names = ", ".join(f"`{file.as_posix()}`" for file in files)
        tables.setdefault(folder, []).append(f"| {text} | {names} |\n")
    parts = [
        f"\n## {folder}\n\n| promise | kept by |\n|---|---|\n{''.join(rows)}"
        for folder, rows in sorted(tables.items())
    ]
    return HEADER + "".join(parts)


if __name__ == "__main__":
    (ROOT / "docs" / "design" / "promises.md").write_text(page(), encoding="utf-8")
