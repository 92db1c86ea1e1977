"""SVG in our own layout: no dependency, and the same bytes for the same dump."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import resources

from minigrad_viz.checks import Badge
from minigrad_viz.escape import xml
from minigrad_viz.layout import Layout, Point
from minigrad_viz.picture import RIM, STACKED, Box, Link, Picture, box_size, label_places
from minigrad_viz.textwidth import text_width

MARGIN = 28.0
_HEADER, _LEGEND = 52.0, 46.0
_KEYS = (("leaf", "input"), ("parameter", "parameter"), ("op", "operation"), ("scope", "scope"),
         ("op root", "result"))  # fmt: skip
_KEY_SIZE, _KEY_GAP = 10, 22.0  # of the legend's words, and between its keys
_LINES = "line width: bytes (log)"
BADGE_SIZE = 8.5


def svg_text(picture: Picture, layout: Layout) -> str:
    """The whole SVG document."""
    wide = max(
        layout.width,
        _legend_width(picture.scale),
        text_width(picture.title, 15, bold=True),
        text_width(picture.summary, 11),
    )
    width, height = wide + 2 * MARGIN, layout.height + 2 * MARGIN + _HEADER + _LEGEND
    left = MARGIN + (wide - layout.width) / 2
    sizes = [box_size(box) for box in picture.boxes]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{xml(picture.title)}</title>",
        f"<desc>{xml(picture.summary)}</desc>",
        f"<style>{stylesheet()}</style>",
        _words("heading", MARGIN + 12, picture.title),
        _words("summary", MARGIN + 30, picture.summary),
        f'<g transform="translate({left:.1f} {MARGIN + _HEADER:.1f})">',
        *_links(picture, layout),
        *_boxes(picture, layout, sizes),
        "</g>",
        *_legend(height - MARGIN - 12, picture.scale),
        "</svg>\n",
    ]
    return "\n".join(lines)


def _words(style: str, y: float, text: str) -> str:
    return f'<text class="{style}" x="{MARGIN:.0f}" y="{y:.0f}">{xml(text)}</text>'


def stylesheet() -> str:
    """The colours and type of a picture, light and dark."""
    return resources.files("minigrad_viz").joinpath("assets/picture.css").read_text("utf-8").strip()


def link_width(size: int) -> float:
    """The stroke of a link that carries `size` bytes: 1 px up to 64 bytes, 0.25 px a doubling."""
    return 1.0 + 0.17 * max(0.0, math.log2(max(size, 1)) - 6)


def curve(points: list[Point]) -> str:
    """An SVG path: straight down through a row, an S-curve from row to row."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for at, (x, y) in enumerate(points[1:]):
        before_x, before_y = points[at]
        if abs(before_x - x) < 0.05:
            parts.append(f"V{y:.1f}")
        else:
            middle = (before_y + y) / 2
            parts.append(f"C{before_x:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}")
    return "".join(parts)


def _links(picture: Picture, layout: Layout) -> Iterator[str]:
    for at, link in enumerate(picture.links):
        yield _link(link, layout.routes[at], layout.direct[at], layout.backward[at])


def _link(link: Link, points: list[Point], direct: bool, backward: bool) -> str:
    style = "link" + " direct" * direct + " backward" * backward + " critical" * link.critical
    style += f" {link.mark}" * bool(link.mark)
    width = link_width(link.bytes)
    (x, y), rising = points[-1], points[-1][1] < points[-2][1]
    size = 2.6 + width
    back = size * 1.5 * (1 if rising else -1)
    shaft = [*points[:-1], (x, y + back * 0.8)]
    return (
        f'<path class="{style}" stroke-width="{width:.2f}" d="{curve(shaft)}"/>'
        f'<path class="{style.replace("link", "head", 1)}" '
        f'd="M{x:.1f} {y:.1f}l{-size:.1f} {back:.1f}h{2 * size:.1f}z"/>'
    )


def _boxes(picture: Picture, layout: Layout, sizes: list[tuple[float, float]]) -> Iterator[str]:
    for box, x, y, (width, height) in zip(picture.boxes, layout.x, layout.y, sizes, strict=True):
        yield from _box(box, x, y, width, height)


def _box(box: Box, x: float, y: float, width: float, height: float) -> Iterator[str]:
    left, top = x - width / 2, y - height / 2
    style = f"node {box.kind}" + " root" * box.root + " bad" * box.wrong + " warm" * bool(box.heat)
    style += " critical" * box.critical + f" {box.mark}" * bool(box.mark)
    yield f'<g class="{style}" id="{box.key}">'
    yield f"<title>{xml(box.tip)}</title>"
    if box.root:
        yield _rect(
            "rim", left - RIM, top - RIM, width + 2 * RIM, height + 2 * RIM, _radius(box.kind) + RIM
        )
    if box.kind in STACKED:
        yield _rect("box", left + RIM, top - RIM, width, height, 6)
    yield _rect("box", left, top, width, height, _radius(box.kind))
    if box.heat:
        yield _rect("heat", left, top, width, height, _radius(box.kind), 0.75 * box.heat)
    baseline = top + 18.5
    yield f'<text class="title" x="{x:.1f}" y="{baseline:.1f}">{xml(box.title)}</text>'
    for line in box.lines:
        baseline += 13
        yield f'<text class="line" x="{x:.1f}" y="{baseline:.1f}">{xml(line)}</text>'
    if box.badge is not None:
        yield from _badge(box.badge, x, left, top)
    yield from _labels(box, x, top + height + 12 + 2.5 * box.root)
    yield "</g>"


def _badge(badge: Badge, x: float, left: float, top: float) -> Iterator[str]:
    """A pill over the upper left corner, clear of the arrow at the middle."""
    width = text_width(badge.text, BADGE_SIZE, bold=True) + 9
    start = min(left - 7, x - 8 - width)
    yield f'<g class="badge {badge.verdict}">'
    yield _rect("pill", start, top - 8, width, 14, 7)
    yield f'<text x="{start + width / 2:.1f}" y="{top + 2.2:.1f}">{xml(badge.text)}</text></g>'


def _labels(box: Box, x: float, y: float) -> Iterator[str]:
    for port, offset in label_places(box).items():
        label = xml(box.labels[port])
        yield f'<text class="label" x="{x + offset:.1f}" y="{y:.1f}">{label}</text>'


def _rect(
    style: str,
    x: float,
    y: float,
    width: float,
    height: float,
    radius: float,
    opacity: float | None = None,
) -> str:
    more = "" if opacity is None else f' fill-opacity="{opacity:.3f}"'
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius:.1f}"{more}/>'
    )


def _radius(kind: str) -> float:
    return {"leaf": 14.0, "op": 4.0}.get(kind, 6.0)


def _legend_width(scale: str) -> float:
    """How wide the legend is: the longer of its two lines."""
    keys = sum(29 + text_width(word, _KEY_SIZE) + _KEY_GAP for _, word in _KEYS)
    return max(keys + 36 + text_width(_LINES, _KEY_SIZE), 78 + text_width(scale, _KEY_SIZE))


def _legend(y: float, scale: str) -> Iterator[str]:
    x = MARGIN
    if scale:
        for k in range(5):
            yield _rect("heat", x + 14 * k, y - 24, 14, 13, 0, 0.15 * (k + 1))
        yield f'<text class="key" x="{x + 78:.1f}" y="{y - 14:.1f}">{xml(scale)}</text>'
    for kind, word in _KEYS:
        yield f'<g class="{kind}">{_rect("box", x, y, 22, 13, min(6.5, _radius(kind)))}'
        if kind.endswith("root"):
            yield _rect("rim", x - 3, y - 3, 28, 19, 6)
        yield f'</g><text class="key" x="{x + 29:.1f}" y="{y + 10:.1f}">{word}</text>'
        x += 29 + text_width(word, _KEY_SIZE) + _KEY_GAP
    yield f'<path class="link" stroke-width="1" d="M{x:.1f} {y + 6.5:.1f}h14"/>'
    yield f'<path class="link" stroke-width="4" d="M{x + 14:.1f} {y + 6.5:.1f}h14"/>'
    yield f'<text class="key" x="{x + 36:.1f}" y="{y + 10:.1f}">{_LINES}</text>'
