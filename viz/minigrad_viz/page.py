"""The interactive page: one HTML file that needs no network. The drawing is done by the scripts in
assets/; here the graph becomes data for them and everything is put into one file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from math import prod
from typing import Any

from minigrad_viz.checks import check_words, error_text
from minigrad_viz.critical import critical_path
from minigrad_viz.escape import finite, json_in_script, shown, xml
from minigrad_viz.graph import Array, Check, Edge, Gradient, Graph, Histogram, Node, Step
from minigrad_viz.picture import summary_text
from minigrad_viz.repeats import Repeat, find_repeats
from minigrad_viz.wording import array_text, byte_text, site_text

_SCRIPTS = (
    "layout.js",
    "words.js",
    "model.js",
    "tree.js",
    "nest.js",
    "columns.js",
    "paint.js",
    "bitmap.js",
    "panel.js",
    "scopes.js",
    "scale.js",
    "recording.js",
    "paths.js",
    "flow.js",
    "dock.js",
    "compare.js",
    "now.js",
    "export.js",
    "player.js",
    "first.js",
    "outline.js",
    "app.js",
    "hover.js",
    "hands.js",
)


def page_text(
    graph: Graph,
    title: str,
    depth: int | None,
    collapse: Iterable[str] = (),
    repeats: Sequence[Repeat] | None = None,
    marks: dict[int, tuple[str, str]] | None = None,
    **start: Any,
) -> str:
    """The whole page; scopes at `depth`, those in `collapse`, and `repeats` start folded.

    `marks` are shown on nodes as a diff finds them. `start` says how the page opens: mode="step"
    (the step-through), heat="time", path=True (the critical path).
    """
    data = page_data(graph, title)
    found = find_repeats(graph) if repeats is None else repeats
    data["repeats"] = [[r.title, r.copies - 1, r.folded, r.length] for r in found]
    data["folded"] = bool(repeats)
    for at, (mark, note) in (marks or {}).items():
        data["nodes"][at] |= {"mark": mark, "note": shown(note, 60)}
    data["depth"] = depth
    data["closed"] = sorted(collapse)
    data["start"] = start
    parts = {
        "TITLE": xml(shown(title, 80)),
        "STYLE": _asset("page.css"),
        "SCRIPT": "\n".join(_asset(name) for name in _SCRIPTS),
        "DATA": json_in_script(data),
    }
    # Each part is put in by place, not by search and replace: a name in the graph may well contain
    # a marker of the template.
    pieces = []
    for piece in _asset("page.html").split("%%"):
        pieces.append(parts.get(piece, piece))
    return "".join(pieces)


def page_data(graph: Graph, title: str) -> dict[str, Any]:
    """The scripts' data about the graph: plain JSON, texts already fit to be shown."""
    roots = set(graph.roots)
    return {
        "title": shown(title, 80),
        "summary": summary_text(graph),
        "nodes": [_node(node, at in roots) for at, node in enumerate(graph.nodes)],
        "edges": [_edge(edge) for edge in graph.edges],
        "steps": _steps(graph),
        "critical": _critical(graph),
        "released": graph.backward is None or graph.backward.released,
    }


def _edge(edge: Edge) -> list[Any]:
    ends = [edge.producer, edge.output, edge.consumer, edge.slot]
    return [*ends, edge.mark] if edge.mark else ends


def _node(node: Node, root: bool) -> dict[str, Any]:
    made = f"{shown(node.site.file, 160, 'tail')}:{node.site.line}" if node.site else ""
    facts = {
        "id": node.id,
        "seq": node.seq,
        "kind": node.kind,
        "op": shown(node.op, 60),
        "name": shown(node.name, 120, "tail"),
        "scope": "/".join(shown(part, 60) for part in node.scope.split("/")[:40]),
        "at": site_text(node),
        "site": made,
        "function": shown(node.site.function, 60) if node.site else "",
        "text": shown(node.site.text, 160) if node.site else "",
        "device": shown(node.device, 20),
        "formula": shown(node.formula, 400),
        "outputs": [array_text(array) for array in node.outputs],
        "bytes": [array.bytes for array in node.outputs],
        "shapes": _small_shapes(node),
        "saved": [_array(array) for array in node.saved[:64]],
        "holds": [[array.bytes, array.buffer] for array in node.saved],
        "buffer": -1 if node.buffer is None else node.buffer,
        "values": list(node.values or ()),
        "grad": _gradient(node.grad),
        "before": _gradient(node.before),
        "flops": finite(_sum(node.flops, node.backward_flops)),
        "check": _check(node.check),
        "params": [[shown(k, 40), shown(v, 120)] for k, v in list(node.params.items())[:64]],
        "beyond": list(node.beyond) if any(node.beyond) else [],
        "root": root,
        "still": not node.tracked,
        "source": shown(node.source, 60),
        "spread": _histogram(node.histogram),
        "gradSpread": node.grad and _histogram(node.grad.histogram),
        "bad": node.nonfinite and shown(node.nonfinite, 8),
        "rule": shown(node.rule, 80),
        "twin": node.twin,
    }
    unsaid = (value is None or value is False or value in ("", []) for value in facts.values())
    return {key: facts[key] for key, empty in zip(facts, unsaid, strict=True) if not empty}


def _small_shapes(node: Node) -> list[list[int]]:
    """The shapes of results whose numbers a dump may hold."""
    shapes = [list(array.shape) for array in node.outputs]
    return shapes if any(prod(shape) <= 16 for shape in shapes) else []


def _sum(a: float | None, b: float | None) -> float | None:
    return a if b is None else b + (a or 0)


def _check(check: Check | None) -> list[Any] | None:
    """[verdict, its words, error in words]."""
    if check is None:
        return None
    error = "" if check.error is None else error_text(check.error)
    return [check.verdict, check_words(check), error]


def _gradient(gradient: Gradient | None) -> list[Any] | None:
    """[norm, "nan" or "inf", numbers], None for what is not known."""
    if gradient is None:
        return None
    bad = None if gradient.nonfinite is None else shown(gradient.nonfinite, 8)
    return [finite(gradient.norm), bad, gradient.values and list(gradient.values)]


def _histogram(found: Histogram | None) -> list[Any] | None:
    """[least, most, counts]."""
    if found is None:
        return None
    return [finite(found.least), finite(found.most), list(found.counts)]


def _array(array: Array) -> str:
    return f"{shown(array.name, 40)}  {array_text(array)} · {byte_text(array.bytes)}".strip()


def _critical(graph: Graph) -> dict[str, Any] | None:
    found = critical_path(graph)
    if found is None:
        return None
    slack = list(found.slack.items())
    return {"work": found.work, "span": found.span, "path": found.path, "slack": slack}


def _steps(graph: Graph) -> list[list[Any]]:
    """A row for each step; recording.js has the meaning of its entries. Times count from 0."""
    if graph.backward is None:
        return []
    start = min((step.t0 for step in graph.backward.steps), default=0)
    return [_step(step, start) for step in graph.backward.steps]


def _step(step: Step, start: int) -> list[Any]:
    sent = step.sent and [
        [c.producer, c.output, c.slot, c.bytes, *(_gradient(c.gradient) or ())] for c in step.sent
    ]
    return [
        step.node,
        step.order,
        step.worker,
        step.t0 - start,
        step.t1 - start,
        step.contributions,
        finite(step.grad_norm),
        None if step.nonfinite is None else shown(step.nonfinite, 8),
        step.values and list(step.values),
        step.looking,
        finite(step.flops),
        sent,
    ]


def _asset(name: str) -> str:
    return resources.files("minigrad_viz").joinpath(f"assets/{name}").read_text("utf-8").strip()
