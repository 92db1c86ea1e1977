"""Which nodes share a box: by scope, and by a limit on the number of boxes. Counts stay honest.

The result maps every node to exactly one group, so the counts of the boxes always add up to the
nodes of the dump.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from minigrad_viz.graph import Graph, Node
from minigrad_viz.repeats import Repeat


@dataclass(slots=True)
class Group:
    """The nodes that one box represents. `kind` is "node", "scope", "repeat" or "hidden"."""

    kind: str
    name: str
    members: list[int]
    copies: int = 1  # how often a repeat is repeated here


def group_nodes(
    graph: Graph,
    depth: int | None = None,
    closed: Iterable[str] = (),
    max_nodes: int = 0,
    repeats: Sequence[Repeat] = (),
    fold_repeats: bool = True,
) -> list[Group]:
    """One group a box, in creation order of the first member.

    Scopes deeper than `depth` parts fold into their first `depth` parts; scopes named in `closed`
    fold whole; of `repeats` all copies but the first share a box. If more than `max_nodes` boxes
    are left (0: no limit), repeats fold even without `fold_repeats`, then scopes from the inside
    out, and what still is too much becomes one hidden box, the oldest nodes first.
    """
    closed = frozenset(closed)
    groups = _grouped(
        graph, lambda scope: _fold(scope, depth, closed), repeats if fold_repeats else ()
    )
    if not 0 < max_nodes < len(groups):
        return groups
    groups = _grouped(graph, lambda scope: _fold(scope, depth, closed), repeats)
    if len(groups) <= max_nodes:
        return groups
    deepest = max(node.scope.count("/") + 1 for node in graph.nodes)
    for shallower in range(min(deepest, 64 if depth is None else depth), 0, -1):
        groups = _grouped(graph, lambda scope, at=shallower: _fold(scope, at, closed), repeats)
        if len(groups) <= max_nodes:
            return groups
    return _hide_oldest(graph, groups, max_nodes)


def _fold(scope: str, depth: int | None, closed: frozenset[str]) -> str:
    """The scope that a box at `scope` folds into, or "" where it stays open."""
    if not scope or (depth is None and not closed):
        return ""
    for count, prefix in enumerate(scope_prefixes(scope), start=1):
        if prefix in closed or depth == count:
            return prefix
    return ""


def scope_prefixes(scope: str) -> list[str]:
    """'a/b/c' -> ['a', 'a/b', 'a/b/c']; the top level has none."""
    parts = scope.split("/") if scope else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _grouped(graph: Graph, fold: Callable[[str], str], repeats: Sequence[Repeat]) -> list[Group]:
    folded = {scope: fold(scope) for scope in {node.scope for node in graph.nodes}}
    home: list[str | Repeat] = [folded[node.scope] for node in graph.nodes]
    for repeat in repeats:
        for at in repeat.folded:
            home[at] = home[at] or repeat
    if any(home):
        _take_parameters_along(graph, home)
    crowd = Counter(home)
    groups: dict[str | int | Repeat, Group] = {}
    for at in sorted(range(len(home)), key=lambda at: graph.nodes[at].seq):
        key = home[at] if home[at] and crowd[home[at]] > 1 else at  # one node is its own box
        if key not in groups:
            groups[key] = _empty_group(key)
        groups[key].members.append(at)
    return list(groups.values())


def _empty_group(key: str | int | Repeat) -> Group:
    if isinstance(key, Repeat):
        return Group("repeat", key.title, [], key.copies - 1)
    return Group("scope", key, []) if isinstance(key, str) else Group("node", "", [])


def _take_parameters_along(graph: Graph, home: list[str | Repeat]) -> None:
    """A parameter used by one folded scope alone belongs to it, though it was made outside."""
    users: dict[int, set[str | Repeat]] = defaultdict(set)
    for edge in graph.edges:
        users[edge.producer].add(home[edge.consumer])
    for at, scopes in users.items():
        if graph.nodes[at].kind == "parameter" and len(scopes) == 1:
            home[at] = home[at] or next(iter(scopes))


def _hide_oldest(graph: Graph, groups: list[Group], max_nodes: int) -> list[Group]:
    """Keeps the `max_nodes` - 1 groups nearest to the result; the rest is one hidden group."""
    age = _ages(graph)
    by_age = sorted(groups, key=lambda group: max(age[at] for at in group.members))
    cut = len(groups) - (max_nodes - 1)
    gone = [at for group in by_age[:cut] for at in group.members]
    kept = {id(group) for group in by_age[cut:]}
    hidden = Group("hidden", "", sorted(gone, key=lambda at: graph.nodes[at].seq))
    return [hidden, *(group for group in groups if id(group) in kept)]


def _ages(graph: Graph) -> list[int]:
    """When a node first mattered: an op when it ran, a leaf when its first consumer did.

    A parameter made long before its use then hides together with its use.
    """
    age = [node.seq for node in graph.nodes]
    first: dict[int, int] = {}
    for edge in graph.edges:
        if graph.nodes[edge.producer].kind != "op":
            used = graph.nodes[edge.consumer].seq
            first[edge.producer] = min(first.get(edge.producer, used), used)
    for at, used in first.items():
        age[at] = used
    return age


def census(nodes: Iterable[Node]) -> dict[str, int]:
    """How many of each kind: {"op": 3, "parameter": 2, "leaf": 1}."""
    counts = {"op": 0, "parameter": 0, "leaf": 0}
    for node in nodes:
        counts[node.kind] += 1
    return counts
