"""Where each box stands and how each link runs: a layered layout, deterministic, no recursion.

`place` is the whole of it: rows (layering), order inside rows (ordering), then coordinates here.
Units are pixels; x grows to the right and y downwards, data flows top to bottom.

The page lays out again whenever a scope opens or folds, by these same three files:
`python viz/translate_layout.py` writes them anew as assets/layout.js, for which they keep to plain
loops, lists and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from minigrad_viz.layering import Layers, Link, assign_layers
from minigrad_viz.ordering import order_rows

BOX_GAP = 26.0  # between two boxes of a row
WAYPOINT_GAP = 12.0  # between two waypoints of a row
ENTRY_GAP = 14.0  # between two arrowheads on a box
ROW_GAP = 46.0  # between two rows: a label under the box, then the curve
RIM_GAP, EXIT_GAP = 24.0, 36.0  # below ports on the upper rim of a frame, above those on the lower
LABEL_ROOM = 16.0  # under a box, for the label of what leaves it; the link begins below
STUB = 18.0  # from a row's lower edge to where links may bend

Point = tuple[float, float]


@dataclass(slots=True)
class Layout:
    """Box centres, and for each link the points it runs through from source to target.

    `row` and `points` (x) say where boxes, and after them waypoints, stand, `tops` and `bottoms`
    where each row ends; `deepest` marks the links that draw the whole of their trunk.
    """

    x: list[float]
    y: list[float]
    routes: list[list[Point]]
    direct: list[bool]
    backward: list[bool]
    width: float
    height: float
    deepest: list[bool]
    row: list[int]
    points: list[float]
    tops: list[float]
    bottoms: list[float]


def place(
    widths: list[float],
    heights: list[float],
    links: list[Link],
    exits: list[float] | None = None,
    pins: list[str] | None = None,
    before: list[float | None] | None = None,
) -> Layout:
    """The layout of boxes with these sizes joined by these links (source, target, port).

    `exits[k]` is how far right of the middle of its source link k leaves (default 0). `pins[box]`
    holds a port on the rim of a frame in the first row ("top") or the last ("bottom"; others "").
    `before[box]` is where a box stood: in each row these keep their order.
    """
    boxes = len(widths)
    if boxes == 0:
        return Layout([], [], [], [], [], 0.0, 0.0, [], [], [], [], [])
    layers = assign_layers(boxes, links, pins)
    rows = order_rows(layers, before)
    x = _columns(rows, layers, widths)
    tops, bottoms = _row_edges(rows, heights, layers.pins)
    y = [(tops[layers.row[box]] + bottoms[layers.row[box]]) / 2 for box in range(boxes)]
    leaving = [0.0 for _ in links] if exits is None else exits
    entries = _entries(layers, links, x, widths)
    places = Places(layers, x, y, heights, tops, bottoms, leaving, entries)
    routes = [_route(places, k, links[k][0], links[k][1]) for k in range(len(links))]
    width = 0.0
    for point in range(len(x)):
        width = max(width, x[point] + (widths[point] / 2 if point < boxes else 0.0))
    height = bottoms[-1] + (0.0 if layers.pins[rows[-1][0]] == "bottom" else STUB)
    against, deepest, row = layers.reversed, layers.deepest, layers.row
    return Layout(
        x[:boxes], y, routes, layers.direct, against, width, height, deepest, row, x, tops, bottoms
    )


def _row_edges(
    rows: list[list[int]], heights: list[float], pins: list[str]
) -> tuple[list[float], list[float]]:
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for k in range(len(rows)):
        if k > 0:
            y += _row_gap(rows[k - 1][0], rows[k][0], pins)
        tops.append(y)
        tallest = 0.0
        for point in rows[k]:
            if point < len(heights):
                tallest = max(tallest, heights[point])
        y += tallest
        bottoms.append(y)
    return tops, bottoms


def _row_gap(above: int, below: int, pins: list[str]) -> float:
    """Between the rows that begin with these points; waypoints have no pins."""
    if above < len(pins) and pins[above] == "top":
        return RIM_GAP
    return EXIT_GAP if below < len(pins) and pins[below] == "bottom" else ROW_GAP


# -- columns ---------------------------------------------------------------------------------------


def _columns(rows: list[list[int]], layers: Layers, box_widths: list[float]) -> list[float]:
    """x of every point: drawn to its neighbours, kept apart from the others of its row."""
    points = len(layers.row)
    widths = [box_widths[at] if at < layers.boxes else 0.0 for at in range(points)]
    offsets = [_offsets(row, layers.boxes, widths) for row in rows]
    x = [0.0 for _ in range(points)]
    for at in range(len(rows)):
        row, offset = rows[at], offsets[at]
        for k in range(len(row)):
            x[row[k]] = offset[k] - offset[-1] / 2
    strength = _strengths(layers)
    above: list[list[int]] = []
    below: list[list[int]] = []
    for at in range(points):
        up, down = layers.upper[at], layers.lower[at]
        # Downwards a source has nothing above to hang on; it stays with what it feeds.
        above.append(_of_a_kind(up if len(up) > 0 else down, at, strength))
        below.append(_of_a_kind(down, at, strength))
    rounds = 1 if points > 3_000 else 8 if points > 600 else 20
    for _ in range(rounds):
        for at in range(len(rows)):
            _settle(rows[at], offsets[at], above, strength, x)
        for at in range(len(rows) - 2, -1, -1):
            _settle(rows[at], offsets[at], below, strength, x)
    for at in range(len(rows)):
        _settle(rows[at], offsets[at], above, strength, x)
    left = x[0] - widths[0] / 2
    for at in range(points):
        left = min(left, x[at] - widths[at] / 2)
    return [at - left for at in x]


def _offsets(row: list[int], boxes: int, widths: list[float]) -> list[float]:
    """The least x of each point of a row, the first at 0."""
    at = 0.0
    offsets = [0.0]
    for k in range(1, len(row)):
        left, right = row[k - 1], row[k]
        apart = BOX_GAP if left < boxes else WAYPOINT_GAP
        apart += BOX_GAP if right < boxes else WAYPOINT_GAP
        at += (widths[left] + widths[right] + apart) / 2
        offsets.append(at)
    return offsets


def _strengths(layers: Layers) -> list[float]:
    """How much a point counts; a segment pulls with the product of its ends.

    Waypoints and ports count most, so that long links run straight, and boxes with no inputs least:
    a parameter hangs beside the chain it feeds and must not bend it.
    """
    strength: list[float] = []
    for at in range(len(layers.row)):
        if at >= layers.boxes or layers.pins[at] != "":
            strength.append(3.0)
        else:
            strength.append(1.0 if len(layers.upper[at]) > 0 else 0.002)
    return strength


def _of_a_kind(others: list[int], point: int, strength: list[float]) -> list[int]:
    """Of a point's neighbours those that draw it: those of its kind where there are any.

    A chain that a long link runs beside would else drift towards the link, and the link away from
    the chain, in each row a little further.
    """
    same = [other for other in others if strength[other] == strength[point]]
    return same if len(same) > 0 else others


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
    for k in range(len(row)):
        point = row[k]
        total = 0.0
        wish = 0.0
        for other in beside[point]:
            total += strength[other]
            wish += strength[other] * x[other]
        if total == 0.0:
            total = 0.01
            wish = 0.01 * x[point]
        own = strength[point]
        wish = own * (wish - total * offset[k])
        total = own * total
        count = 1
        while len(pools) > 0 and pools[-1][0] * total > wish * pools[-1][1]:
            before = pools.pop()
            wish = before[0] + wish
            total = before[1] + total
            count = before[2] + count
        pools.append((wish, total, count))
    at = 0
    for wish, total, count in pools:
        base = wish / total
        for k in range(at, at + count):
            x[row[k]] = base + offset[k]
        at += count


# -- routes ----------------------------------------------------------------------------------------


def _entries(layers: Layers, links: list[Link], x: list[float], widths: list[float]) -> list[float]:
    """Where on the top of its box each link arrives: straight below its origin if there is room."""
    arriving: list[list[int]] = [[] for _ in widths]
    origins: list[float] = []
    for k in range(len(links)):
        source, target, _ = links[k]
        first, span = layers.trunk[k]
        against = layers.reversed[k]
        arriving[source if against else target].append(k)
        upper = target if against else source
        origins.append(x[first + span - 1 if span > 0 else upper])
    entries = [0.0 for _ in links]
    for box in range(len(widths)):
        group = arriving[box]
        if len(group) == 0:
            continue
        group.sort(key=lambda k: origins[k])
        reach = 0.42 * widths[box]
        gap = min(ENTRY_GAP, 2 * reach / len(group))
        at = x[box] - reach - gap
        for rank in range(len(group)):
            last = x[box] + reach - gap * (len(group) - 1 - rank)
            at = min(max(origins[group[rank]], at + gap), last)
            entries[group[rank]] = at
    return entries


@dataclass(slots=True)
class Places:
    """Of every row, box, waypoint and link what a route runs by."""

    layers: Layers
    x: list[float]
    y: list[float]
    heights: list[float]
    tops: list[float]
    bottoms: list[float]
    exits: list[float]
    entries: list[float]


def _route(places: Places, k: int, source: int, target: int) -> list[Point]:
    """The points of link `k`, from its source (or the trunk it leaves) to its target."""
    layers, x, tops, bottoms = places.layers, places.x, places.tops, places.bottoms
    against = layers.reversed[k]
    upper = target if against else source
    lower = source if against else target
    first, span = layers.trunk[k]
    points: list[Point] = []
    begin = first + span - 1
    if span == 0 or layers.deepest[k]:
        out = x[upper] + (0.0 if against else places.exits[k])
        points.append((out, places.y[upper] + places.heights[upper] / 2 + LABEL_ROOM))
        points.append((out, bottoms[layers.row[upper]] + STUB))
        begin = first
    for point in range(begin, first + span):
        row = layers.row[point]
        points.append((x[point], tops[row]))
        points.append((x[point], bottoms[row] + STUB))
    points.append((places.entries[k], tops[layers.row[lower]]))
    points.append((places.entries[k], places.y[lower] - places.heights[lower] / 2))
    if span > 0:
        points = _without_repeats(points)
    if against:
        points.reverse()
    return points


def _without_repeats(points: list[Point]) -> list[Point]:
    """A straight run down through several rows needs only its ends."""
    kept = [points[0]]
    for at in range(1, len(points) - 1):
        x = points[at][0]
        if abs(kept[-1][0] - x) > 0.01 or abs(points[at + 1][0] - x) > 0.01:
            kept.append(points[at])
    kept.append(points[-1])
    return kept
