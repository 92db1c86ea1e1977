"""Layers: which row each box stands in, and the trunks that carry long links across rows.

A link that spans several rows gets one waypoint in each row between. Links that carry the same
tensor (same source, same port) share one trunk of waypoints: a leaf that feeds every layer of a
deep model costs one waypoint a row, not one a row and consumer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

Link = tuple[int, int, int]  # source box, target box, port of the source


@dataclass(slots=True)
class Layers:
    """Boxes 0..boxes-1 and the waypoints after them, sorted into rows and joined by segments.

    `taps[k]` says how link k runs: the chain of points it leaves from its trunk, top to bottom,
    given as (first point, number of waypoints). `deepest[k]` marks the one link of a trunk that
    draws the whole of it; the others start at their last waypoint. A `direct` link has no waypoints
    although it is long; a `reversed` one runs against the rows, to break a cycle.
    """

    boxes: int
    row: list[int]
    upper: list[list[int]] = field(default_factory=list)
    lower: list[list[int]] = field(default_factory=list)
    trunk: list[tuple[int, int]] = field(default_factory=list)
    deepest: list[bool] = field(default_factory=list)
    direct: list[bool] = field(default_factory=list)
    reversed: list[bool] = field(default_factory=list)

    def rows(self) -> list[list[int]]:
        """The points of each row, in number order."""
        rows: list[list[int]] = [[] for _ in range(max(self.row, default=-1) + 1)]
        for point, row in enumerate(self.row):
            rows[row].append(point)
        return rows


def assign_layers(boxes: int, links: list[Link], budget: int | None = None) -> Layers:
    """Rows by longest path, each box as low as its consumers let it, trunks for long links.

    At most `budget` waypoints are made; the longest trunks go without.
    """
    rank = _topological_rank(boxes, links)
    oriented = [
        (s, t, p) if rank[s] < rank[t] else (t, s, -1 - k) for k, (s, t, p) in enumerate(links)
    ]
    layers = Layers(boxes, _rows(boxes, oriented, rank))
    layers.reversed = [rank[s] > rank[t] for s, t, _ in links]
    _add_trunks(layers, oriented, 20_000 + 2 * boxes if budget is None else budget)
    return layers


def _topological_rank(boxes: int, links: list[Link]) -> list[int]:
    """A number for each box that rises along links; on a cycle the lowest box goes first."""
    waiting = [0] * boxes
    targets: list[list[int]] = [[] for _ in range(boxes)]
    for source, target, _ in links:
        targets[source].append(target)
        waiting[target] += 1
    rank = [-1] * boxes
    ready = [box for box in range(boxes) if waiting[box] == 0]
    placed, lowest = 0, 0
    while placed < boxes:
        if not ready:
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
    order = sorted(range(boxes), key=rank.__getitem__)
    targets: list[list[int]] = [[] for _ in range(boxes)]
    inputs = [0] * boxes
    for source, target, _ in oriented:
        targets[source].append(target)
        inputs[target] += 1
    row = [0] * boxes
    for box in order:
        below = row[box] + 1
        for target in targets[box]:
            if row[target] < below:
                row[target] = below
    # A parameter, and what is made of parameters alone, belongs beside its consumer and not at the
    # top: everything that feeds something slides down as far as it can.
    for box in reversed(order):
        if targets[box]:
            row[box] = min([row[target] for target in targets[box]]) - 1
    # Boxes without any link would make one endless row; they fill a square instead.
    alone = [box for box in range(boxes) if not targets[box] and not inputs[box]]
    across = max(6, math.isqrt(len(alone)))
    for at, box in enumerate(alone):
        row[box] = at // across
    return row


def _add_trunks(layers: Layers, oriented: list[Link], budget: int) -> None:
    row = layers.row
    trunks: dict[tuple[int, int], int] = defaultdict(int)  # (source, port) -> waypoints it needs
    for source, target, port in oriented:
        trunks[source, port] = max(trunks[source, port], row[target] - row[source] - 1)
    made: dict[tuple[int, int], int] = {}  # (source, port) -> its first waypoint
    for (source, port), length in sorted(trunks.items(), key=lambda item: item[1]):
        if length > budget:
            break
        budget -= length
        made[source, port] = len(row)
        row.extend(range(row[source] + 1, row[source] + 1 + length))
    layers.upper = [[] for _ in row]
    layers.lower = [[] for _ in row]
    for key, first in made.items():
        chain = [key[0], *range(first, first + trunks[key])]
        for above, below in pairwise(chain):
            _join(layers, above, below)
    drawn: set[tuple[int, int]] = set()
    for source, target, port in oriented:
        _add_tap(layers, source, target, made.get((source, port)))
        whole = (
            row[target] - row[source] - 1 == trunks[source, port] and (source, port) not in drawn
        )
        layers.deepest.append(whole)
        if whole:
            drawn.add((source, port))


def _add_tap(layers: Layers, source: int, target: int, first: int | None) -> None:
    span = layers.row[target] - layers.row[source] - 1
    layers.direct.append(first is None and span > 0)
    layers.trunk.append((first or 0, 0 if first is None else span))
    if first is not None or span == 0:
        _join(layers, first + span - 1 if first is not None and span else source, target)


def _join(layers: Layers, above: int, below: int) -> None:
    layers.lower[above].append(below)
    layers.upper[below].append(above)
