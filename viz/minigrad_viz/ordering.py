"""The order of points inside each row: as few crossings as a few sweeps find.

Sweeps by barycentre (Sugiyama, Tagawa & Toda 1981), then swaps of neighbours. All ties fall to the
earlier point, so the same graph always gives the same picture.
"""

from __future__ import annotations

from minigrad_viz.layering import Layers

_CAREFUL = 3_000  # points up to which crossings are counted and neighbours swapped


def order_rows(layers: Layers, before: list[float | None] | None = None) -> list[list[int]]:
    """The points of each row from left to right.

    `before` says where some boxes stood: in each row they keep their order.
    """
    place = [0 for _ in layers.row]
    rows = _few_crossings(layers, place)
    if before is not None and len(before) > 0:
        _keep_order(rows, layers, place, before)
    return rows


def _few_crossings(layers: Layers, place: list[int]) -> list[list[int]]:
    rows = _first_order(layers)
    points = len(layers.row)
    sweeps = 2 if points > 50_000 else 3 if points > _CAREFUL else 12
    _number(rows, place)
    if points > _CAREFUL:
        for sweep in range(sweeps):
            _sweep(rows, layers, place, sweep % 2 == 0)
        return rows
    best = [row[:] for row in rows]
    fewest = crossings(rows, layers)
    for sweep in range(sweeps):
        _sweep(rows, layers, place, sweep % 2 == 0)
        found = crossings(rows, layers)
        if found < fewest:
            best = [row[:] for row in rows]
            fewest = found
        if fewest == 0:
            break
    _number(best, place)
    _swap_neighbours(best, layers, place, [False for _ in place])
    return best


def _keep_order(
    rows: list[list[int]], layers: Layers, place: list[int], before: list[float | None]
) -> None:
    """Boxes that stood in a row before stand in their old order; the others make room for them."""
    kept = [False for _ in place]
    for box in range(layers.boxes):
        kept[box] = before[box] is not None
    x = [0.0 if at is None else at for at in before]
    for row in rows:
        stood = [point for point in row if kept[point]]
        stood.sort(key=lambda point: x[point])
        slots = [at for at in range(len(row)) if kept[row[at]]]
        for k in range(len(slots)):
            row[slots[k]] = stood[k]
    _number(rows, place)
    if len(place) <= _CAREFUL:
        _swap_neighbours(rows, layers, place, kept)


def crossings(rows: list[list[int]], layers: Layers) -> int:
    """How many pairs of segments cross between neighbouring rows.

    Each row's ends are counted in a binary indexed tree (Fenwick 1994).
    """
    place = [0 for _ in layers.row]
    _number(rows, place)
    total = 0
    for at in range(len(rows) - 1):
        tree = [0 for _ in range(len(rows[at + 1]) + 1)]
        met = 0
        for point in rows[at]:
            for below in layers.lower[point]:
                total += met
                end = place[below] + 1
                while end > 0:
                    total -= tree[end]
                    end -= end & -end
            for below in layers.lower[point]:
                met += 1
                end = place[below] + 1
                while end < len(tree):
                    tree[end] += 1
                    end += end & -end
    return total


def _first_order(layers: Layers) -> list[list[int]]:
    """Each row in the order in which a walk from the bottom meets its points, inputs left first."""
    last = 0
    for at in layers.row:
        last = max(last, at)
    rows: list[list[int]] = [[] for _ in range(last + 1)]
    seen = [False for _ in layers.row]
    stack = [point for point in range(layers.boxes) if len(layers.lower[point]) == 0]
    stack.reverse()
    while len(stack) > 0:
        point = stack.pop()
        if seen[point]:
            continue
        seen[point] = True
        rows[layers.row[point]].append(point)
        above = layers.upper[point]
        for k in range(len(above) - 1, -1, -1):
            stack.append(above[k])
    return rows


def _number(rows: list[list[int]], place: list[int]) -> None:
    for row in rows:
        for at in range(len(row)):
            place[row[at]] = at


def _sweep(rows: list[list[int]], layers: Layers, place: list[int], downward: bool) -> None:
    beside = layers.upper if downward else layers.lower
    centre = [0.0 for _ in place]
    for k in range(len(rows)):
        row = rows[k] if downward else rows[len(rows) - 1 - k]
        if len(row) == 1:
            continue
        for point in row:
            others = beside[point]
            total = 0
            for other in others:
                total += place[other]
            centre[point] = total / len(others) if len(others) > 0 else place[point]
        row.sort(key=lambda point: centre[point])
        for at in range(len(row)):
            place[row[at]] = at


def _swap_neighbours(
    rows: list[list[int]], layers: Layers, place: list[int], kept: list[bool]
) -> None:
    """Exchanges neighbours where that saves crossings, in four rounds; never two that are kept."""
    for _ in range(4):
        swapped = False
        for row in rows:
            for at in range(len(row) - 1):
                left = row[at]
                right = row[at + 1]
                if (kept[left] and kept[right]) or _gain(left, right, layers, place) <= 0:
                    continue
                row[at] = right
                row[at + 1] = left
                place[left] = at + 1
                place[right] = at
                swapped = True
        if not swapped:
            break


def _gain(left: int, right: int, layers: Layers, place: list[int]) -> int:
    """Crossings saved by exchanging two neighbours."""
    gain = 0
    for beside in (layers.upper, layers.lower):
        for a in beside[left]:
            for b in beside[right]:
                gain += (place[a] > place[b]) - (place[a] < place[b])
    return gain
