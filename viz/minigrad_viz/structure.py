"""The structural hash: equal for two dumps of the same computation, whenever and wherever made."""

from __future__ import annotations

import hashlib
import json
import re

from minigrad_viz.graph import Graph, Node

DIGITS = 16


def _params(node: Node) -> list[tuple[str, str]]:
    """Static parameters as text, without the addresses that a repr may tell."""
    return sorted((key, re.sub(r"0x[0-9a-fA-F]+", "0x", text)) for key, text in node.params.items())


def structural_hash(graph: Graph) -> str:
    """16 hexadecimal digits over what is computed: ops, parameters, shapes, dtypes, scopes, links.

    Ids, times, source lines, values and devices do not count, the order of creation does. Inputs
    without gradient do not either: a graph that was not recorded as it ran does not tell them.
    """
    tracked = [at for at, node in enumerate(graph.nodes) if node.tracked]
    order = sorted(tracked, key=lambda at: graph.nodes[at].seq)
    rank = {at: place for place, at in enumerate(order)}
    digest = hashlib.sha256()

    def add(*words: object) -> None:
        digest.update(json.dumps(words, ensure_ascii=True).encode("ascii") + b"\n")

    for at in order:
        node = graph.nodes[at]
        outputs = [[array.shape, array.dtype] for array in node.outputs]
        name = node.name if node.kind == "parameter" else ""
        add("node", node.kind, node.op, name, node.scope, outputs, _params(node))
    for consumer, slot, producer, output in sorted(
        (rank[e.consumer], e.slot, rank[e.producer], e.output)
        for e in graph.edges
        if e.producer in rank
    ):
        add("edge", producer, output, consumer, slot)
    add("roots", [rank[at] for at in graph.roots])
    return digest.hexdigest()[:DIGITS]
