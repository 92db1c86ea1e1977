"""minigrad-viz: draws the graphs that minigrad dumps. It reads files and never imports the engine.

The rooms, in reading order: reader (file -> Graph), collapse + repeats (which nodes share a box),
focus (a part of a graph), heat + critical (overlays), picture (Graph -> boxes and links), layering
+ ordering + layout (where each box stands), then one writer a format: svg, dot, mermaid, page
(HTML); raster hands DOT to Graphviz; diff + structure compare graphs; render, commands and cli tie
them together. In assets/ the page: model and tree (what folds), nest, layout and columns (places),
first (what is open at first), painters; recording, flow, dock, now and player are the step-through.
In a notebook: `minigrad_viz.show(rec.graph)`.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["show"]


def show(graph: Any, title: str = "graph", *, step: bool = False, height: int | None = None) -> Any:
    """A graph (a dump or the path of one) as a notebook shows it; see notebook.py."""
    from minigrad_viz import notebook  # loaded only when it is wanted

    return notebook.show(graph, title, step=step, height=height)
