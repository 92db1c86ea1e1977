"""Tables as plain aligned text, and the numbers in them as people read them."""

import os
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TextIO

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def duration(ns: float) -> str:
    """Three digits and a unit: 950 ns, 12.3 µs, 4.56 ms, 12.3 s."""
    for size, unit in _UNITS:
        if ns >= 0.9995 * size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{round(ns)} ns"


def size(count: float) -> str:
    """Bytes in binary units: 512 B, 4.00 KiB, 1.50 MiB."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1024, units[1:]
    return f"{round(count)} B" if units[0] == "B" else f"{_three_digits(count)} {units[0]}"


def counted(n: int, noun: str) -> str:
    """A number and what it counts: 1 call, 1,728 calls."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _three_digits(x: float) -> str:
    return f"{x:.2f}" if x < 9.995 else f"{x:.1f}" if x < 99.95 else f"{x:,.0f}"


def shares(values: Sequence[int]) -> list[float]:
    """The values in percent of their sum, to one decimal; they add to exactly 100.0.

    Each is rounded down to a tenth; the tenths that are left go to those that lost most.
    """
    total = sum(values)
    if total <= 0:
        return [0.0] * len(values)
    tenths = [value * 1000 // total for value in values]
    lost = sorted(range(len(values)), key=lambda i: -(values[i] * 1000 % total))
    for i in lost[: 1000 - sum(tenths)]:
        tenths[i] += 1
    return [count / 10 for count in tenths]


def cells(text: str) -> int:
    """How many columns of a terminal a text fills: Chinese takes two each, an accent none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def beginning(text: str, width: int) -> str:
    """As much of a text's beginning as fits into `width` columns."""
    ends = accumulate(map(_columns_of, text))
    return text[: sum(end <= width for end in ends)]


def printable(text: str, instead: str = "?") -> str:
    """On one line, with `instead` for what has no glyph, or what a terminal would obey."""
    return "".join(c if c.isprintable() else instead for c in text)


def shortened(text: str, width: int) -> str:
    """At most `width` columns; "…" replaces the part cut out in the middle."""
    text = printable(text)
    if cells(text) <= width:
        return text
    head = beginning(text, (width - 1) // 3)
    tail = beginning(text[::-1], width - 1 - cells(head))[::-1]
    while not _columns_of(tail[:1] or "x"):  # an accent whose letter was cut off
        tail = tail[1:]
    return f"{head}…{tail}"


_LEAST = 12  # columns of a terminal that the first column of a table has in any case


def _others(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """What all columns but the first fill, with the gaps before them."""
    table = [[title.removeprefix("<") for title in columns], *rows]
    return sum(2 + max(map(cells, column)) for column in zip(*[row[1:] for row in table]))


def text_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int = 80,
    shorten: Callable[[str, int], str] = shortened,
    spare: Sequence[str] = (),
) -> str:
    """Aligned text: columns whose title begins with "<" to the left, the others to the right.

    The first column is shortened where the lines would be wider than `width`. Where that does not
    suffice, the columns named in `spare` go, one after the other.
    """
    for title in spare:
        if _others(columns, rows) + _LEAST <= width:
            break
        at = columns.index(title)
        columns, *rows = ([*row[:at], *row[at + 1 :]] for row in (columns, *rows))
    left = [title.startswith("<") for title in columns]
    titles = [title.removeprefix("<") for title in columns]
    room = max(_LEAST, width - _others(columns, rows))
    rows = [[shorten(row[0], room), *row[1:]] for row in rows]
    widths = [max(map(cells, column)) for column in zip(titles, *rows, strict=True)]
    lines = []
    for row in (titles, *rows):
        gaps = [" " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)]
        fitted = [
            cell + gap if to_left else gap + cell
            for cell, gap, to_left in zip(row, gaps, left, strict=True)
        ]
        lines.append("  ".join(fitted).rstrip())
    return "\n".join(lines)


def show(text: str, stream: TextIO) -> None:
    """Write a table to a stream; on a terminal, with rich there, its second line (titles) in bold.

    NO_COLOR is honoured (no-color.org).
    """
    lines = text.split("\n")
    if len(lines) > 1 and stream.isatty() and not os.environ.get("NO_COLOR"):
        console = _rich_console(stream)
        if console is not None:
            console.out(lines[0], highlight=False)
            console.out(lines[1], style="bold", highlight=False)
            lines = lines[2:]
    stream.write("\n".join(lines) + "\n")
    stream.flush()


def _rich_console(stream: TextIO) -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
