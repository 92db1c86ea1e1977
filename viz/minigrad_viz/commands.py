"""What each command does, given its options; the return value is the exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys

from minigrad_viz.checks import check_counts, check_table
from minigrad_viz.collapse import group_nodes
from minigrad_viz.diff import Difference, difference, difference_json, difference_text, union
from minigrad_viz.diff import summary as difference_summary
from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.files import not_over, write_whole
from minigrad_viz.graph import Graph
from minigrad_viz.page import page_text
from minigrad_viz.picture import Overlay, picture_of
from minigrad_viz.reader import read
from minigrad_viz.render import USUAL_LIMIT, Drawing, Options, draw_picture, format_of, render
from minigrad_viz.stats import statistics, statistics_text
from minigrad_viz.structure import structural_hash
from minigrad_viz.wording import count_text, no_steps_text

NO_CHECKS = (
    "no node was checked against finite differences; record with mg.record_backward(check=True), "
    "or MINIGRAD_GRAPH_CHECK=1 MINIGRAD_GRAPH_OUT=graph.json"
)


def render_dump(options: argparse.Namespace) -> int:
    """Draws a dump in the format that the output's name means."""
    out = options.out or _beside(options.dump, f".{options.format or 'html'}")
    wanted = format_of(out, options.format)
    not_over(out, options.dump)
    graph = read(options.dump, options.max_bytes)
    if options.check and not check_counts(graph):
        raise ViewerError(f"{shown(options.dump, 120, 'tail')}: {NO_CHECKS}")
    drawing = render(
        graph,
        Options(
            format=wanted,
            title=options.title or _title(options.dump),
            engine=options.engine,
            depth=options.depth,
            collapse=tuple(options.collapse),
            max_nodes=options.max_nodes,
            layout_limit=options.layout_limit,
            time_limit=options.time_limit,
            heat=options.heat,
            critical=options.critical,
            focus=options.focus,
            radius=options.radius,
            fold_repeats=options.fold_repeats,
            backward=options.backward,
        ),
    )
    code = _deliver(drawing, wanted, out)
    if not options.out and not code:
        _say_wrote(out)
    return 1 if options.check and check_counts(graph).get("wrong") else code


def step(options: argparse.Namespace) -> int:
    """Writes the page that plays the recorded backward."""
    out = options.out or _beside(options.dump, "-step.html")
    not_over(out, options.dump)
    graph = read(options.dump, options.max_bytes)
    name = shown(options.dump, 120, "tail")
    if graph.backward is None or not graph.backward.steps:
        raise ViewerError(f"{name}: {no_steps_text(graph)}")
    page = page_text(graph, options.title or _title(options.dump), options.depth, mode="step")
    write_whole(out, page.encode("utf-8"))
    if not options.out:
        _say_wrote(out)
    return 0


def diff(options: argparse.Namespace) -> int:
    """Tells what is between two dumps, and draws it where asked; 1 if the structures differ."""
    wanted = format_of(options.out, None) if options.out else ""
    not_over(options.out, options.dump, options.other)
    a, b = read(options.dump, options.max_bytes), read(options.other, options.max_bytes)
    found = difference(a, b, options.slower)
    if wanted:
        title = f"{_title(options.dump)} → {_title(options.other)}"
        _deliver(_drawn_difference(found, wanted, title), wanted, options.out)
    if options.json:
        text = json.dumps(difference_json(found), indent=1) + "\n"
    else:
        text = difference_text(found)
    write_whole("-", text.encode("utf-8"))
    return 0 if found.same else 1


def _drawn_difference(found: Difference, wanted: str, title: str) -> Drawing:
    graph, marks = union(found)
    title = f"{title}: {'the same structure' if found.same else difference_summary(found)}"
    if wanted == "html":
        return Drawing(page_text(graph, title, None, marks=marks).encode("utf-8"), "html")
    groups = group_nodes(graph, max_nodes=USUAL_LIMIT[wanted])
    picture = picture_of(graph, groups, title, Overlay(marks=marks))
    return draw_picture(picture, Options(format=wanted))


def check(options: argparse.Namespace) -> int:
    """Says that a dump is whole, with its hash and its badges.

    1 if the hash is not the expected one, or if finite differences say that a rule is wrong.
    """
    graph = read(options.dump, options.max_bytes)
    found, name = structural_hash(graph), shown(options.dump, 120, "tail")
    if options.hash is not None and options.hash.lower() != found:
        print(
            f"minigrad-viz: {name}: the structure has changed: hash {found}, expected "
            f"{shown(options.hash, 40)}; `minigrad-viz diff` tells what",
            file=sys.stderr,
        )
        return 1
    counts = check_counts(graph)
    table = check_table(graph) if counts else f"{NO_CHECKS}\n"
    write_whole("-", f"{name}: whole, {_counts(graph)}, hash {found}\n{table}".encode())
    if options.badges and not counts:
        raise ViewerError(f"{name}: {NO_CHECKS}")
    return 1 if counts.get("wrong") else 0


def info(options: argparse.Namespace) -> int:
    """Prints statistics."""
    numbers = statistics(read(options.dump, options.max_bytes))
    text = json.dumps(numbers, indent=1) + "\n" if options.json else statistics_text(numbers)
    write_whole("-", text.encode("utf-8"))
    return 0


# -- shared ----------------------------------------------------------------------------------------


def _beside(dump: str, ending: str) -> str:
    """Where a drawing goes for which the user names no file: into the dump's folder."""
    if dump == "-":
        raise ViewerError("say where to write what is drawn of standard input: -o FILE")
    return f"{os.path.splitext(dump)[0]}{ending}"


def _say_wrote(path: str) -> None:
    print(f"minigrad-viz: wrote {shown(path, 120, 'tail')}", file=sys.stderr)


def _title(path: str) -> str:
    return shown(os.path.basename(path), 60, "tail")


def _counts(graph: Graph) -> str:
    counts = [count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")]
    steps = graph.backward.steps if graph.backward else []
    return ", ".join([*counts, *[f"backward of {count_text(len(steps), 'step')}"] * bool(steps)])


def _deliver(drawing: Drawing, wanted: str, out: str) -> int:
    """Writes a drawing and its remarks; 1 if it came out in another format."""
    if drawing.format != wanted:
        out = _other_name(out, drawing.format, drawing.notes)
    write_whole(out, drawing.data)
    for note in drawing.notes:
        print(f"minigrad-viz: {note}", file=sys.stderr)
    return 0 if drawing.format == wanted else 1


def _other_name(out: str, ending: str, notes: list[str]) -> str:
    """Where a result in another format goes: beside the wanted file, never over something."""
    other = f"{os.path.splitext(out)[0]}.{ending}"
    if out == "-" or os.path.exists(other):
        raise ViewerError("; ".join(notes))
    notes.append(f"wrote {shown(other, 120, 'tail')} instead")
    return other
