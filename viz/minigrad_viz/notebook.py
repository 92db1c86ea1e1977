"""Graphs shown in notebooks: the interactive page in a frame, an SVG, and plain text.

Displaying never raises: a notebook that fails while it prints a value hides the value. Errors are
shown in the text instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from minigrad_viz.collapse import group_nodes
from minigrad_viz.escape import shown, xml
from minigrad_viz.graph import Graph
from minigrad_viz.page import page_text
from minigrad_viz.picture import picture_of, summary_text
from minigrad_viz.reader import graph_from, read
from minigrad_viz.svg import svg_text

_MOST_IN_PAGE = 20_000  # nodes; a frame with more makes the notebook file huge
_MOST_BOXES = 300  # in the still picture
_FEW = 60  # nodes of a graph for which the frame is made to measure
_TALL, _LOW = 640, 340  # pixels of a frame


class Shown:
    """A graph that a notebook displays: `show(graph)`."""

    def __init__(self, graph: Graph | None, title: str, mode: str, height: int, trouble: str = ""):
        self._graph, self._title, self._mode = graph, title, mode
        self._height, self._trouble = height, trouble

    def __repr__(self) -> str:
        if self._graph is None:
            return f"minigrad_viz: {self._trouble}"
        return f"{self._title}: {summary_text(self._graph)}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Every form at once; the notebook takes the richest that it can show."""
        makers = {"text/html": self._html, "image/svg+xml": self._svg, "text/plain": self.__repr__}
        bundle = {}
        for kind, make in makers.items():
            if include is not None and kind not in include:
                continue
            try:
                text = make()
            except Exception as error:
                text = ""
                if kind == "text/plain":
                    text = f"minigrad_viz: this graph cannot be shown ({type(error).__name__})"
            if text:
                bundle[kind] = text
        return bundle

    def _svg(self) -> str:
        if self._graph is None:
            return ""
        groups = group_nodes(self._graph, max_nodes=_MOST_BOXES)
        picture = picture_of(self._graph, groups, self._title)
        return svg_text(picture, picture.layout())

    def _html(self) -> str:
        """The page in a separate frame: without our origin, so it can read nothing here."""
        if self._graph is None:
            return f"<pre>{xml(repr(self))}</pre>"
        if len(self._graph.nodes) > _MOST_IN_PAGE:
            return ""
        page = page_text(self._graph, self._title, None, mode=self._mode)
        style = f"width:100%;height:{self._height}px;border:1px solid #8884;border-radius:8px"
        return (
            f'<iframe sandbox="allow-scripts" style="{style}" title="{xml(self._title)}" '
            f'srcdoc="{xml(page)}"></iframe>'
        )


def show(
    graph: Mapping[str, Any] | str | os.PathLike | Graph,
    title: str = "graph",
    *,
    step: bool = False,
    height: int | None = None,
) -> Shown:
    """A graph as a notebook shows it: a dump (a dict, as mg.graph_dict gives) or the path of one.

    step=True opens the step-through of a recorded backward. The frame is `height` pixels tall, by
    default as a small graph needs it. A message about an unreadable file replaces the graph.
    """
    mode = "step" if step else ""
    try:
        if isinstance(graph, Mapping):
            graph = graph_from(dict(graph))
        elif not isinstance(graph, Graph):
            graph = read(os.fspath(graph))
        tall = _fitting(graph, step) if height is None else int(height)
        return Shown(graph, shown(str(title), 80), mode, tall)
    except Exception as error:
        return Shown(None, "", mode, 0, shown(str(error), 300) or type(error).__name__)


def _fitting(graph: Graph, step: bool) -> int:
    """How tall a frame shows a small graph whole: its layout, and what stands around it."""
    if len(graph.nodes) > _FEW:
        return _TALL
    picture = picture_of(graph, group_nodes(graph), "")
    around = 240 if step else 90
    return round(min(_TALL, max(_LOW, 1.2 * picture.layout().height + around)))
