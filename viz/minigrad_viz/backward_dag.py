"""The graph of the backward itself: one node for each rule that ran, cotangents on its edges.

A node of it takes the cotangents of an op's results and gives those of its inputs. Where a result
has several users, a separate node adds their contributions. The ends are the gradients of the
leaves. Without recorded steps the rules have the order in which a backward would run them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from minigrad_viz.graph import (
    Array,
    Backward,
    Edge,
    Gradient,
    Graph,
    Node,
    Numbers,
    topological_order,
)
from minigrad_viz.wording import array_text

Source = tuple[int, int]  # a node of the new graph and one of its outputs
Sent = tuple[int, int, Numbers | None]  # producer, output, and the numbers of a small cotangent


def backward_dag(graph: Graph) -> Graph:
    """The backward of `graph` as a graph; its steps tell how long each rule took."""
    return _Builder(graph).built()


def both(graph: Graph) -> Graph:
    """The forward and its backward as two parts, "forward" and "backward", of one graph."""
    back, count = backward_dag(graph), len(graph.nodes)
    first = max((node.id for node in graph.nodes), default=0) + 1
    last = max((node.seq for node in graph.nodes), default=0) + 1
    nodes = [replace(node, scope=_inside("forward", node.scope)) for node in graph.nodes]
    for node in back.nodes:
        scope = _inside("backward", node.scope)
        nodes.append(replace(node, id=first + node.id, seq=last + node.seq, scope=scope))
    moved = [
        replace(edge, producer=edge.producer + count, consumer=edge.consumer + count)
        for edge in back.edges
    ]
    return Graph(graph.header, nodes, [*graph.edges, *moved], graph.roots, graph.backward)


def _inside(part: str, scope: str) -> str:
    return f"{part}/{scope}" if scope else part


def _runs(graph: Graph) -> Iterator[tuple[int, list[Sent]]]:
    """(an op, its rule's results) in the order of the recorded steps, else of the graph."""
    given: dict[int, list[Sent]] = defaultdict(list)
    for edge in graph.edges:
        if graph.nodes[edge.producer].tracked:
            given[edge.consumer].append((edge.producer, edge.output, None))
    if graph.backward is not None and graph.backward.steps:
        for step in sorted(graph.backward.steps, key=lambda step: step.order):
            if step.sent is None:
                yield step.node, given[step.node]
            else:
                told = [(part.producer, part.output, part.gradient.values) for part in step.sent]
                yield step.node, told
        return
    reached = set(graph.roots)
    for at in reversed(topological_order(graph.nodes, graph.edges)):
        if at in reached and graph.nodes[at].kind == "op":
            reached.update(producer for producer, _, _ in given[at])
            yield at, given[at]


class _Builder:
    def __init__(self, graph: Graph):
        self.graph = graph
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.ends: list[int] = []
        self.made: dict[int, int] = {}  # a node of the forward -> that of its rule
        self.arrived: dict[Source, list[Source]] = defaultdict(list)  # by result of the forward

    def built(self) -> Graph:
        for root in self.graph.roots:
            self._seed(root)
        for at, sent in _runs(self.graph):
            self._run(at, sent)
        for at, node in enumerate(self.graph.nodes):
            if node.kind != "op" and self.arrived.get((at, 0)):
                self._end(at, node)
        return Graph(self.graph.header, self.nodes, self.edges, self.ends, self._steps())

    def _add(self, node: Node, sources: list[Source]) -> int:
        """A new node behind its inputs; its id and time are its place."""
        at = len(self.nodes)
        self.nodes.append(replace(node, id=at, seq=at))
        for slot, (source, output) in enumerate(sources):
            self.edges.append(Edge(source, output, at, slot))
        return at

    def _seed(self, root: int) -> None:
        node = self.graph.nodes[root]
        seed = self._add(Node(0, "leaf", "", 0, node.outputs[:1], name="seed"), [])
        self.arrived[root, 0].append((seed, 0))

    def _run(self, at: int, sent: list[Sent]) -> None:
        node = self.graph.nodes[at]
        sources = [self._sum(at, output) for output in range(len(node.outputs))]
        arrays = [self._cotangent(producer, output) for producer, output, _ in sent]
        reads = {f"reads {array.name}": array_text(array) for array in node.saved}
        rule = Node(
            0,
            "op",
            f"{node.op} vjp",
            0,
            tuple(arrays) or (Array((), "", 0),),
            device=node.device,
            scope=node.scope,
            site=node.site,
            params=reads,
            formula=node.formula,
            values=sent[0][2] if len(sent) == 1 else None,
            flops=node.backward_flops,
            check=node.check,
            rule=node.formula.partition(" ;  ")[2],
            twin=at,
        )
        made = self._add(rule, [source for source in sources if source is not None])
        self.made[at] = made
        for place, (producer, output, _) in enumerate(sent):
            self.arrived[producer, output].append((made, place))

    def _cotangent(self, producer: int, output: int) -> Array:
        return replace(self.graph.nodes[producer].outputs[output], name="", buffer=None)

    def _sum(self, at: int, output: int) -> Source | None:
        """Where the cotangent of a result stands: added up where several users gave to it."""
        parts = self.arrived[at, output]
        if len(parts) < 2:
            return parts[0] if parts else None
        node = self.graph.nodes[at]
        scope = _shared([self.nodes[part].scope for part, _ in parts])
        total = Node(
            0,
            "op",
            "accumulate",
            0,
            (self._cotangent(at, output),),
            scope=scope,
            formula="g = " + " + ".join(f"g{k}" for k in range(1, min(len(parts), 9) + 1)),
            rule=f"{len(parts)} contributions to {node.name or node.op or node.kind}",
        )
        return self._add(total, parts), 0

    def _end(self, at: int, node: Node) -> None:
        source = self._sum(at, 0)
        assert source is not None
        grad = node.grad or Gradient(None, None)
        name = f"{node.name or ('input' if node.kind == 'leaf' else 'parameter')}.grad"
        outputs = (self._cotangent(at, 0),)
        scope = self.nodes[source[0]].scope
        end = Node(0, node.kind, "", 0, outputs, scope=scope, name=name, values=grad.values)
        end.grad = replace(grad, values=None)
        self.ends.append(self._add(end, [source]))

    def _steps(self) -> Backward | None:
        """The recorded steps at the rules that they ran."""
        if self.graph.backward is None:
            return None
        steps = [replace(s, node=self.made[s.node], sent=()) for s in self.graph.backward.steps]
        return replace(self.graph.backward, steps=steps)


def _shared(scopes: list[str]) -> str:
    """The innermost scope that holds all of these."""
    parts = [scope.split("/") for scope in scopes]
    shared = []
    for words in zip(*parts, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return "/".join(shared)
