"""The graph behind a tensor as text, for the terminal: one line a node, in order of creation."""

from collections.abc import Sequence
from typing import Any

from ..tensor_api.tensor import Tensor
from .graph_dump import graph_for
from .table import shortened


def graph_text(tensors: Tensor | Sequence[Tensor], most: int = 200) -> str:
    """Nodes with op, shape, dtype, where their inputs come from, and the user's line if known.

        #0 leaf (3,) float64
        #1 mul (3,) float64 <- #0 #0
        #2 sum () float64 <- #1

    Of a larger graph the last `most` lines, those next to the root, with a count of the others.
    """
    document = graph_for("graph_text", tensors)
    inputs: dict[int, list[str]] = {}
    for edge in sorted(document["edges"], key=lambda edge: edge["slot"]):
        output = f".{edge['output']}" if edge["output"] else ""
        inputs.setdefault(edge["consumer"], []).append(f"#{edge['producer']}{output}")
    nodes = document["nodes"]
    lines = [_line(node, inputs.get(node["id"], [])) for node in nodes[-most:]]
    hidden = len(nodes) - len(lines)
    return "\n".join([f"({hidden:,} older nodes)"] * bool(hidden) + lines)


def _line(node: dict[str, Any], inputs: list[str]) -> str:
    name = f" {node['name']!r}" if node["name"] else ""
    arrays = node.get("outputs", [node])
    shapes = ", ".join(f"{tuple(array['shape'])} {array['dtype']}" for array in arrays)
    origin = f" <- {' '.join(inputs)}" if inputs else ""
    scope = f"  [{node['scope']}]" if node["scope"] else ""
    site = node["site"]
    place = f"  {shortened(site['file'], 40)}:{site['line']}" if site else ""
    return f"#{node['id']} {node['op'] or node['kind']}{name} {shapes}{origin}{scope}{place}"
