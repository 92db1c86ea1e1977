"""Where each box stands and how each link runs: a layered layout, deterministic, no recursion.

`place` is the whole of it: rows (layering), order inside rows (ordering), then coordinates here.
Units are pixels; x grows to the right and y downwards, data flows top to bottom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minigrad_viz.layering import Layers, Link, assign_layers
from minigrad_viz.ordering import order_rows

BOX_GAP = 26.0  # between two boxes of a row
WAYPOINT_GAP = 12.0  # between two waypoints of a row
ENTRY_GAP = 14.0  # between two arrowheads on a box
ROW_GAP = 46.0  # between two rows: a label under the box, then the curve
LABEL_ROOM = 16.0  # under a box, for the label of what leaves it; the link begins below
STUB = 18.0  # from a row's lower edge to where links may bend

Point = tuple[float, float]


@dataclass(slots=True)
class Layout:
    """Box centres, and for each link the points it runs through from source to target."""

    x: list[float]
    y: list[float]
    routes: list[list[Point]]
    direct: list[bool]
    backward: list[bool]
    width: float
    height: float


def place(
    widths: Sequence[float],
    heights: Sequence[float],
    links: list[Link],
    exits: Sequence[float] | None = None,
) -> Layout:
    """The layout of boxes with these sizes joined by these links (source, target, port).

    `exits[k]` is how far right of the middle of its source link k leaves (default 0).
    """
    if not widths:
        return Layout([], [], [], [], [], 0.0, 0.0)
    layers = assign_layers(len(widths), links)
    rows = order_rows(layers)
    waypoints = len(layers.row) - len(widths)
    x = _columns(rows, layers, [*widths, *[0.0] * waypoints])
    tops, bottoms = _row_edges(rows, heights)
    middles = [(top + bottom) / 2 for top, bottom in zip(tops, bottoms, strict=True)]
    y = [middles[row] for row in layers.row[: len(widths)]]
    router = _Router(
        layers,
        x,
        y,
        heights,
        tops,
        bottoms,
        exits or [0.0] * len(links),
        _entries(layers, links, x, widths),
    )
    return Layout(
        x=x[: len(widths)],
        y=y,
        routes=[router.route(at, link) for at, link in enumerate(links)],
        direct=layers.direct,
        backward=layers.reversed,
        width=_right_edge(x, widths),
        height=bottoms[-1] + STUB,
    )


def _right_edge(x: list[float], widths: Sequence[float]) -> float:
    boxes = max(at + width / 2 for at, width in zip(x, widths, strict=False))
    return max(boxes, max(x))


def _row_edges(rows: list[list[int]], heights: Sequence[float]) -> tuple[list[float], list[float]]:
    tops, bottoms, y = [], [], 0.0
    for row in rows:
        tops.append(y)
        y += max((heights[point] for point in row if point < len(heights)), default=0.0)
        bottoms.append(y)
        y += ROW_GAP
    return tops, bottoms


# -- columns ---------------------------------------------------------------------------------------


def _columns(rows: list[list[int]], layers: Layers, widths: list[float]) -> list[float]:
    """x of every point: drawn to its neighbours, kept apart from the others of its row."""
    offsets = [_offsets(row, layers.boxes, widths) for row in rows]
    x = [0.0] * len(widths)
    for row, offset in zip(rows, offsets, strict=True):
        for point, at in zip(row, offset, strict=True):
            x[point] = at - offset[-1] / 2
    strength = _strengths(layers)
    # Downwards a source has nothing above to hang on; it stays with what it feeds.
    above = [up or down for up, down in zip(layers.upper, layers.lower, strict=True)]
    above, below = _of_a_kind(above, strength), _of_a_kind(layers.lower, strength)
    points = len(x)
    rounds = 1 if points > 3_000 else 8 if points > 600 else 20
    for _ in range(rounds):
        for at in range(len(rows)):
            _settle(rows[at], offsets[at], above, strength, x)
        for at in range(len(rows) - 2, -1, -1):
            _settle(rows[at], offsets[at], below, strength, x)
    for at in range(len(rows)):
        _settle(rows[at], offsets[at], above, strength, x)
    left = min(at - width / 2 for at, width in zip(x, widths, strict=True))
    return [at - left for at in x]


def _offsets(row: list[int], boxes: int, widths: list[float]) -> list[float]:
    """The least x of each point of a row, the first at 0."""
    at, offsets = 0.0, [0.0]
    for left, right in zip(row, row[1:], strict=False):
        apart = (BOX_GAP if left < boxes else WAYPOINT_GAP) + (
            BOX_GAP if right < boxes else WAYPOINT_GAP
        )
        at += (widths[left] + widths[right] + apart) / 2
        offsets.append(at)
    return offsets


def _strengths(layers: Layers) -> list[float]:
    """How much a point counts; a segment pulls with the product of its ends.

    Waypoints count most, so that long links run straight, and boxes with no inputs least: a
    parameter hangs beside the chain it feeds and must not bend it.
    """
    boxes = [1.0 if layers.upper[box] else 0.002 for box in range(layers.boxes)]
    return boxes + [3.0] * (len(layers.row) - layers.boxes)


def _of_a_kind(beside: list[list[int]], strength: list[float]) -> list[list[int]]:
    """Of each point's neighbours those that draw it: those of its kind where there are any.

    A chain that a long link runs beside would else drift towards the link, and the link away from
    the chain, in each row a little further.
    """
    return [
        [other for other in others if strength[other] == strength[point]] or others
        for point, others in enumerate(beside)
    ]


def _settle(
    row: list[int],
    offset: list[float],
    beside: list[list[int]],
    strength: list[float],
    x: list[float],
) -> None:
    """Moves a row's points as near as they can to the mean of `beside`, kept apart.

    Least squares under "no closer than offset": pool-adjacent-violators (Ayer et al. 1955).
    """
    pools: list[tuple[float, float, int]] = []  # weight * wish, weight, number of points
    for point, least in zip(row, offset, strict=True):
        total = wish = 0.0
        for other in beside[point]:
            total += strength[other]
            wish += strength[other] * x[other]
        if total == 0.0:
            total, wish = 0.01, 0.01 * x[point]
        own = strength[point]
        wish, total, count = own * (wish - total * least), own * total, 1
        while pools and pools[-1][0] * total > wish * pools[-1][1]:
            before = pools.pop()
            wish, total, count = before[0] + wish, before[1] + total, before[2] + count
        pools.append((wish, total, count))
    at = 0
    for wish, total, count in pools:
        base = wish / total
        for k in range(at, at + count):
            x[row[k]] = base + offset[k]
        at += count


# -- routes ----------------------------------------------------------------------------------------


def _entries(
    layers: Layers, links: list[Link], x: list[float], widths: Sequence[float]
) -> list[float]:
    """Where on the top of its box each link arrives: straight below its origin if there is room."""
    arriving: dict[int, list[tuple[float, int]]] = {}
    for at, (source, target, _) in enumerate(links):
        upper, lower = (target, source) if layers.reversed[at] else (source, target)
        first, span = layers.trunk[at]
        origin = first + span - 1 if span else upper
        arriving.setdefault(lower, []).append((x[origin], at))
    entries = [0.0] * len(links)
    for box, group in arriving.items():
        group.sort()
        reach = 0.42 * widths[box]
        gap = min(ENTRY_GAP, 2 * reach / len(group))
        at = x[box] - reach - gap
        for rank, (origin, link) in enumerate(group):
            last = x[box] + reach - gap * (len(group) - 1 - rank)
            at = min(max(origin, at + gap), last)
            entries[link] = at
    return entries


@dataclass(slots=True)
class _Router:
    layers: Layers
    x: list[float]
    y: list[float]
    heights: Sequence[float]
    tops: list[float]
    bottoms: list[float]
    exits: Sequence[float]
    entries: list[float]

    def route(self, at: int, link: Link) -> list[Point]:
        """The points of link `at`, from its source (or the trunk it leaves) to its target."""
        layers, (source, target, _) = self.layers, link
        upper, lower = (target, source) if layers.reversed[at] else (source, target)
        first, span = layers.trunk[at]
        points: list[Point] = []
        if span == 0 or layers.deepest[at]:
            out = self.x[upper] + (0.0 if layers.reversed[at] else self.exits[at])
            points.append((out, self.y[upper] + self.heights[upper] / 2 + LABEL_ROOM))
            points.append((out, self.bottoms[layers.row[upper]] + STUB))
            waypoints = range(first, first + span)
        else:
            waypoints = range(first + span - 1, first + span)
        for point in waypoints:
            row = layers.row[point]
            points.append((self.x[point], self.tops[row]))
            points.append((self.x[point], self.bottoms[row] + STUB))
        top = self.y[lower] - self.heights[lower] / 2
        points.append((self.entries[at], self.tops[layers.row[lower]]))
        points.append((self.entries[at], top))
        if span:
            points = _without_repeats(points)
        return points[::-1] if layers.reversed[at] else points


def _without_repeats(points: list[Point]) -> list[Point]:
    """A straight run down through several rows needs only its ends."""
    kept = [points[0]]
    for at in range(1, len(points) - 1):
        x = points[at][0]
        if abs(kept[-1][0] - x) > 0.01 or abs(points[at + 1][0] - x) > 0.01:
            kept.append(points[at])
    return [*kept, points[-1]]
