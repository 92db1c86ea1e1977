"""Names of rows, source places shortened with file and line kept; numbers in them."""

import re
from typing import Any

from minigrad.instrument.profile_table import relative
from minigrad.instrument.table import beginning, cells, printable, shortened

_LINE = re.compile(r":\d+$")


def place_of(site: dict[str, Any] | None) -> str:
    """file:line of a site, or "" for none."""
    return f"{site['file']}:{site['line']}" if site else ""


def fitted(name: str, width: int) -> str:
    """A name that begins with a path, in at most `width` columns: leading folders go first.

    "/home/a/project/models/blocks.py:42 forward" -> "…/models/blocks.py:42 forward"

    Then the text after the path is cut; a file and its line stay readable as long as there is room.
    A single name that is too long loses its middle, since its beginning distinguishes it from
    others. Leading spaces stay.
    """
    if name.startswith(" "):
        indent = name[: len(name) - len(name.lstrip(" "))]
        return indent + fitted(name.lstrip(" "), width - len(indent))
    name = printable(relative(name))
    path, space, rest = name.partition(" ")
    longer = path
    while cells(path) + cells(space) + cells(rest) > width:
        _, found, behind = path.removeprefix("…/").partition("/")
        if not found:
            break
        longer, path = path, f"…/{behind}"
    if not rest and cells(path) > width and not _LINE.search(path):
        return shortened(longer.removeprefix("…/"), width)
    name = f"{path}{space}{rest}"
    for whole in (name, name.removeprefix("…/")):
        if cells(whole) <= width:
            return whole
    if not _LINE.search(path) or cells(path) + 3 <= width:
        return f"{beginning(name, width - 1)}…"
    return shortened(path.removeprefix("…/"), width)


def often(count: int) -> str:
    """How many times: once, 6 times."""
    return "once" if count == 1 else f"{count:,} times"


def wrapped(title: str, items: list[str], width: int, between: str = ", ") -> list[str]:
    """Items one after the other, on as many lines as they need."""
    lines = [title]
    for i, item in enumerate(items):
        item += between.rstrip() if i < len(items) - 1 else ""
        if cells(lines[-1]) + 1 + cells(item) > width and lines[-1].strip():
            lines.append("  " + item)
        else:
            lines[-1] += (" " if lines[-1].strip() and not lines[-1].endswith(" ") else "") + item
    return lines


def sentence(text: str, width: int) -> list[str]:
    """A sentence on as many lines as it needs."""
    return wrapped("", text.split(), width, " ")


def scaled(x: float) -> str:
    """Three digits and a prefix: 12.3 G."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= 0.9995 * factor:
            return f"{x / factor:.3g} {prefix}"
    return f"{x:.3g} "
