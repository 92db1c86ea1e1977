"""DOT for Graphviz: labels are plain text, on which every Graphviz agrees.

With a layout, each box and link carries its place and Graphviz only draws (`nop2`); without,
Graphviz lays the graph out itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from minigrad_viz.escape import dot_string
from minigrad_viz.layout import Layout, Point
from minigrad_viz.picture import STACKED, Box, Link, Picture, box_size, label_places
from minigrad_viz.svg import link_width
from minigrad_viz.textwidth import text_width

_POINT = 0.75  # Graphviz places things in points of 1/72 inch; a pixel is 1/96
INK, ROOT = "#1f2933", "#33567f"  # of texts, and the rim of a result
FILL = {  # and rim, by kind of box
    "op": ("#ffffff", "#7f9dc0"),
    "leaf": ("#e4eaf1", "#9aabbd"),
    "parameter": ("#dff0e2", "#7fb08b"),
    "scope": ("#eef3fb", "#5f83b3"),
    "repeat": ("#eef3fb", "#5f83b3"),
    "hidden": ("#f1eee8", "#a99f8c"),
}
_MARKED = {
    "appeared": ("#d7f0dd", "#2f8f52"),
    "gone": ("#f6dcdc", "#c4203a"),
    "changed": ("#fbeac9", "#b07d12"),
    "slower": ("#fbdccf", "#d2551f"),
}
HOT = "#e8643c"
_LONGEST_ROUTE = 250  # points; Graphviz reads no quoted text beyond 16,384 characters
_TYPE = 8 / _POINT  # pixels of the words in a box, where they find room
READABLE = 60.0  # dots per inch below which the small type blurs
_LARGEST_PIXELS = 12_000.0  # either side of a PNG


def dot_text(picture: Picture, layout: Layout | None = None) -> str:
    """The whole DOT document."""
    lines = ["digraph minigrad {", *_defaults(picture, layout)]
    for at, box in enumerate(picture.boxes):
        lines.append(f"  {dot_string(box.key)} [{_attributes(_box(box, at, layout))}];")
    for at, link in enumerate(picture.links):
        source, target = picture.boxes[link.source].key, picture.boxes[link.target].key
        attributes = _attributes(_link(link, at, layout))
        lines.append(f"  {dot_string(source)} -> {dot_string(target)} [{attributes}];")
    if layout is not None:
        lines.extend(_labels(picture, layout))
    lines.append("}\n")
    return "\n".join(lines)


def _defaults(picture: Picture, layout: Layout | None) -> Iterator[str]:
    heading = dot_string(picture.title, picture.summary)
    yield f"  graph [label={heading}, labelloc=t, labeljust=l, fontname={dot_string('Helvetica')},"
    yield '    fontsize=10, bgcolor="#fbfbfa", rankdir=TB, nodesep=0.3, ranksep=0.35, pad=0.3,'
    yield f"    dpi={resolution(layout):.1f}];"
    yield '  node [shape=box, style="filled,rounded", fontname=Helvetica, fontsize=8,'
    yield f'    fontcolor="{INK}", margin="0.12,0.06"];'
    yield '  edge [color="#97a3b0", arrowsize=0.6, fontname=Helvetica, fontsize=7,'
    yield '    fontcolor="#66727f"];'


def resolution(layout: Layout | None) -> float:
    """Dots per inch of a PNG: as fine as its largest side allows."""
    if layout is None:
        return 144.0
    inches = max(layout.width, layout.height, 1.0) / 96
    return min(144.0, _LARGEST_PIXELS / inches)


def _attributes(pairs: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items())


def box_colours(box: Box) -> tuple[str, str]:
    """Fill and rim of a box on white paper, with what is laid over it."""
    fill, rim = _MARKED.get(box.mark) or FILL[box.kind]
    if box.heat:
        fill = _mixed(fill, HOT, 0.75 * box.heat)
    if box.wrong or box.critical:
        return fill, "#c4203a" if box.wrong else "#d9822b"
    return fill, ROOT if box.root and not box.mark else rim


def mark_colour(mark: str) -> str:
    """The colour of a link that appeared or went."""
    return _MARKED[mark][1]


def _mixed(under: str, over: str, share: float) -> str:
    channels = [(int(under[k : k + 2], 16), int(over[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)


def signed_title(box: Box) -> str:
    """The title with the sign of its badge, for formats without badges."""
    return box.title if box.badge is None else f"{box.badge.sign} {box.title}"


def _box(box: Box, at: int, layout: Layout | None) -> dict[str, str]:
    fill, rim = box_colours(box)
    style = "filled" if box.kind == "op" else "filled,rounded"
    style += ",dashed" * (box.kind == "hidden")
    pairs = {
        "label": dot_string(signed_title(box), *box.lines),
        "id": dot_string(box.key),
        "class": dot_string(box.kind + " root" * box.root),
        "tooltip": dot_string(*box.tip.split("\n")),
        "style": dot_string(style),
        "fillcolor": dot_string(fill),
        "color": dot_string(rim),
    }
    if box.kind in STACKED or box.critical or box.wrong:
        pairs["penwidth"] = "2"
    if box.root:
        pairs["peripheries"] = "2"
    if layout is not None:
        width, height = box_size(box)
        pairs["fontsize"] = f"{_POINT * _type_size(box, width):.2f}"
        pairs["width"], pairs["height"] = f"{width / 96:.4f}", f"{height / 96:.4f}"
        pairs["fixedsize"] = "true"
        pairs["pos"] = dot_string(_place((layout.x[at], layout.y[at]), layout))
    return pairs


def _type_size(box: Box, width: float) -> float:
    """The size in pixels at which each line of a box lies inside it: DOT has one size for all."""
    widest = max(text_width(line, 1.0) for line in (signed_title(box), *box.lines))
    return min(_TYPE, (width - 8) / max(widest, 0.1))


def _link(link: Link, at: int, layout: Layout | None) -> dict[str, str]:
    pairs = {"penwidth": f"{link_width(link.bytes) * _POINT:.2f}"}
    if link.critical or link.mark:
        pairs["color"] = dot_string(mark_colour(link.mark) if link.mark else "#d9822b")
    if link.mark == "gone":
        pairs["style"] = "dashed"
    if layout is None:
        pairs["label"] = dot_string(link.label)
        return pairs
    pairs["pos"] = dot_string(_spline(layout.routes[at], layout))
    if layout.direct[at] or layout.backward[at]:
        pairs["style"] = "dashed"
    return pairs


def _labels(picture: Picture, layout: Layout) -> Iterator[str]:
    """Labels as boxes without a rim: a placed drawing gives edge labels no place."""
    for at, box in enumerate(picture.boxes):
        for port, offset in label_places(box).items():
            below = layout.y[at] + box_size(box)[1] / 2 + (12 if box.root else 9)
            place = dot_string(_place((layout.x[at] + offset, below), layout))
            pairs = (
                f"label={dot_string(box.labels[port])}, pos={place}, shape=plaintext, style=solid"
            )
            yield (
                f"  {dot_string(f'{box.key}:{port}')} [{pairs}, fontsize=6.8, margin=0, width=0.1,"
                ' height=0.1, fontcolor="#66727f"];'
            )


def _place(point: Point, layout: Layout) -> str:
    """Graphviz counts upwards in points."""
    return f"{point[0] * _POINT:.2f},{(layout.height - point[1]) * _POINT:.2f}"


def _spline(points: list[Point], layout: Layout) -> str:
    """The same curve as in the SVG, as a Graphviz B-spline with the arrow's tip named first."""
    (x, y), rising = points[-1], points[-1][1] < points[-2][1]
    shaft = [*points[:-1], (x, y + (7 if rising else -7))]
    while len(shaft) > _LONGEST_ROUTE:
        shaft = [*shaft[:2], *shaft[2:-2:2], *shaft[-2:]]
    knots = [shaft[0]]
    for (ax, ay), (bx, by) in zip(shaft, shaft[1:], strict=False):
        middle = (ay + by) / 2
        knots += [(ax, middle), (bx, middle), (bx, by)]
    return f"e,{_place((x, y), layout)} " + " ".join(_place(knot, layout) for knot in knots)
