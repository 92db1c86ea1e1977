"""Two graphs compared: what appeared, what went, what changed its shape, what became slower.

Nodes are matched by scope, op, shapes and what they are linked to; then without their links, by
occurrence ("the third relu of 64×10 in model/act"). The rest is matched without shapes, and then
counts as changed.

Two runs of one program never take the same times. The spread of the ratios of all matched nodes
(their median and its deviation) is the noise band. A node outside of it is slower.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from minigrad_viz.escape import shown
from minigrad_viz.graph import Edge, Graph, Node
from minigrad_viz.structure import structural_hash
from minigrad_viz.wording import aligned, count_text, nanoseconds_text, shape_text, site_text

SLOWER = 1.5  # times as long, and
_NOISE = 20_000  # at least this many nanoseconds more than the band explains
_DEVIATIONS = 4.0  # this many deviations off the median ratio; of normal noise 1 node in 30,000
_FEWEST = 8  # nodes with times; from fewer no band can be told


@dataclass(slots=True)
class Band:
    """Of the ratios of times b / a: the usual one, and from which ratio a node is slower."""

    usual: float
    slower: float
    nodes: int


@dataclass(slots=True)
class Difference:
    """Positions of nodes: `pairs` matched (a, b); the rest by what happened to them."""

    a: Graph
    b: Graph
    pairs: dict[int, int]
    appeared: list[int]  # in b
    gone: list[int]  # in a
    changed: list[tuple[int, int]]
    slower: list[tuple[int, int, int, int]]  # a, b, nanoseconds in a, in b
    band: Band
    new_links: list[Edge]  # in b
    gone_links: list[Edge]  # in a

    @property
    def same(self) -> bool:
        """Whether the two compute the same: nothing appeared, went or changed, links included."""
        return structural_hash(self.a) == structural_hash(self.b)


def difference(a: Graph, b: Graph, slower: float = SLOWER) -> Difference:
    """What changed from a to b; `slower` is the factor that counts as slower."""
    pairs: dict[int, int] = {}
    for word in (_in_place, _with_shapes):
        pairs |= _matched(a, b, pairs, word)
    loose = _matched(a, b, pairs, _without_shapes)
    pairs |= loose
    taken = set(pairs.values())
    times_a, times_b = _times(a), _times(b)
    timed = [(x, y) for x, y in pairs.items() if x in times_a and y in times_b]
    band = _band([(times_a[x], times_b[y]) for x, y in timed], slower)
    slow = [
        (x, y, times_a[x], times_b[y]) for x, y in timed if _is_slower(times_a[x], times_b[y], band)
    ]
    return Difference(
        a,
        b,
        pairs,
        appeared=[at for at in range(len(b.nodes)) if at not in taken],
        gone=[at for at in range(len(a.nodes)) if at not in pairs],
        changed=list(loose.items()),
        slower=sorted(slow, key=lambda row: row[2] - row[3]),
        band=band,
        new_links=_missing(b.edges, a.edges, {y: x for x, y in pairs.items()}),
        gone_links=_missing(a.edges, b.edges, pairs),
    )


def _missing(edges: list[Edge], others: list[Edge], place: dict[int, int]) -> list[Edge]:
    """The edges that the other graph does not have, at the places that their ends have there."""
    known = {(e.producer, e.output, e.consumer, e.slot) for e in others}
    return [
        e
        for e in edges
        if (place.get(e.producer), e.output, place.get(e.consumer), e.slot) not in known
    ]


def _matched(
    a: Graph, b: Graph, known: dict[int, int], word: Callable[[Graph], list[Hashable]]
) -> dict[int, int]:
    """Pairs of nodes that have one word and no partner yet, in the order in which they ran."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    words_a, words_b, taken = word(a), word(b), set(known.values())
    for at in sorted(range(len(b.nodes)), key=lambda at: b.nodes[at].seq, reverse=True):
        if at not in taken:
            waiting[words_b[at]].append(at)
    pairs = {}
    for at in sorted(range(len(a.nodes)), key=lambda at: a.nodes[at].seq):
        others = waiting.get(words_a[at])
        if others and at not in known:
            pairs[at] = others.pop()
    return pairs


def _in_place(graph: Graph) -> list[Hashable]:
    """Each node with those that it is linked to."""
    words, around = _with_shapes(graph), [[] for _ in graph.nodes]
    for edge in graph.edges:
        around[edge.consumer].append((0, edge.slot, hash(words[edge.producer])))
        around[edge.producer].append((1, edge.slot, hash(words[edge.consumer])))
    pairs = zip(words, around, strict=True)
    return [(word, tuple(sorted(linked))) for word, linked in pairs]


def _with_shapes(graph: Graph) -> list[Hashable]:
    shapes = [tuple((array.shape, array.dtype) for array in node.outputs) for node in graph.nodes]
    return list(zip(_without_shapes(graph), shapes, strict=True))


def _without_shapes(graph: Graph) -> list[Hashable]:
    named = ((node, node.name if node.kind == "parameter" else "") for node in graph.nodes)
    return [(node.kind, node.scope, node.op, name) for node, name in named]


def _times(graph: Graph) -> dict[int, int]:
    steps = graph.backward.steps if graph.backward else []
    return {step.node: step.t1 - step.t0 for step in steps}


def _band(times: list[tuple[int, int]], factor: float) -> Band:
    """The noise band of (nanoseconds in a, in b); `factor` is the least that counts as slower."""
    ratios = [math.log(after / before) for before, after in times if before > 0 < after]
    if len(ratios) < _FEWEST:
        return Band(1.0, factor, len(ratios))
    usual = median(ratios)
    deviation = 1.4826 * median([abs(ratio - usual) for ratio in ratios])  # σ of normal noise
    limit = usual + max(math.log(factor), _DEVIATIONS * deviation)
    return Band(math.exp(usual), math.exp(limit), len(ratios))


def _is_slower(before: int, after: int, band: Band) -> bool:
    return after > band.slower * before and after - band.usual * before > _NOISE


# -- as text and JSON ------------------------------------------------------------------------------


def rows(found: Difference) -> list[dict[str, Any]]:
    """One record for each difference, plain JSON."""
    a, b = found.a.nodes, found.b.nodes
    result = [{"what": "appeared", **_described(b[at])} for at in found.appeared]
    result += [{"what": "gone", **_described(a[at])} for at in found.gone]
    result += [
        {"what": "changed", **_described(b[y]), "was": _shapes(a[x])} for x, y in found.changed
    ]
    result += [
        {"what": "slower", **_described(b[y]), "ns_before": before, "ns_after": after}
        for _, y, before, after in found.slower
    ]
    return result


def links(found: Difference) -> list[dict[str, Any]]:
    """One record for each link that appeared or went between nodes that both graphs have."""
    a, b = found.a.nodes, found.b.nodes
    there = set(found.pairs.values())
    new = [e for e in found.new_links if e.producer in there and e.consumer in there]
    gone = [e for e in found.gone_links if e.producer in found.pairs and e.consumer in found.pairs]
    result = [{"what": "new link", **_linked(b, edge)} for edge in new]
    return result + [{"what": "link gone", **_linked(a, edge)} for edge in gone]


def _linked(nodes: list[Node], edge: Edge) -> dict[str, Any]:
    source = nodes[edge.producer]
    name = shown(source.op or source.name or source.kind, 60)
    return {**_described(nodes[edge.consumer]), "from": name, "from_id": source.id}


def _described(node: Node) -> dict[str, Any]:
    name = node.op or node.name or node.kind
    words = {"op": shown(name, 60), "scope": shown(node.scope, 120), "site": site_text(node)}
    return {"id": node.id, "kind": node.kind, **words, "shape": _shapes(node)}


def _shapes(node: Node) -> str:
    return ", ".join(
        f"{shape_text(array.shape)} {shown(array.dtype, 12)}" for array in node.outputs
    )


def difference_json(found: Difference) -> dict[str, Any]:
    """The whole as a JSON document."""
    sides = {
        name: {"nodes": len(graph.nodes), "hash": structural_hash(graph)}
        for name, graph in (("a", found.a), ("b", found.b))
    }
    band = {"usual": found.band.usual, "slower": found.band.slower, "nodes": found.band.nodes}
    words = {"matched": len(found.pairs), "noise_band": band, "differences": rows(found)}
    words["links"] = links(found)
    return {"same": found.same, **sides, **words}


def difference_text(found: Difference, most: int = 40) -> str:
    """A table for the terminal."""
    counts = f"{count_text(len(found.pairs), 'node')} matched"
    lines = [
        f"a  {count_text(len(found.a.nodes), 'node')}  {structural_hash(found.a)}",
        f"b  {count_text(len(found.b.nodes), 'node')}  {structural_hash(found.b)}",
        f"{counts}; {'the same structure' if found.same else summary(found)}",
    ]
    if found.band.nodes:
        times = [sum(_times(graph).values()) for graph in (found.a, found.b)]
        words = " -> ".join(map(nanoseconds_text, times))
        usual, slower = found.band.usual, found.band.slower
        lines.append(f"time {words}; usual ratio {usual:.2f}, slower from {slower:.2f}")
    table = rows(found) + links(found)
    lines += aligned([_row(row) for row in table[:most]])
    if len(table) > most:
        lines.append(f"… {len(table) - most:,} more (--json tells all)")
    return "\n".join(lines) + "\n"


def summary(found: Difference) -> str:
    """'2 appeared, 1 gone, 3 changed shape, 1 slower'."""
    counts = (
        (len(found.appeared), "appeared"),
        (len(found.gone), "gone"),
        (len(found.changed), "changed shape"),
        (len(found.slower), "slower"),
    )
    words = [f"{count:,} {word}" for count, word in counts if count]
    table = links(found)
    if table:
        words.append(f"{len(table):,} other link{'s' * (len(table) > 1)}")
    return ", ".join(words) or "other links or parameters"


def _row(row: dict[str, Any]) -> list[str]:
    note = ""
    if row["what"] == "changed":
        note = f"was {row['was']}"
    elif row["what"] == "slower":
        before, after = row["ns_before"], row["ns_after"]
        note = f"{nanoseconds_text(before)} -> {nanoseconds_text(after)}"
    elif "from" in row:
        note = f"from {row['from']} #{row['from_id']}"
    return [*(row[key] for key in ("what", "op", "shape", "scope", "site")), note]


# -- as one graph ----------------------------------------------------------------------------------


def union(found: Difference) -> tuple[Graph, dict[int, tuple[str, str]]]:
    """b with the nodes and links that are gone from a put back, and (mark, note) by node.

    Differences are marked: nodes by the second part, links in themselves.
    """
    a, b = found.a, found.b
    first_id = max((node.id for node in b.nodes), default=0) + 1
    place = dict(found.pairs)
    nodes = list(b.nodes)
    for k, at in enumerate(found.gone):
        place[at] = len(nodes)
        nodes.append(replace(a.nodes[at], id=first_id + k, grad=None, before=None))
    new = {id(edge) for edge in found.new_links}
    edges = [replace(edge, mark="appeared") if id(edge) in new else edge for edge in b.edges]
    for edge in found.gone_links:
        producer, consumer = place[edge.producer], place[edge.consumer]
        output = min(edge.output, len(nodes[producer].outputs) - 1)
        edges.append(Edge(producer, output, consumer, edge.slot, "gone"))
    return Graph(b.header, nodes, edges, b.roots, b.backward), _marks(found, place)


def _marks(found: Difference, place: dict[int, int]) -> dict[int, tuple[str, str]]:
    marks: dict[int, tuple[str, str]] = {}
    for _, y, before, after in found.slower:
        marks[y] = "slower", f"{nanoseconds_text(before)} → {nanoseconds_text(after)}"
    for x, y in found.changed:
        marks[y] = "changed", f"was {_shapes(found.a.nodes[x])}"
    marks |= dict.fromkeys(found.appeared, ("appeared", "appeared"))
    return marks | {place[at]: ("gone", "gone") for at in found.gone}
