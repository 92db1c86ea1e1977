"""Python source that is made at run time, and found again by inspect and in tracebacks."""

import linecache
from collections.abc import Callable
from typing import Any

UNNAMED = "<generated>"  # a file for source that need not be found again


def compiled(
    name: str, lines: list[str], known: dict[str, Any], file: str = UNNAMED, unique: bool = True
) -> Callable:
    """The function of this name that the lines define; `known` are its globals.

    `file`: what tracebacks call the source; if unique, they and inspect.getsource find the lines.
    """
    known["__name__"] = __name__  # so that events.py counts its frames as the library's
    text = "\n".join(lines) + "\n"
    exec(compile(text, file, "exec"), known)
    if unique and file != UNNAMED:
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return known[name]


def in_tuple(parts: list[str]) -> str:
    """The source of a tuple of these expressions."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
