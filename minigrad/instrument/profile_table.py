"""The table of an aggregate profile, for 80 columns."""

import os
from textwrap import wrap
from typing import Any

from .cells import IN_GRAPH, REPLAY, Row
from .table import counted, duration, size, text_table

_MOST_PROMOTIONS = 10
_REPLAYED = (REPLAY, IN_GRAPH)


def text(
    rows: list[Row], wall: int, cost: float, memory: Any, top: int,
    scopes: dict[str, tuple[int, int]] | None = None,
    variants: dict[tuple[str, str], int] | None = None,
) -> str:  # fmt: skip
    """The rows, longest first, and below them what they cost to find and what they show.

    wall: nanoseconds counted; cost: nanoseconds a call that recording takes; memory: PeakMemory;
    scopes: times and nanoseconds of each; variants: the calls that each form of an op computed.
    """
    calls, total = sum(row.calls for row in rows), sum(row.total_ns for row in rows)
    spent = f"{duration(total)} in ops, {duration(wall)} wall"
    title = f"minigrad profile: {counted(calls, 'call')}, {spent}"
    if not rows:
        return title
    by_line = any(row.site for row in rows)
    lines = [_cells(row, by_line) for row in rows[:top]]
    if rest := rows[top:]:
        name = f"({counted(len(rest), 'more row')})"
        other = Row(name, "", sum(row.calls for row in rest), sum(row.total_ns for row in rest))
        other.share = sum(row.share for row in rest)
        lines.append(_cells(other, by_line))
    lines.append(["total", "", f"{calls:,}", duration(total), "", "100.0 %" if total else ""])
    columns = ["<line" if by_line else "<op", "<phase", "calls", "total", "per call", "share"]
    part = f", {cost * calls / wall:.1%} of wall time" if wall else ""
    note = f"recording: at least {duration(cost)} a call{part}; not subtracted"
    parts = [title, text_table(columns, lines), note]
    if memory is not None:
        parts.append(memory_text(memory))
    if scopes:
        parts.append(_of_scopes(scopes, wall, top))
    if variants:
        parts.append(_of_variants(variants, rows, top))
    if any(row.phase in _REPLAYED for row in rows):
        parts += _of_replays(rows, top)
    promoted = [row for row in rows if row.promoted]
    if promoted:
        parts.append(_promotions(promoted))
    return "\n".join(parts)


def _of_scopes(scopes: dict[str, tuple[int, int]], wall: int, top: int) -> str:
    """A table of scopes; its shares are of the wall time, and one scope may hold another."""
    lines = [
        [name, f"{times:,}", duration(ns), duration(ns / times), f"{100 * ns / max(1, wall):.1f} %"]
        for name, (times, ns) in list(scopes.items())[:top]
    ]
    if rest := len(scopes) - len(lines):
        lines.append([f"({counted(rest, 'more scope')})", "", "", "", ""])
    return text_table(["<scope", "times", "total", "each", "of wall"], lines)


def _of_variants(variants: dict[tuple[str, str], int], rows: list[Row], top: int) -> str:
    """A table of the forms that computed an op in place of the reference form."""
    calls = {row.op: 0 for row in rows}
    for row in rows:
        calls[row.op] += row.calls * (row.phase == "forward")
    lines = [
        [op, name, f"{n:,}", f"{calls[op]:,}" if calls.get(op) else ""]
        for (op, name), n in list(variants.items())[:top]
    ]
    if rest := len(variants) - len(lines):
        lines.append([f"({counted(rest, 'more variant')})", "", "", ""])
    return text_table(["<op", "<variant", "calls", "of forward calls"], lines)


def _of_replays(rows: list[Row], top: int) -> list[str]:
    """The replayed calls of several ops in full, with the lines that recorded these."""
    joined = [row for row in rows if row.phase in _REPLAYED and "+" in row.op]
    lines = ["replayed calls of several ops:"] if joined else []
    for row in joined[:top]:
        words = row.op.replace("+", " + ") + (f", {_site(row)}" if row.site else "")
        lines += wrap(words, 78, initial_indent="  ", subsequent_indent="    ")
    if len(joined) > top:
        lines.append(f"  ({len(joined) - top:,} more)")
    if any(row.phase == IN_GRAPH for row in rows):
        lines.append("a CUDA graph runs as one: the calls in it have no times of their own")
    return lines


def _site(row: Row) -> str:
    return "; ".join(map(relative, row.site.split("; ")))


def memory_text(memory: Any) -> str:
    """One line: the bytes at the peak and whose they were."""
    told = memory.as_dict()
    largest = sorted(told["at_peak"].items(), key=lambda item: -item[1])
    owners = ", ".join(f"{size(n)} {name}" for name, n in largest)
    return f"memory at its peak: {size(told['peak'])} ({owners}); {size(told['live'])} now"


def _promotions(rows: list[Row]) -> str:
    lines = [
        "float64 was made of narrower floats, which doubles the memory they move, in:",
        *[f"  {_named(row)}" for row in rows[:_MOST_PROMOTIONS]],
        "(a NumPy float64 beside a tensor? write a Python number instead, or cast)",
    ]
    return "\n".join(lines)


def _named(row: Row) -> str:
    """The op, its phase and the lines where it was seen, as far as they fit."""
    name = f"{row.op} ({row.phase})"
    places = [relative(place) for place in row.promoted_at] or [relative(row.site)] * bool(row.site)
    return f"{name} at {', '.join(places[:3])}" if places else name


def _cells(row: Row, by_line: bool) -> list[str]:
    name = f"{_site(row)} {row.op}" if by_line and row.site else row.op
    if row.phase == IN_GRAPH:
        return [name, row.phase, f"{row.calls:,}", "", "", ""]
    return [
        name,
        row.phase,
        f"{row.calls:,}",
        duration(row.total_ns),
        duration(row.total_ns / row.calls),
        f"{row.share:.1f} %",
    ]


def relative(path: str) -> str:
    """A path below the current folder without that folder."""
    try:
        here = os.getcwd()
    except OSError:  # the folder is gone
        return path
    return path.removeprefix(here + os.sep)
