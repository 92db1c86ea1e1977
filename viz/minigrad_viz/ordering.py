"""The order of points inside each row: as few crossings as a few sweeps find.

Sweeps by barycentre (Sugiyama, Tagawa & Toda 1981), then swaps of neighbours. All ties fall to the
earlier point, so the same graph always gives the same picture.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from minigrad_viz.layering import Layers

_CAREFUL = 3_000  # points up to which crossings are counted and neighbours swapped


def order_rows(layers: Layers) -> list[list[int]]:
    """The points of each row from left to right."""
    rows = _first_order(layers)
    points = len(layers.row)
    sweeps = 2 if points > 50_000 else 3 if points > _CAREFUL else 12
    place = [0] * points
    _number(rows, place)
    if points > _CAREFUL:
        for sweep in range(sweeps):
            _sweep(rows, layers, place, downward=sweep % 2 == 0)
        return rows
    best, fewest = [list(row) for row in rows], crossings(rows, layers)
    for sweep in range(sweeps):
        _sweep(rows, layers, place, downward=sweep % 2 == 0)
        found = crossings(rows, layers)
        if found < fewest:
            best, fewest = [list(row) for row in rows], found
        if fewest == 0:
            break
    _number(best, place)
    for _ in range(4):
        if not _swap_neighbours(best, layers, place):
            break
    return best


def crossings(rows: list[list[int]], layers: Layers) -> int:
    """How many pairs of segments cross between neighbouring rows."""
    place = [0] * len(layers.row)
    _number(rows, place)
    total = 0
    for row in rows[:-1]:
        ends: list[int] = []
        for point in row:
            places = sorted(place[below] for below in layers.lower[point])
            total += sum(len(ends) - bisect_right(ends, end) for end in places)
            for end in places:
                insort(ends, end)
    return total


def _first_order(layers: Layers) -> list[list[int]]:
    """Each row in the order in which a walk from the bottom meets its points, inputs left first."""
    met: list[int] = []
    seen = [False] * len(layers.row)
    bottoms = [point for point in range(layers.boxes) if not layers.lower[point]]
    stack = bottoms[::-1]
    while stack:
        point = stack.pop()
        if seen[point]:
            continue
        seen[point] = True
        met.append(point)
        stack.extend(reversed(layers.upper[point]))
    rows: list[list[int]] = [[] for _ in range(max(layers.row, default=-1) + 1)]
    for point in met:
        rows[layers.row[point]].append(point)
    return rows


def _number(rows: list[list[int]], place: list[int]) -> None:
    for row in rows:
        for at, point in enumerate(row):
            place[point] = at


def _sweep(rows: list[list[int]], layers: Layers, place: list[int], downward: bool) -> None:
    beside = layers.upper if downward else layers.lower
    centre = [0.0] * len(place)
    for row in rows if downward else reversed(rows):
        if len(row) == 1:
            continue
        for at, point in enumerate(row):
            others = beside[point]
            centre[point] = sum([place[o] for o in others]) / len(others) if others else at
        row.sort(key=centre.__getitem__)
        for at, point in enumerate(row):
            place[point] = at


def _swap_neighbours(rows: list[list[int]], layers: Layers, place: list[int]) -> bool:
    swapped = False
    for row in rows:
        for at in range(len(row) - 1):
            left, right = row[at], row[at + 1]
            if _gain(left, right, layers, place) > 0:
                row[at], row[at + 1] = right, left
                place[left], place[right] = at + 1, at
                swapped = True
    return swapped


def _gain(left: int, right: int, layers: Layers, place: list[int]) -> int:
    """Crossings saved by exchanging two neighbours."""
    gain = 0
    for beside in (layers.upper, layers.lower):
        for a in beside[left]:
            for b in beside[right]:
                gain += (place[a] > place[b]) - (place[a] < place[b])
    return gain
