"""The user's source in the report: each measured line with its time and bytes.

A log may come from elsewhere and name any file of this machine. So the report shows a text only if
its SHA-256 is in the log, or if the user names the file. A file that has changed since then appears
with a warning. The text of a notebook's cell is in the log itself.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from minigrad.instrument.reading import source_of
from minigrad.instrument.records import Source

from .report_log import NO_LINE, Measured, inert, with_glyphs
from .report_memory import Memory

MOST_FILES = 20
MOST_LINES = 4_000  # of one file
_MOST_WIDTH = 300


def sources(
    measured: Measured, memory: Memory | None, read: bool = True, trusted: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The files of the log, those with the most time first.

    trusted  files and folders whose text is shown even if it differs from the log's

    lines  the text, from line `first` on; none if it was not read (`note` says why)
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
    found = []
    for file in order:
        text, note = None, "left out"
        if read:
            text, note = _text(file, measured.sources.get(file), trusted)
        found.append(_file(file, files[file], text, note))
    return found


def _entry(files: dict[str, dict[int, list[int]]], place: str) -> list[int] | None:
    file, _, line = place.rpartition(":")
    if not file or place == NO_LINE:
        return None
    return files.setdefault(file, {}).setdefault(int(line), [0] * 7)


def _file(
    file: str, hot: dict[int, list[int]], text: list[str] | None, note: str
) -> dict[str, Any]:
    first, lines = 1, text or []
    if len(lines) > MOST_LINES:
        busiest = max(hot, key=lambda line: sum(hot[line][:3]))
        first = max(1, min(busiest - MOST_LINES // 2, len(lines) - MOST_LINES + 1))
        note = f"lines {first} to {first + MOST_LINES - 1} of {len(lines):,}"
        lines = lines[first - 1 : first - 1 + MOST_LINES]
    inside = {line: hot[line] for line in sorted(hot, key=lambda n: -sum(hot[n][:3]))[:MOST_LINES]}
    return {"file": inert(file, 240), "first": first, "lines": lines, "note": note, "hot": inside}


def code_at(place: str, known: Mapping[str, Source]) -> str:
    """The line of a notebook's cell, from the log; "" for a file, which anybody can open."""
    file, _, line = place.rpartition(":")
    text = known[file].text if file in known else None
    lines = text.splitlines()[int(line) - 1 : int(line)] if text else []
    return "".join(lines).strip()


def _text(file: str, known: Source | None, trusted: Sequence[str]) -> tuple[list[str] | None, str]:
    """(lines or None, a note about them)."""
    held = None if known is None else known.text
    content = source_of(file) if held is None else held.encode(errors="replace")
    if content is None:
        return None, "no Python file that can be read here"
    if known is not None and hashlib.sha256(content).hexdigest() == known.sha256:
        note = ""
    else:
        note = "changed since the log was written" if known else "the log holds no digest of it"
        if not any(_is_inside(file, path) for path in trusted):
            return None, f"{note}; report --source {inert(file, 240)} shows it"
        note += ": lines may not fit"
    try:
        text = content.decode("utf-8")
    except ValueError:
        return None, "no Python file that can be read here"
    return [with_glyphs(line.expandtabs(4)[:_MOST_WIDTH]) for line in text.splitlines()], note


def _is_inside(file: str, path: str) -> bool:
    """Whether the file is `path` or lies in that folder, with all links resolved."""
    file, path = os.path.realpath(file), os.path.realpath(path)
    return file == path or file.startswith(os.path.join(path, ""))
