"""Work, span and slack of a recorded backward: what no number of workers could make faster.

A node of backward may run when all its consumers have. Along these dependences the longest path,
weighted with the recorded times, is the critical path; its length is the span T∞ and the sum of all
times the work T1 (Blumofe & Leiserson 1999). The slack of a node is how much longer it might have
taken without making the span longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from minigrad_viz.graph import Graph, topological_order


@dataclass(slots=True)
class Critical:
    """Times in nanoseconds; `path` and `slack` by position in the graph's nodes, path in order."""

    work: int
    span: int
    path: list[int]
    slack: dict[int, int]


def critical_path(graph: Graph) -> Critical | None:
    """The critical path of the recorded backward, None where none was recorded."""
    if graph.backward is None or not graph.backward.steps:
        return None
    took = [0] * len(graph.nodes)
    ran = sorted({step.node for step in graph.backward.steps})
    for step in graph.backward.steps:
        took[step.node] += step.t1 - step.t0
    producers: list[list[int]] = [[] for _ in graph.nodes]
    consumers: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        producers[edge.consumer].append(edge.producer)
        consumers[edge.producer].append(edge.consumer)
    order = topological_order(graph.nodes, graph.edges)
    till = _longest(order[::-1], consumers, took)  # up to and with the node
    rest = _longest(order, producers, took)  # from the node on, with it
    span = max(till)
    slack = {at: span - (till[at] + rest[at] - took[at]) for at in ran}
    return Critical(sum(took), span, _path(slack, producers, took, till), slack)


def _longest(order: list[int], before: list[list[int]], took: list[int]) -> list[int]:
    """The longest sum of times over the paths that end at each node."""
    length = [0] * len(took)
    for at in order:
        length[at] = took[at] + max([length[other] for other in before[at]], default=0)
    return length


def _path(
    slack: dict[int, int], producers: list[list[int]], took: list[int], till: list[int]
) -> list[int]:
    """One chain of nodes without slack, from where backward starts."""
    tight = [at for at, room in slack.items() if room == 0]
    path = [min(tight, key=lambda at: (till[at] - took[at], at))]
    while True:
        follows = [
            other
            for other in producers[path[-1]]
            if slack.get(other) == 0 and till[other] - took[other] == till[path[-1]]
        ]
        if not follows:
            return path
        path.append(min(follows))
