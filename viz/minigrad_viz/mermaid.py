"""Mermaid flowcharts, for Markdown pages."""

from __future__ import annotations

from minigrad_viz.dot import FILL, INK, ROOT, box_colours, mark_colour, signed_title
from minigrad_viz.escape import mermaid_string
from minigrad_viz.picture import Box, Picture

# Mermaid's own defaults; beyond them a page must raise maxEdges and maxTextSize.
EDGE_LIMIT, TEXT_LIMIT = 500, 50_000
_ARROW = b" -->|"
_SHAPES = {
    "leaf": ("([", "])"),
    "parameter": ("(", ")"),
    "scope": ("[[", "]]"),
    "repeat": ("[[", "]]"),
}
_CLASSES = (
    *(
        f"classDef {kind} fill:{fill},stroke:{rim},color:{INK}"
        for kind, (fill, rim) in FILL.items()
    ),
    f"classDef root stroke:{ROOT},stroke-width:4px",
)


def fits_mermaid(text: bytes) -> bool:
    """Whether Mermaid draws this flowchart with its usual limits."""
    return len(text) <= TEXT_LIMIT and text.count(_ARROW) <= EDGE_LIMIT


def mermaid_text(picture: Picture) -> str:
    """The whole flowchart."""
    lines = ["flowchart TD", *(f"  {line}" for line in _CLASSES)]
    lines.extend(_box(box) for box in picture.boxes)
    for link in picture.links:
        source, target = picture.boxes[link.source].key, picture.boxes[link.target].key
        lines.append(f"  {_key(source)} -->|{mermaid_string(link.label)}| {_key(target)}")
    for at, link in enumerate(picture.links):
        if link.mark:
            colour, dash = mark_colour(link.mark), ",stroke-dasharray:5 4" * (link.mark == "gone")
            lines.append(f"  linkStyle {at} stroke:{colour},stroke-width:2px{dash}")
    for box in picture.boxes:
        if box.heat or box.mark or box.wrong or box.critical:
            fill, rim = box_colours(box)
            lines.append(f"  style {_key(box.key)} fill:{fill},stroke:{rim},stroke-width:2px")
    roots = [_key(box.key) for box in picture.boxes if box.root]
    if roots:
        lines.append(f"  class {','.join(roots)} root")
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    opening, closing = _SHAPES.get(box.kind, ("[", "]"))
    words = "<br/>".join(mermaid_string(text)[1:-1] for text in (signed_title(box), *box.lines))
    return f'  {_key(box.key)}{opening}"{words}"{closing}:::{box.kind}'


def _key(key: str) -> str:
    """Mermaid ids take no minus sign; node ids may be negative."""
    return key.replace("-", "m")
