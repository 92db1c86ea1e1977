"""Layers: which row each box stands in, and the trunks that carry long links across rows.

A link that spans several rows gets one waypoint in each row between. Links that carry the same
tensor (same source, same port) share one trunk of waypoints: a leaf that feeds every layer of a
deep model costs one waypoint a row, not one a row and consumer.
"""

from __future__ import annotations

from dataclasses import dataclass

Link = tuple[int, int, int]  # source box, target box, port of the source


@dataclass(slots=True)
class Layers:
    """Boxes 0..boxes-1 and the waypoints after them, sorted into rows and joined by segments.

    `trunk[k]` says how link k runs: the chain of points it leaves from its trunk, top to bottom,
    given as (first point, number of waypoints). `deepest[k]` marks the one link of a trunk that
    draws the whole of it; the others start at their last waypoint. A `direct` link has no waypoints
    although it is long; a `reversed` one runs against the rows, to break a cycle.
    """

    boxes: int
    pins: list[str]
    row: list[int]
    upper: list[list[int]]
    lower: list[list[int]]
    trunk: list[tuple[int, int]]
    deepest: list[bool]
    direct: list[bool]
    reversed: list[bool]


def assign_layers(
    boxes: int, links: list[Link], pins: list[str] | None = None, budget: int | None = None
) -> Layers:
    """Rows by longest path, each box as low as its consumers let it, trunks for long links.

    `pins[box]` is "top" or "bottom" for a port on the rim of a frame, "" for any other box. At most
    `budget` waypoints are made; the longest trunks go without.
    """
    if pins is None:
        pins = ["" for _ in range(boxes)]
    rank = _topological_rank(boxes, links)
    oriented: list[Link] = []
    for k in range(len(links)):
        source, target, port = links[k]
        ends = (source, target, port) if rank[source] < rank[target] else (target, source, -1 - k)
        oriented.append(ends)
    row = _rows(boxes, oriented, rank)
    _pin_rows(row, pins)
    upper: list[list[int]] = [[] for _ in range(boxes)]
    lower: list[list[int]] = [[] for _ in range(boxes)]
    against = [rank[link[0]] > rank[link[1]] for link in links]
    layers = Layers(boxes, pins, row, upper, lower, [], [], [], against)
    _add_trunks(layers, oriented, 20_000 + 2 * boxes if budget is None else budget)
    return layers


def _topological_rank(boxes: int, links: list[Link]) -> list[int]:
    """A number for each box that rises along links; on a cycle the lowest box goes first."""
    waiting = [0 for _ in range(boxes)]
    targets: list[list[int]] = [[] for _ in range(boxes)]
    for source, target, _ in links:
        targets[source].append(target)
        waiting[target] += 1
    rank = [-1 for _ in range(boxes)]
    ready = [box for box in range(boxes) if waiting[box] == 0]
    placed = 0
    lowest = 0
    while placed < boxes:
        if len(ready) == 0:
            while rank[lowest] >= 0:
                lowest += 1
            ready.append(lowest)
        for box in ready:  # grows while it is walked
            if rank[box] >= 0:
                continue
            rank[box] = placed
            placed += 1
            for target in targets[box]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        ready = []
    return rank


def _rows(boxes: int, oriented: list[Link], rank: list[int]) -> list[int]:
    targets: list[list[int]] = [[] for _ in range(boxes)]
    inputs = [0 for _ in range(boxes)]
    for source, target, _ in oriented:
        targets[source].append(target)
        inputs[target] += 1
    order = [0 for _ in range(boxes)]
    for box in range(boxes):
        order[rank[box]] = box
    row = [0 for _ in range(boxes)]
    for box in order:
        below = row[box] + 1
        for target in targets[box]:
            if row[target] < below:
                row[target] = below
    # A parameter, and what is made of parameters alone, belongs beside its consumer and not at the
    # top: everything that feeds something slides down as far as it can.
    order.reverse()
    for box in order:
        if len(targets[box]) > 0:
            least = row[targets[box][0]]
            for target in targets[box]:
                least = min(least, row[target])
            row[box] = least - 1
    # Boxes without any link would make one endless row; they fill a square instead.
    alone = [box for box in range(boxes) if len(targets[box]) == 0 and inputs[box] == 0]
    across = max(6, int(len(alone) ** 0.5))
    for at in range(len(alone)):
        row[alone[at]] = at // across
    return row


def _pin_rows(row: list[int], pins: list[str]) -> None:
    """Pinned boxes stand alone in their rows: nothing is drawn between them and the rim."""
    inner = [box for box in range(len(row)) if pins[box] == ""]
    if len(inner) == len(row):
        return
    least = len(row)
    most = 0
    for box in inner:
        least = min(least, row[box])
        most = max(most, row[box])
    above = 0
    for side in pins:
        if side == "top":
            above = 1
    for box in range(len(row)):
        if pins[box] == "top":
            row[box] = 0
        elif pins[box] == "bottom":
            row[box] = most - least + above + 1
        else:
            row[box] += above - least


def _add_trunks(layers: Layers, oriented: list[Link], budget: int) -> None:
    row = layers.row
    numbers: dict[int, int] = {}  # of the trunk of a source and port, which make one key
    sources: list[int] = []
    lengths: list[int] = []
    trunk_of: list[int] = []
    for source, target, port in oriented:
        key = source + layers.boxes * port
        trunk = numbers.get(key, -1)
        if trunk < 0:
            trunk = len(sources)
            numbers[key] = trunk
            sources.append(source)
            lengths.append(0)
        lengths[trunk] = max(lengths[trunk], row[target] - row[source] - 1)
        trunk_of.append(trunk)
    firsts = [-1 for _ in sources]  # the first waypoint of a trunk; -1 if it goes without
    for trunk in sorted(range(len(sources)), key=lambda at: lengths[at]):
        if lengths[trunk] > budget:
            break
        budget -= lengths[trunk]
        firsts[trunk] = len(row)
        above = sources[trunk]
        for _ in range(lengths[trunk]):
            row.append(row[above] + 1)
            layers.upper.append([])
            layers.lower.append([])
            _join(layers, above, len(row) - 1)
            above = len(row) - 1
    drawn = [False for _ in sources]
    for k in range(len(oriented)):
        source, target, _ = oriented[k]
        trunk = trunk_of[k]
        _add_tap(layers, source, target, firsts[trunk])
        whole = row[target] - row[source] - 1 == lengths[trunk] and not drawn[trunk]
        layers.deepest.append(whole)
        drawn[trunk] = drawn[trunk] or whole


def _add_tap(layers: Layers, source: int, target: int, first: int) -> None:
    span = layers.row[target] - layers.row[source] - 1
    without = first < 0
    layers.direct.append(without and span > 0)
    layers.trunk.append((0, 0) if without else (first, span))
    if span == 0:
        _join(layers, source, target)
    elif not without:
        _join(layers, first + span - 1, target)


def _join(layers: Layers, above: int, below: int) -> None:
    layers.lower[above].append(below)
    layers.upper[below].append(above)
