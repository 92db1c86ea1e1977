"""The user's source in the report: each measured line with its time and bytes next to it.

Only Python files are read, and only those that the log names; a log from elsewhere cannot bring
other files into a report. A file that has changed since the log was written is shown with a
warning.
"""

import os
import stat
from typing import Any

from .report_log import NO_LINE, Measured, inert, with_glyphs
from .report_memory import Memory

MOST_FILES = 20
MOST_LINES = 4_000  # of one file
_MOST_BYTES = 1 << 20
_MOST_WIDTH = 300


def sources(measured: Measured, memory: Memory | None, read: bool = True) -> list[dict[str, Any]]:
    """The files of the log, those with the most time first.

    lines  the text, from line `first` on; none where it was not read (`note` says why)
    hot    {line: [forward ns, backward ns, engine ns, calls, bytes, flops, waiting bytes]}
    """
    files: dict[str, dict[int, list[int]]] = {}
    for call, sums in measured.by_key():
        entry = _entry(files, call.place)
        if entry is None:
            continue
        entry[("forward", "backward", "pass").index(call.kind)] += sums.self_ns
        entry[3] += sums.calls
        entry[4] += sums.calls * call.bytes
        entry[5] += sums.calls * (call.flops or 0)
    for waiting in memory.waiting if memory is not None else ():
        entry = _entry(files, waiting.place)
        if entry is not None:
            entry[6] += waiting.bytes
    spent = {file: sum(sum(line[:3]) for line in hot.values()) for file, hot in files.items()}
    order = sorted(files, key=lambda file: -spent[file])[:MOST_FILES]
    written = measured.header.get("base_unix_ns")
    return [_file(file, files[file], written, read) for file in order]


def _entry(files: dict[str, dict[int, list[int]]], place: str) -> list[int] | None:
    file, _, line = place.rpartition(":")
    if not file or place == NO_LINE:
        return None
    return files.setdefault(file, {}).setdefault(int(line), [0] * 7)


def _file(file: str, hot: dict[int, list[int]], written: Any, read: bool) -> dict[str, Any]:
    text, note = (None, "left out") if not read else _text(file, written)
    first, lines = 1, text or []
    if len(lines) > MOST_LINES:
        busiest = max(hot, key=lambda line: sum(hot[line][:3]))
        first = max(1, min(busiest - MOST_LINES // 2, len(lines) - MOST_LINES + 1))
        note = f"lines {first} to {first + MOST_LINES - 1} of {len(lines):,}"
        lines = lines[first - 1 : first - 1 + MOST_LINES]
    inside = {line: hot[line] for line in sorted(hot, key=lambda n: -sum(hot[n][:3]))[:MOST_LINES]}
    return {"file": inert(file, 240), "first": first, "lines": lines, "note": note, "hot": inside}


def _text(file: str, written: Any) -> tuple[list[str] | None, str]:
    """(lines, "" or what is to be said of them)."""
    if not file.endswith(".py"):
        return None, "not a Python file"
    try:
        # a pipe of that name would keep an open that waits waiting for ever
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as source:
            told = os.fstat(source.fileno())
            if not stat.S_ISREG(told.st_mode) or told.st_size > _MOST_BYTES:
                return None, "too large, or no file"
            text = source.read(_MOST_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return None, "not found here"
    note = ""
    if isinstance(written, int) and told.st_mtime_ns > written:
        note = "changed since the log was written: lines may not fit"
    lines = [line.expandtabs(4)[:_MOST_WIDTH] for line in text.splitlines()]
    return [with_glyphs(line) for line in lines], note
