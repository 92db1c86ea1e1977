"""From a graph to the bytes of a drawing, in any format, with remarks where it differs from what
was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from minigrad_viz import raster
from minigrad_viz.backward_dag import backward_dag, both
from minigrad_viz.collapse import group_nodes, scope_prefixes
from minigrad_viz.critical import Critical, critical_path
from minigrad_viz.dot import READABLE, dot_text, resolution
from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.focus import focused
from minigrad_viz.graph import Graph
from minigrad_viz.heat import heat_of, heat_values
from minigrad_viz.layout import Layout
from minigrad_viz.mermaid import EDGE_LIMIT, TEXT_LIMIT, fits_mermaid, mermaid_text
from minigrad_viz.page import page_text
from minigrad_viz.picture import Overlay, Picture, box_size, picture_of
from minigrad_viz.repeats import find_repeats
from minigrad_viz.svg import svg_text
from minigrad_viz.wording import count_text, no_steps_text

FORMATS = ("svg", "png", "pdf", "dot", "html", "json", "mmd")
# Boxes drawn unless --max-nodes says otherwise (0: all). More is not readable in a still picture.
USUAL_LIMIT = {"svg": 2_000, "png": 2_000, "pdf": 2_000, "mmd": 300, "html": 0, "dot": 0, "json": 0}


@dataclass(slots=True)
class Options:
    """The user's options."""

    format: str = "svg"
    title: str = ""
    engine: str = "auto"
    depth: int | None = None
    collapse: tuple[str, ...] = ()
    max_nodes: int | None = None
    layout_limit: int = 1_500
    time_limit: float = 10.0
    heat: str = ""
    critical: bool = False
    focus: str = ""
    radius: int = 3
    fold_repeats: bool = False
    backward: bool = False


@dataclass(slots=True)
class Drawing:
    """The bytes of a result, the format they are in, and remarks for the user."""

    data: bytes
    format: str
    notes: list[str] = field(default_factory=list)


def render(graph: Graph, options: Options) -> Drawing:
    """Draws `graph` as `options.format`."""
    if options.backward:
        graph = _with_backward(graph, options)
    whole = len(graph.nodes)
    if options.focus:
        graph = focused(graph, options.focus, options.radius)
    drawing = _page(graph, options) if options.format == "html" else _still(graph, options)
    known = {prefix for node in graph.nodes for prefix in scope_prefixes(node.scope)}
    for scope in options.collapse:
        if scope not in known:
            drawing.notes.append(f"there is no scope {shown(scope, 60)} to fold")
    if options.focus:
        drawing.notes.append(f"{len(graph.nodes):,} of {count_text(whole, 'node')}, around one")
    return drawing


def _with_backward(graph: Graph, options: Options) -> Graph:
    """A page shows the forward, too, which its steps belong to."""
    if options.format == "html":
        return both(graph)
    if options.critical:
        raise ViewerError("--critical marks the forward's graph: leave --backward out")
    return backward_dag(graph)


def _page(graph: Graph, options: Options) -> Drawing:
    repeats = find_repeats(graph) if options.fold_repeats else None  # then found too, left open
    if options.heat:
        heat_values(graph, options.heat)  # or a ViewerError, as for a still picture
    path = options.critical and _critical(graph) is not None
    page = page_text(
        graph, options.title, options.depth, options.collapse, repeats, heat=options.heat, path=path
    )
    drawing = Drawing(page.encode("utf-8"), "html")
    if options.max_nodes:
        drawing.notes.append("the page holds every node; --max-nodes is for still pictures")
    return drawing


def _still(graph: Graph, options: Options) -> Drawing:
    limit = USUAL_LIMIT[options.format] if options.max_nodes is None else options.max_nodes
    drawing = _still_of(graph, options, limit)
    if options.format == "mmd" and options.max_nodes is None:
        while not fits_mermaid(drawing.data) and limit > 1:
            limit //= 2
            drawing = _still_of(graph, options, limit)
    return drawing


def _still_of(graph: Graph, options: Options, limit: int) -> Drawing:
    """A still picture of at most `limit` boxes (0: of all)."""
    repeats = find_repeats(graph) if options.fold_repeats or limit else []
    groups = group_nodes(
        graph, options.depth, options.collapse, limit, repeats, options.fold_repeats
    )
    overlay = Overlay(
        heat=heat_of(graph, groups, options.heat) if options.heat else None,
        critical=_critical(graph) if options.critical else None,
    )
    picture = picture_of(graph, groups, options.title, overlay)
    drawing = draw_picture(picture, options)
    hidden = sum(len(group.members) for group in groups if group.kind == "hidden")
    if hidden or (limit and len(groups) < len(graph.nodes) > limit):
        drawing.notes.insert(0, _limit_note(graph, len(groups), hidden))
    return drawing


def draw_picture(picture: Picture, options: Options) -> Drawing:
    """The picture as `options.format`, any but html."""
    return _DRAWERS[options.format](picture, options)


def _critical(graph: Graph) -> Critical:
    found = critical_path(graph)
    if found is None:
        raise ViewerError(f"--critical: {no_steps_text(graph)}")
    return found


def _limit_note(graph: Graph, boxes: int, hidden: int) -> str:
    left_out = f", {hidden:,} of them in one hidden box" if hidden else ""
    total = f"{len(graph.nodes):,} nodes drawn as {boxes:,} boxes"
    return f"{total}{left_out}; --max-nodes 0 draws each"


def _svg(picture: Picture, options: Options) -> Drawing:
    if options.engine in raster.ENGINES:
        return _external(picture, options, "svg")
    return Drawing(svg_text(picture, picture.layout()).encode("utf-8"), "svg")


def _raster(picture: Picture, options: Options) -> Drawing:
    """PNG or PDF; with no Graphviz at all the result is an SVG, and a note says so."""
    try:
        return _external(picture, options, options.format)
    except raster.Missing as missing:
        drawing = Drawing(svg_text(picture, picture.layout()).encode("utf-8"), "svg")
        drawing.notes.append(f"{options.format.upper()} needs Graphviz: {missing}")
        return drawing


def _external(picture: Picture, options: Options, wanted: str) -> Drawing:
    """Drawn by Graphviz: laid out by it if asked to and small enough, else in our own layout."""
    engine = raster.find_engine(options.engine)
    notes: list[str] = []
    if options.engine in raster.ENGINES:
        try:
            return Drawing(_laid_out(picture, options, wanted, engine), wanted)
        except raster.TooSlow as slow:
            notes.append(f"{slow}; drawn in the built-in layout (--time-limit, --layout-limit)")
    if wanted == "svg":
        return Drawing(svg_text(picture, picture.layout()).encode("utf-8"), "svg", notes)
    layout = picture.layout()
    placed = dot_text(picture, layout)
    if wanted == "png" and resolution(layout) < READABLE:
        notes.append("too large for a PNG with readable words; SVG and PDF stay sharp")
    seconds = max(options.time_limit, 60.0)  # drawing grows with the graph, but never explodes
    return Drawing(raster.draw(placed, wanted, engine, True, seconds), wanted, notes)


def _laid_out(picture: Picture, options: Options, wanted: str, engine: str) -> bytes:
    if len(picture.boxes) > options.layout_limit:
        boxes = f"{len(picture.boxes):,} boxes"
        raise raster.TooSlow(f"{boxes} are more than Graphviz is given ({options.layout_limit:,})")
    return raster.draw(dot_text(picture), wanted, engine, False, options.time_limit)


def _dot(picture: Picture, options: Options) -> Drawing:
    return Drawing(dot_text(picture).encode("utf-8"), "dot")


def _mermaid(picture: Picture, options: Options) -> Drawing:
    drawing = Drawing(mermaid_text(picture).encode("utf-8"), "mmd")
    if len(picture.links) > EDGE_LIMIT:
        drawing.notes.append(f"Mermaid draws {EDGE_LIMIT} edges unless the page raises maxEdges")
    if len(drawing.data) > TEXT_LIMIT:
        limit = f"{TEXT_LIMIT:,}"
        drawing.notes.append(f"Mermaid reads {limit} characters unless maxTextSize is raised")
    return drawing


def _json(picture: Picture, options: Options) -> Drawing:
    """The picture with its places, for another program to draw."""
    layout = picture.layout()
    document = {
        "format": "minigrad.picture",
        "version": [1, 0],
        "title": picture.title,
        "summary": picture.summary,
        "width": round(layout.width, 2),
        "height": round(layout.height, 2),
    }
    head = json.dumps(document, indent=1)[:-2]  # a line each; without the closing brace
    parts = [
        _records("boxes", _json_boxes(picture, layout)),
        _records("links", _json_links(picture, layout)),
    ]
    return Drawing("".join([head, *parts, "\n}\n"]).encode("utf-8"), "json")


def _records(name: str, records: Iterator[dict]) -> str:
    """A list of records, one a line, each turned into text at once: objects take far more room."""
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    return f',\n "{name}": [' + ",".join(f"\n  {line}" for line in lines) + "\n ]"


def _json_boxes(picture: Picture, layout: Layout) -> Iterator[dict]:
    for box, x, y in zip(picture.boxes, layout.x, layout.y, strict=True):
        width, height = box_size(box)
        place = {"x": round(x, 2), "y": round(y, 2), "width": width, "height": height}
        words = {"title": box.title, "lines": box.lines, "root": box.root, "members": box.members}
        if box.heat is not None:
            words["heat"] = round(box.heat, 4)
        if box.badge is not None:
            words["check"] = {"verdict": box.badge.verdict, "text": box.badge.text}
        words |= {key: True for key in ("bad", "critical") if getattr(box, key)}
        yield {"key": box.key, "kind": box.kind, **words, **place}


def _json_links(picture: Picture, layout: Layout) -> Iterator[dict]:
    for link, route in zip(picture.links, layout.routes, strict=True):
        source, target = picture.boxes[link.source].key, picture.boxes[link.target].key
        points = [[round(x, 2), round(y, 2)] for x, y in route]
        words = {"label": link.label, "bytes": link.bytes, "critical": link.critical}
        yield {"source": source, "target": target, **words, "points": points}


_DRAWERS: dict[str, Callable[[Picture, Options], Drawing]] = {
    "svg": _svg,
    "png": _raster,
    "pdf": _raster,
    "dot": _dot,
    "mmd": _mermaid,
    "json": _json,
}


def format_of(path: str, wanted: str | None) -> str:
    """The format asked for by name, else by the ending of the output path."""
    if wanted:
        return wanted
    ending = path.rpartition(".")[2].lower() if "." in path else ""
    ending = {"mermaid": "mmd", "htm": "html", "gv": "dot"}.get(ending, ending)
    if ending not in FORMATS:
        names = ", ".join(f".{name}" for name in FORMATS)
        raise ViewerError(f"the output's ending should be one of {names}; or name a --format")
    return ending
