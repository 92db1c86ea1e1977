"""A comparison as text, JSON, SVG or HTML."""

import json
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from minigrad.instrument.formats import write_whole
from minigrad.instrument.table import counted, shortened, text_table

from . import gantt
from .compare_words import disturbed


def text(found: Any, width: int = 80, colour: bool = False) -> str:
    """The tables and the Gantt chart for a terminal of this width."""
    lines: list[str] = []
    for title, columns, rows in tables(found):
        titles = ["<" + columns[0], *columns[1:]]
        lines += [*wrap(title, width), text_table(titles, rows, width, _named)]
    lines += gantt.terminal(_shown(found), width, colour)
    for note in notes(found):
        lines += wrap(note, width)
    return "\n".join(lines) + "\n"


def _named(name: str, width: int) -> str:
    """A name of at most `width` characters; it loses "parallel" before the number of workers."""
    return name if len(name) <= width else shortened(name.removeprefix("parallel, "), width)


def _shown(found: Any) -> list:
    """The serial run and the parallel one with the most workers."""
    return [found.runs[0], max(found.runs[1:] or found.runs, key=lambda run: run.workers)]


def tables(found: Any) -> list[tuple[str, list[str], list[list[str]]]]:
    """(title, columns, rows) of each table."""
    return [_times(found), _bounds(found), _losses(found), _nodes(found), _what_if(found)]


def _times(found: Any) -> tuple[str, list[str], list[list[str]]]:
    serial = found.way("serial").median
    lines = []
    for way in found.ways:
        low, high = way.quartiles
        bits = "same" if way.same_bits else f"≤ {way.largest_difference:.1e} off"
        ratio = f"{serial / way.median:.2f}×"
        lines.append([way.name, f"{way.median:.3f}", f"{low:.3f}–{high:.3f}", ratio, bits])
    count = len(found.ways[0].seen)
    title = (
        f"Times in ms, {counted(count, 'repeat')} in turns; BLAS at one thread unless it says so"
    )
    return title, ["engine", "median", "quartiles", "speed", "gradients"], lines


def _bounds(found: Any) -> tuple[str, list[str], list[list[str]]]:
    model, lines = found.model, []
    for run in found.runs[1:]:
        low, high = found.bounds(run)
        greedy = model.scheduled(run.workers)
        figures = (low, greedy, run.length, high)
        lines.append([str(run.workers), *[f"{ms:.3f}" for ms in figures],
                      f"{found.allowed(run.workers):.2f}×"])  # fmt: skip
    title = (
        f"Work T1 {model.work:.3f} ms, span T∞ {model.span:.3f} ms, parallelism "
        f"{model.parallelism:.2f}. Least is max(T1/p, T∞) of the nodes at their best, most is "
        "T1/p + T∞ of the recorded run"
    )
    return title, ["p", "least", "greedy", "recorded", "most", "allows"], lines


def _losses(found: Any) -> tuple[str, list[str], list[list[str]]]:
    totals = [run.workers * run.length for run in found.runs]
    lines = [
        [name, *[f"{max(0.0, run.losses[name]) / total:.0%}"
                 for run, total in zip(found.runs, totals, strict=True)]]
        for name in found.runs[0].losses
    ]  # fmt: skip
    runs = [found.runs[0].name, *[f"p = {run.workers}" for run in found.runs[1:]]]
    return "Where the workers' time went (shares of p × Tp)", ["part", *runs], lines


def _nodes(found: Any) -> tuple[str, list[str], list[list[str]]]:
    slack, model = found.model.slack(), found.model
    ranks = sorted(range(len(slack)), key=lambda i: -model.costs[i])[:8]
    lines = [
        [f"{model.ops[i] or 'leaf'} #{found.numbers[i]}", f"{model.costs[i]:.3f}",
         "critical" if slack[i] < 1e-9 else f"{slack[i]:.3f}"]
        for i in ranks
    ]  # fmt: skip
    return "The dearest nodes, and how much longer each could take (slack)", [
        "node", "ms", "slack",
    ], lines  # fmt: skip


def _what_if(found: Any) -> tuple[str, list[str], list[list[str]]]:
    workers = max(run.workers for run in found.runs)
    now = found.model.scheduled(workers)
    lines = []
    for row in found.what_if(workers):
        cells = [f"{row[k]['span']:.3f}" for k in ("half", "free")]
        gains = [f"−{max(0.0, now - row[k]['greedy']):.3f}" for k in ("half", "free")]
        lines.append([row["op"], f"{row['ms']:.3f}", *cells, *gains])
    columns = ["op", "ms", "T∞ half", "T∞ free", "Tp half", "Tp free"]
    title = (
        "If an op took half as long, or nothing: T∞ then, and the decrease of Tp "
        f"(greedy, p = {workers})"
    )
    return title, columns, lines


def notes(found: Any) -> list[str]:
    """Sentences below the tables."""
    lines = [found.verdict()]
    if told := disturbed(found):
        lines.append(told)
    if found.model.parallelism < 1.2:
        lines.append("The graph is nearly a chain: no number of workers makes it much faster.")
    lines += [f"{way.name}, chose {way.note}" for way in found.ways if way.note]
    lines += [f"Not compared: {reason}" for reason in found.missing]
    if found.blas_threads is None:
        lines.append(
            "threadpoolctl is not installed: BLAS runs with an unknown number of threads; "
            "pip install '/path/to/the/checkout[full]'."
        )
    return [*lines, found.limit()]


def save(found: Any, path: str) -> None:
    """Write the comparison; the suffix selects the format: .html, .svg or .json."""
    kind = Path(path).suffix
    if kind == ".json":
        content = json.dumps(found.to_dict(), ensure_ascii=False) + "\n"
    elif kind == ".svg":
        content = gantt.svg(found.runs)
    elif kind == ".html":
        content = html(found)
    else:
        raise ValueError(f"{path}: name the file .html, .svg or .json")
    write_whole(path, content)


def html(found: Any) -> str:
    """One page without dependencies: tables, chart, notes."""
    body = [f"<p>{escape(note)}</p>" for note in notes(found)]
    body.append(f"<div>{gantt.svg(found.runs)}</div>")
    for title, columns, lines in tables(found):
        head = "".join(f"<th>{escape(c)}</th>" for c in columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in lines
        )
        table = f"<table><tr>{head}</tr>{rows}</table>"
        body.append(f"<h2>{escape(title)}</h2><div>{table}</div>")
    style = (
        ":root{color-scheme:light dark}body{font:14px sans-serif;margin:2em auto;padding:0 1em;"
        "max-width:1060px}div{display:flex;overflow-x:auto}svg{flex:none}"
        "div::after{content:'';position:sticky;right:0;flex:0 0 28px;"  # cut content fades
        "background:linear-gradient(to right,transparent,Canvas)}"
        "td,th{padding:2px 12px;text-align:right;"
        "white-space:nowrap}td:first-child,th:first-child{text-align:left}h2{font-size:15px}"
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        "<title>minigrad compare</title>"
        f"<style>{style}</style><h1>One graph, every engine</h1>{''.join(body)}</html>\n"
    )
