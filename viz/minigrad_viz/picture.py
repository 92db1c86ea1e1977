"""A picture before it has places: boxes with words, links with labels. Every writer draws this."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from minigrad_viz.checks import Badge, badge_of, check_words
from minigrad_viz.collapse import Group, census
from minigrad_viz.critical import Critical
from minigrad_viz.escape import shown
from minigrad_viz.graph import Array, Gradient, Graph, Node
from minigrad_viz.heat import Heat, troubled
from minigrad_viz.layout import Layout, place
from minigrad_viz.textwidth import text_width
from minigrad_viz.wording import (
    array_text,
    byte_text,
    census_text,
    count_text,
    site_text,
    untracked_text,
    values_text,
)

TITLE_SIZE, LINE_SIZE, LABEL_SIZE = 12.5, 9.5, 9.0
_PADDING, _LEAST_WIDTH = 12.0, 64.0
_MOST_NUMBERS = 4  # of a small result that stand in its box
RIM = 3.5  # from a box to its second rim


STACKED = ("scope", "repeat")  # kinds drawn as several sheets


@dataclass(slots=True)
class Box:
    """One box; `title` and `lines` are shown.

    `kind` is op, leaf, parameter, scope, repeat or hidden.
    """

    key: str
    kind: str
    title: str
    lines: list[str]
    root: bool
    members: int
    tip: str
    labels: dict[int, str] = field(default_factory=dict)  # port -> what leaves the box there
    heat: float | None = None  # 0 to 1
    bad: bool = False  # a cotangent held NaN or Inf
    critical: bool = False
    badge: Badge | None = None  # what finite differences say
    mark: str = ""  # in a diff: appeared, gone, changed, slower

    @property
    def wrong(self) -> bool:
        """Whether something is wrong here: NaN, or a rule against finite differences."""
        return self.bad or (self.badge is not None and self.badge.verdict == "wrong")


@dataclass(slots=True)
class Link:
    """The flow from box `source` to box `target`. Links of one source and port carry the same."""

    source: int
    target: int
    port: int
    label: str
    bytes: int
    tensors: int
    critical: bool = False
    mark: str = ""  # in a diff: appeared, gone


@dataclass(slots=True)
class Overlay:
    """The overlays of a picture: heat by group, a critical path, marks and notes by node."""

    heat: Heat | None = None
    critical: Critical | None = None
    marks: dict[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class Picture:
    """Boxes and links, with a line that says what the whole is."""

    title: str
    summary: str
    boxes: list[Box]
    links: list[Link]
    scale: str = ""  # the meaning of the colours, where there are any

    def layout(self) -> Layout:
        """Places for the boxes and routes for the links."""
        sizes = [_outer_size(box) for box in self.boxes]
        links = [(link.source, link.target, link.port) for link in self.links]
        places = [label_places(box) for box in self.boxes]
        exits = [places[link.source][link.port] for link in self.links]
        return place([w for w, _ in sizes], [h for _, h in sizes], links, exits)


def box_size(box: Box) -> tuple[float, float]:
    """Width and height that hold the box's words, and its labels side by side."""
    words = text_width(box.title, TITLE_SIZE, bold=True)
    for line in box.lines:
        words = max(words, text_width(line, LINE_SIZE))
    labels = sum(text_width(label, LABEL_SIZE) + 10 for label in box.labels.values())
    width = max(words + 2 * _PADDING, labels, _LEAST_WIDTH)
    return round(width, 1), 28.0 + 13.0 * len(box.lines)


def _outer_size(box: Box) -> tuple[float, float]:
    """The box with its second rim: arrows end outside of it."""
    width, height = box_size(box)
    rim = 2 * RIM if box.root or box.kind in STACKED else 0.0
    return width + rim, height + rim


def label_places(box: Box) -> dict[int, float]:
    """Where the middle of each port's label stands, right of the middle of the box."""
    widths = {port: text_width(label, LABEL_SIZE) + 10 for port, label in box.labels.items()}
    at, places = -sum(widths.values()) / 2, {}
    for port, width in widths.items():
        places[port] = at + width / 2
        at += width
    return places


def picture_of(
    graph: Graph, groups: list[Group], title: str, overlay: Overlay | None = None
) -> Picture:
    """The picture of `graph` with one box for each group."""
    roots, gradients = set(graph.roots), _gradients(graph)
    boxes = [_box(graph, group, roots, gradients) for group in groups]
    scale = _lay_over(graph, groups, boxes, overlay or Overlay())
    links = _links(graph, groups, boxes)
    if overlay is not None and overlay.critical is not None:
        _mark_path(groups, boxes, links, overlay.critical)
    for group, box in zip(groups, boxes, strict=True):
        if box.root and not box.labels and group.kind == "node":
            box.labels[0] = array_text(graph.nodes[group.members[0]].outputs[0])
    return Picture(shown(title, 80), summary_text(graph), boxes, links, scale)


def summary_text(graph: Graph) -> str:
    """'25 nodes · 28 edges · 6 parameters, 12,345 values, 49.4 kB'."""
    parts = [count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")]
    parameters = [node for node in graph.nodes if node.kind == "parameter"]
    if parameters:
        size = sum(node.outputs[0].bytes for node in parameters)
        parts.append(f"{count_text(len(parameters), 'parameter')} ({byte_text(size)})")
    if graph.backward is not None:
        parts.append(f"backward: {count_text(len(graph.backward.steps), 'step')}")
    return " · ".join(parts)


# -- boxes -----------------------------------------------------------------------------------------


def _box(graph: Graph, group: Group, roots: set[int], gradients: dict[int, Gradient]) -> Box:
    root = not roots.isdisjoint(group.members)
    if group.kind == "node":
        at = group.members[0]
        return _node_box(graph.nodes[at], root, gradients.get(at))
    members = [graph.nodes[at] for at in group.members]
    counts = census_text(census(members))
    title = shown(group.name, 32, "tail")
    lines = [counts]
    if group.kind == "hidden":
        title = f"{len(members):,} hidden"
    elif group.kind == "repeat":
        title, lines = f"×{group.copies:,} more", [title, counts]
    key = f"g{group.members[0]}"
    return Box(key, group.kind, title, lines, root, len(members), f"{title}\n{counts}")


def _gradients(graph: Graph) -> dict[int, Gradient]:
    """The gradient that stood at each node in the end, as far as it was recorded."""
    steps = graph.backward.steps if graph.backward else []
    found = {s.node: Gradient(s.grad_norm, s.nonfinite, s.values) for s in steps}
    return found | {at: node.grad for at, node in enumerate(graph.nodes) if node.grad}


def _node_box(node: Node, root: bool, gradient: Gradient | None) -> Box:
    if node.kind == "op":
        title = shown(f"{node.name} = {node.op}" if node.name else node.op, 28) or "op"
        lines = [text for text in (shown(node.scope, 26, "tail"), site_text(node)) if text]
    else:
        title = shown(node.name, 30, "tail") or ("input" if node.kind == "leaf" else "parameter")
        lines = [] if node.tracked else [untracked_text(node)]
    if node.rule:
        lines.append(shown(node.rule, 44))
    if node.values is not None and len(node.values) <= _MOST_NUMBERS:
        lines.append(f"{'value' if node.twin is None else 'gives'} {values_text(node.values)}")
        if node.twin is None and gradient is not None and gradient.values is not None:
            lines.append(f"grad {values_text(gradient.values)}")
    if any(node.beyond):
        inputs, users = node.beyond
        words = [count_text(inputs, "input")] * bool(inputs) + [count_text(users, "user")] * bool(
            users
        )
        lines.append(f"… {', '.join(words)} not shown")
    return Box(f"n{node.id}", node.kind, title, lines, root, 1, _tip(node))


# -- overlays --------------------------------------------------------------------------------------


def _lay_over(graph: Graph, groups: list[Group], boxes: list[Box], overlay: Overlay) -> str:
    """Heat, marks and signs of trouble on the boxes; the meaning of the colours."""
    bad, heat = troubled(graph), overlay.heat
    for at, (group, box) in enumerate(zip(groups, boxes, strict=True)):
        box.bad = not bad.isdisjoint(group.members)
        box.badge = badge_of(graph.nodes[member] for member in group.members)
        if box.bad:
            box.title = f"⚠ {box.title}"
        if heat is not None:
            box.heat = heat.share[at]
            box.lines += [heat.words[at]] * bool(heat.words[at])
        if overlay.marks and group.kind == "node":
            box.mark, note = overlay.marks.get(group.members[0], ("", ""))
            box.lines += [note] * bool(note)
    if heat is None:
        return ""
    return (
        "colour: slack, down to none"
        if heat.by == "slack"
        else f"colour: {heat.by}, up to {heat.most} (log)"
    )


def _mark_path(groups: list[Group], boxes: list[Box], links: list[Link], path: Critical) -> None:
    box_of = {at: box for box, group in enumerate(groups) for at in group.members}
    steps = [box_of[at] for at in path.path]
    for box in steps:
        boxes[box].critical = True
    pairs = set(pairwise(steps))  # backward runs from consumer to producer
    for link in links:
        link.critical = (link.target, link.source) in pairs


def _tip(node: Node) -> str:
    outputs = [f"{array_text(out)} · {byte_text(out.bytes)}" for out in node.outputs[:8]]
    saved = [f"saves {shown(a.name, 24)} {array_text(a)}" for a in node.saved[:8]]
    place_made = shown(f"{node.site.file}:{node.site.line}", 120, "tail") if node.site else ""
    words = [f"{shown(node.op or node.kind, 60)} #{node.id}", shown(node.name, 80)]
    check = f"finite differences: {check_words(node.check)}" if node.check else ""
    lines = [*words, *outputs, shown(node.formula, 120), *saved, check, shown(node.scope, 80)]
    lines.append(place_made)
    return "\n".join(line for line in lines if line)


# -- links -----------------------------------------------------------------------------------------


def _links(graph: Graph, groups: list[Group], boxes: list[Box]) -> list[Link]:
    """One link for each pair of boxes and set of tensors between them, in the order of use."""
    box_of = [0] * len(graph.nodes)
    for box, group in enumerate(groups):
        for at in group.members:
            box_of[at] = box
    marks: dict[tuple[int, int, int], str] = {}  # by tensor and target; a link that stays wins
    carried: dict[tuple[int, int], dict[tuple[int, int], int]] = defaultdict(dict)
    ordered = sorted(graph.edges, key=lambda edge: (graph.nodes[edge.consumer].seq, edge.slot))
    for edge in ordered:
        source, target = box_of[edge.producer], box_of[edge.consumer]
        if source != target:
            carried[source, target][edge.producer, edge.output] = 1
            tensor = edge.producer, edge.output, target
            marks[tensor] = edge.mark if marks.get(tensor, edge.mark) == edge.mark else ""
    ports: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    links = []
    for (source, target), tensors in carried.items():
        whole = groups[source].kind == "node"
        bundles = [(tensor,) for tensor in tensors] if whole else [tuple(tensors)]
        for bundle in bundles:
            port = ports.setdefault((source, bundle), len(boxes[source].labels))
            arrays = [graph.nodes[at].outputs[output] for at, output in bundle]
            label = _bundle_text(arrays)
            boxes[source].labels[port] = label
            size = sum(array.bytes for array in arrays)
            links.append(Link(source, target, port, label, size, len(arrays)))
            links[-1].mark = _mark_of([marks[at, output, target] for at, output in bundle])
    return links


def _mark_of(marks: list[str]) -> str:
    """What all the tensors of a link have become; nothing where they differ."""
    return marks[0] if len(set(marks)) == 1 else ""


def _bundle_text(arrays: list[Array]) -> str:
    if len(arrays) == 1:
        return array_text(arrays[0])
    return f"{len(arrays):,} arrays · {byte_text(sum(array.bytes for array in arrays))}"
