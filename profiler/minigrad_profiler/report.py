"""The HTML report: one file that needs no network, made from an event log.

Everything is summed and thinned here: the page stays small for any log. The scripts in assets/ draw
it. They treat all texts from the log as data, never as markup.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

from minigrad.instrument.formats import is_count, write_whole
from minigrad.instrument.table import shares

from .finding import Finding
from .outside import Outside, main_thread, outside
from .report_advice import advice
from .report_compare import comparison
from .report_flame import flames
from .report_log import Measured, inert, measured
from .report_memory import Memory, Shaped, memory_of
from .report_source import sources
from .report_tables import COLUMNS, Line, lines_by, points, table
from .report_timeline import timeline
from .roofline import Peaks, measured_peaks

_SCRIPTS = (
    "words.js", "summary.js", "table.js", "lanes.js", "timeline.js", "flame.js", "memory.js",
    "roofline.js", "source.js", "compare.js", "app.js",
)  # fmt: skip
_TABLES = ("op", "shape", "line", "scope", "thread")
_MOST_MARKS = 200
_COLOURS = {
    "Python": "python", "DataLoader": "data", "imports": "hook", "optimizers": "optimizer",
    "recording": "recording", "garbage collection": "gc",
}  # fmt: skip
_LEAST_PART = 0.005  # of the run: a smaller part outside of ops is not named


@dataclass(slots=True)
class Report:
    """The contents of one log, and all that is computed from it.

    beside  the time outside of ops
    others  logs of other processes of the same run, for the timeline alone
    """

    measured: Measured
    memory: Memory | None
    peaks: Peaks
    tables: dict[str, list[Line]]
    findings: list[Finding]
    beside: Outside
    others: list[Measured] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The program that wrote the log, if the log names it."""
        program = self.measured.header.get("program")
        return program if isinstance(program, str) and program else "minigrad profile"

    def page(
        self,
        title: str,
        compare: str | None = None,
        source: bool = True,
        trusted: Sequence[str] = (),
    ) -> str:
        """The whole page; source, trusted: as in `sources`."""
        parts = {
            "TITLE": escape(inert(title, 100)),
            "STYLE": _asset("report.css"),
            "SCRIPT": "\n".join(map(_asset, _SCRIPTS)),
            "DATA": _in_script(self.data(title, compare, source, trusted)),
        }
        # Parts are inserted by position, not by search and replace: a name in the log may
        # contain a marker of the template.
        return "".join(parts.get(piece, piece) for piece in _asset("report.html").split("%%"))

    def data(
        self,
        title: str,
        compare: str | None = None,
        source: bool = True,
        trusted: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The data for the page's scripts."""
        lines = self.tables
        return {
            "title": inert(title, 100),
            "columns": COLUMNS,
            "summary": _summary(self.measured, self.memory, self.beside),
            "advice": [
                finding.data() | ({} if source else {"code": ""}) for finding in self.findings
            ],
            "tables": {by: table(lines[by]) for by in _TABLES},
            "timeline": timeline(self.measured, self.others),
            "flame": flames(self.measured),
            "memory": None if self.memory is None else self.memory.data(),
            "roofline": {
                "peaks": {
                    "float32": self.peaks.float32,
                    "float64": self.peaks.float64,
                    "bandwidth": self.peaks.bandwidth,
                    "cached": self.peaks.cached,
                },
                "points": {by: points(lines[by]) for by in ("op", "line")},
            },
            "source": sources(self.measured, self.memory, source, trusted),
            "compare": None if compare is None else comparison(compare),
        }


def report_of(log: str, peaks: Peaks | None = None, also: Sequence[str] = ()) -> Report:
    """Read a log; FormatError if it is damaged.

    peaks  of the machine; default: measured now
    also   logs of other processes of the same run
    """
    columns = Shaped(log)
    found = measured(log, columns.take)
    columns.ends(found.header, found.end, found.cut)
    peaks = peaks or measured_peaks()
    memory = memory_of(columns, found.marks) if found.header.get("memory") else None
    tables = {by: lines_by(found, by, peaks) for by in _TABLES}
    beside = outside(found)
    findings = advice(found, tables["line"], memory, beside)
    return Report(found, memory, peaks, tables, findings, beside, [measured(path) for path in also])


def write_report(
    log: str, out: str, compare: str | None = None, source: bool = True, title: str | None = None
) -> str | None:
    """Write the report of a log; return where the log was cut off, in one line, or None."""
    report = report_of(log)
    write_whole(out, report.page(title or report.title, compare, source))
    return report.measured.cut


def _summary(found: Measured, memory: Memory | None, beside: Outside) -> dict[str, Any]:
    """The numbers at the head of the page; parts: the shares of the main thread's time."""
    header, end = found.header, found.end
    start, stop = found.span
    texts = ("minigrad", "python", "numpy", "cupy", "device")
    known = {name: inert(str(header[name]), 60) for name in texts if header.get(name)}
    return {
        "about": known,
        "log": inert(found.path, 100),
        "began": header.get("base_unix_ns") if is_count(header.get("base_unix_ns")) else None,
        "options": {
            name: header[name]
            for name in ("min_ns", "max_events", "stack", "sync", "memory")
            if is_count(header.get(name)) or isinstance(header.get(name), bool)
        },
        "cut": None if found.cut is None else inert(found.cut, 300),
        "wall": stop - start,
        "recording": beside.recording if is_count(end.get("recording_ns")) else None,
        "run": beside.run,
        "events": found.events,
        "dropped": found.dropped,
        "threads": len(found.lanes),
        "peak": None if memory is None else memory.story.peak,
        "parts": _parts(found, beside),
        "marks": _marks(found),
    }


def _parts(found: Measured, beside: Outside) -> list[list[Any]]:
    """[name, nanoseconds, percent, kind] of the main thread's time."""
    spent = {"forward": 0, "backward": 0, "pass": 0}
    for number, entry in found.sums.get(main_thread(found), {}).items():
        spent[found.keys[number].kind] += entry.self_ns
    parts = [("forward ops", spent["forward"], "forward")]
    parts += [("backward ops", spent["backward"], "backward"), ("engine", spent["pass"], "engine")]
    rest = max(0, beside.run - beside.ops)
    told = [
        (name, ns, _COLOURS.get(name, "outside"))
        for name, ns in beside.rows
        if ns > _LEAST_PART * beside.run
    ]
    left = rest - sum(ns for _, ns, _ in told)
    parts += [*told, ("other time outside of ops", max(0, left), "outside")]
    percents = shares([ns for _, ns, _ in parts])
    return [
        [name, ns, percent, kind]
        for (name, ns, kind), percent in zip(parts, percents, strict=True)
        if ns or kind in ("forward", "backward", "engine")
    ]


def _marks(found: Measured) -> list[list[Any]]:
    """[what, name, count, nanoseconds], the longest first."""
    sums: dict[tuple[str, str], list[int]] = {}
    for mark in found.marks:
        key = mark.what, "each step" if mark.what == "step" else mark.name
        entry = sums.setdefault(key, [0, 0])
        entry[0] += 1
        entry[1] += mark.t1 - mark.t0
    order = sorted(sums.items(), key=lambda item: -item[1][1])[:_MOST_MARKS]
    return [[inert(what, 40), inert(name, 80), *entry] for (what, name), entry in order]


def _in_script(value: object) -> str:
    """JSON that is safe inside an HTML script element: no <, > or & in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    path = resources.files("minigrad_profiler").joinpath(f"assets/{name}")
    return path.read_text("utf-8").strip()
