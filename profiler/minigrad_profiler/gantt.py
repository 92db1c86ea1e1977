"""Gantt charts of recorded backwards on one time axis: in the terminal, and as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Any

from minigrad.instrument.table import shortened

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bb8844", "#777777")
_OTHER = len(_COLOURS) - 1  # the last colour stands for all further ops


def palette(runs: Sequence[Any]) -> dict[str, int]:
    """op -> number of its colour: the dearest ops have their own, the rest share the last."""
    spent: dict[str, float] = {}
    for run in runs:
        for bar in run.bars:
            spent[bar.op] = spent.get(bar.op, 0.0) + bar.end - bar.start
    ops = sorted(spent, key=lambda op: -spent[op])
    return {op: min(i, _OTHER) for i, op in enumerate(ops)}


def letters(ops: Sequence[str]) -> dict[str, str]:
    """op -> one letter, different for each of the first ops: the chart needs no colour."""
    given: dict[str, str] = {}
    for op in ops:
        wanted = [c for c in op + "abcdefghijklmnopqrstuvwxyz" if c.isalpha()]
        free = [c for c in wanted if c not in given.values()]
        given[op] = free[0] if free else "*"
    return given


def rows(run: Any, cells: int, length: float) -> list[list[str]]:
    """For each worker, the op that took most of each cell of the axis, "" where none did."""
    lanes = max([bar.lane + 1 for bar in run.bars] + [run.workers])
    width = length / cells
    spent: list[list[dict[str, float]]] = [[{} for _ in range(cells)] for _ in range(lanes)]
    for bar in run.bars:
        for cell in range(max(0, int(bar.start / width)), min(cells, int(bar.end / width) + 1)):
            part = min(bar.end, (cell + 1) * width) - max(bar.start, cell * width)
            if part > 0:
                ops = spent[bar.lane][cell]
                ops[bar.op] = ops.get(bar.op, 0.0) + part
    return [[_busiest(ops, width) for ops in lane] for lane in spent]


def _busiest(ops: dict[str, float], width: float) -> str:
    return max(ops, key=lambda op: ops[op]) if sum(ops.values()) >= width / 2 else ""


def terminal(runs: Sequence[Any], width: int = 80, colour: bool = False) -> list[str]:
    """A line for each worker of each run, all on one axis; · is waiting."""
    label = 6
    cells = max(20, width - label - 2)
    length = max(run.length for run in runs)
    colours = palette(runs)
    marks = letters(list(colours))
    inks = {op: _ink(_COLOURS[number]) if colour else "" for op, number in colours.items()}
    dim = "\x1b[2m" if colour else ""
    lines = []
    for run in runs:
        lines.append(_painted(f"{run.name}: {run.length:.2f} ms", "\x1b[1m" if colour else ""))
        for lane, row in enumerate(rows(run, cells, length)):
            end = int(run.length / length * cells)
            line = f"{'w' + str(lane):<{label - 1}} "
            for cell, op in enumerate(row):
                empty = _painted("·", dim) if cell < end else " "
                line += _painted(marks[op], inks[op]) if op else empty
            lines.append(line.rstrip())
    lines.append(_painted(f"{'':{label}}0{f'{length:.2f} ms':>{cells - 1}}", dim))
    return lines + _legend(colours, marks, inks, width)


def _legend(
    colours: dict[str, int], marks: dict[str, str], inks: dict[str, str], width: int
) -> list[str]:
    """The meaning of the letters, in lines of this width."""
    shown = list(colours)[:_OTHER]
    words = [(marks[op], f" {shortened(op, width - 2)}", inks[op]) for op in shown]
    if len(colours) > _OTHER:
        words.append(("", f"and {len(colours) - _OTHER} more", ""))
    words.append(("·", " no node", ""))
    lines, used = [""], 0
    for mark, word, ink in words:
        size = len(mark) + len(word)
        if used and used + 2 + size > width:
            lines, used = [*lines, ""], 0
        lines[-1] += "  " * bool(used) + _painted(mark, ink) + word
        used += 2 * bool(used) + size
    return lines


def _ink(background: str) -> str:
    """The escape sequence for white letters on a colour."""
    red, green, blue = bytes.fromhex(background[1:])
    return f"\x1b[97;48;2;{red};{green};{blue}m"


def _painted(text: str, ink: str) -> str:
    return f"{ink}{text}\x1b[0m" if ink and text else text


_STYLE = (
    ".gantt{background:#fff}.gantt text{fill:#111}.gantt .lane{fill:#eee}"
    ".gantt .critical{stroke:#000;stroke-width:1.2}"
    "@media(prefers-color-scheme:dark){.gantt{background:#14161a}.gantt text{fill:#ddd}"
    ".gantt .lane{fill:#2a2e35}.gantt .critical{stroke:#fff}}"
)


def svg(runs: Sequence[Any], width: int = 1000) -> str:
    """The chart as an SVG text; the tooltip of a bar shows its op, node, time and worker."""
    length = max(run.length for run in runs)
    left, lane_height, scale = 40, 22, (width - 60) / length
    colours = palette(runs)
    parts: list[str] = []
    y = 10
    for run in runs:
        y += 18
        parts.append(_text(left, y, f"{run.name}: {run.length:.2f} ms", "font-weight='bold'"))
        y += 6
        lanes = max([bar.lane + 1 for bar in run.bars] + [run.workers])
        for lane in range(lanes):
            top = y + lane * lane_height
            parts.append(_text(8, top + 14, f"w{lane}"))
            parts.append(
                f"<rect x='{left}' y='{top}' width='{run.length * scale:.2f}' "
                f"height='{lane_height - 4}' class='lane'/>"
            )
        parts += [_bar(bar, left, y, lane_height, scale, colours) for bar in run.bars]
        y += lanes * lane_height + 6
    y += 14
    parts += [_text(left, y, "0"), _text(width - 90, y, f"{length:.2f} ms")]
    for i, (op, colour) in enumerate(list(colours.items())[:_OTHER]):
        x, row = left + i % 5 * 180, y + 12 + i // 5 * 18
        parts.append(f"<rect x='{x}' y='{row}' width='12' height='12' fill='{_COLOURS[colour]}'/>")
        parts.append(_text(x + 18, row + 11, shortened(op, 22)))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {y + 60}' width='{width}' "
        f"class='gantt' font-family='sans-serif' font-size='12'><style>{_STYLE}</style>"
        f"<title>Backward, worker by worker; critical nodes are framed</title>"
        f"{''.join(parts)}</svg>\n"
    )


def _bar(bar: Any, left: int, y: int, height: int, scale: float, colours: dict[str, int]) -> str:
    frame = " class='critical'" if bar.critical else ""
    tip = f"{bar.op} #{bar.node}: {bar.start:.3f} to {bar.end:.3f} ms, worker {bar.lane}"
    return (
        f"<rect x='{left + bar.start * scale:.2f}' y='{y + bar.lane * height}' "
        f"width='{max(0.4, (bar.end - bar.start) * scale):.2f}' height='{height - 4}' "
        f"fill='{_COLOURS[colours[bar.op]]}'{frame}><title>{escape(tip)}</title></rect>"
    )


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x}' y='{y}' {more}>{escape(text)}</text>"
