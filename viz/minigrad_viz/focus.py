"""The neighbourhood of one node, as a separate graph."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.graph import Backward, Graph
from minigrad_viz.wording import count_text


def find_node(graph: Graph, wanted: str) -> int:
    """The position of the node with this id ("#12" or "12"), name or, if it is the only one, op."""
    number = wanted.removeprefix("#")
    for at, node in enumerate(graph.nodes):
        if number.lstrip("-").isdecimal() and node.id == int(number):
            return at
    for field in ("name", "op"):
        found = [at for at, node in enumerate(graph.nodes) if getattr(node, field) == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(f"#{graph.nodes[at].id}" for at in found[:6])
            more = " …" if len(found) > 6 else ""
            several = f"{count_text(len(found), 'node')} called {shown(wanted, 60)}"
            raise ViewerError(f"--focus: {several}; name one by its number: {ids}{more}")
    raise ViewerError(f"--focus: there is no node {shown(wanted, 60)}; give a name or an id (#12)")


def focused(graph: Graph, wanted: str, radius: int) -> Graph:
    """The nodes at most `radius` links from one node; each tells how many neighbours are left out.

    ViewerError if there is no such node, or several.
    """
    distance = _distances(graph, find_node(graph, wanted), radius)
    kept = sorted(distance)
    place = {at: new for new, at in enumerate(kept)}
    inside = [e for e in graph.edges if e.producer in place and e.consumer in place]
    edges = [replace(e, producer=place[e.producer], consumer=place[e.consumer]) for e in inside]
    beyond = _beyond(graph, place)
    nodes = [replace(graph.nodes[at], beyond=beyond.get(at, (0, 0))) for at in kept]
    roots = [place[at] for at in graph.roots if at in place]
    return Graph(graph.header, nodes, edges, roots, _backward(graph, place))


def _distances(graph: Graph, start: int, radius: int) -> dict[int, int]:
    beside: dict[int, list[int]] = defaultdict(list)
    for edge in graph.edges:
        beside[edge.producer].append(edge.consumer)
        beside[edge.consumer].append(edge.producer)
    distance = {start: 0}
    queue = [start]
    for at in queue:  # grows while it is walked
        if distance[at] == radius:
            continue
        for other in beside[at]:
            if other not in distance:
                distance[other] = distance[at] + 1
                queue.append(other)
    return distance


def _beyond(graph: Graph, place: dict[int, int]) -> dict[int, tuple[int, int]]:
    """For nodes at the rim: (inputs, users) that are not in the picture."""
    counts: dict[int, tuple[int, int]] = {}
    for edge in graph.edges:
        if edge.consumer in place and edge.producer not in place:
            inputs, users = counts.get(edge.consumer, (0, 0))
            counts[edge.consumer] = (inputs + 1, users)
        elif edge.producer in place and edge.consumer not in place:
            inputs, users = counts.get(edge.producer, (0, 0))
            counts[edge.producer] = (inputs, users + 1)
    return counts


def _backward(graph: Graph, place: dict[int, int]) -> Backward | None:
    """The steps of the nodes that are left, with what they gave to each other."""
    if graph.backward is None:
        return None
    steps = []
    for step in graph.backward.steps:
        if step.node in place:
            sent = step.sent
            if sent is not None:
                sent = tuple(
                    replace(part, producer=place[part.producer])
                    for part in sent
                    if part.producer in place
                )
            steps.append(replace(step, node=place[step.node], sent=sent))
    return replace(graph.backward, steps=steps)
