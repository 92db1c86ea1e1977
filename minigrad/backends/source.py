"""Python source made at run time, which inspect and tracebacks can show."""

import linecache
from collections.abc import Callable
from typing import Any

UNNAMED = "<generated>"  # the file of source that is never shown


def compiled(
    name: str, lines: list[str], known: dict[str, Any], file: str = UNNAMED, unique: bool = True
) -> Callable:
    """The function of this name that the lines define; `known` are its globals.

    `file`: the source's name in tracebacks; if unique, they and inspect.getsource find the lines.
    """
    known["__name__"] = __name__  # events.py then counts its frames as the library's
    text = "\n".join(lines) + "\n"
    exec(compile(text, file, "exec"), known)
    if unique and file != UNNAMED:
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return known[name]


def in_tuple(parts: list[str]) -> str:
    """The source of a tuple of these expressions."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
