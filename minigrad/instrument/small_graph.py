"""The small graph behind a tensor, for the notebook that shows the tensor (tensor_api/show.py)."""

import base64
from typing import Any

from ..engine.registry import engine as functions
from .graph_dump import graph_dict
from .notebook import viewer_forms

MOST = 40  # nodes; a larger graph is not drawn under its tensor
_SVG = "image/svg+xml"


def small_graph(x: Any) -> str:
    """HTML that folds out into the graph behind x; "" if it has none, a large one, or no viewer."""
    if x.node is None or x.level or not x.node.parents or not _is_small(x.node):
        return ""
    svg = viewer_forms(graph_dict(x), _SVG, title="graph").get(_SVG)
    if not svg:
        return ""
    # As an image: its style sheet then stays its own.
    data = base64.b64encode(svg.encode()).decode()
    picture = f'<img alt="graph" style="max-width:100%" src="data:{_SVG};base64,{data}">'
    return f"<details><summary><small>graph</small></summary>{picture}</details>"


def _is_small(root: Any) -> bool:
    seen, waiting = {root}, [root]
    while waiting:
        new = [parent for parent in waiting.pop().parents if parent not in seen]
        seen.update(new)
        waiting.extend(new)
        if len(seen) > MOST:
            return False
    return True


functions.register("small_graph", small_graph)
