"""A step length that satisfies the strong Wolfe conditions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, low: float, high: float
) -> float:
    """Where the cubic with these values and slopes at x1 and x2 is smallest, kept in [low, high].

    The middle of the interval where it has no minimum. Nocedal and Wright, 2006, equation 3.59.
    """
    if x1 > x2:
        x1, f1, g1, x2, f2, g2 = x2, f2, g2, x1, f1, g1
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2) if x1 != x2 else math.nan
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(
    f: Callable, x: np.ndarray, t: float, d: np.ndarray, loss: float, g: np.ndarray, slope: float,
    c1: float = 1e-4, c2: float = 0.9, tolerance: float = 1e-9, most: int = 25,
) -> tuple[float, np.ndarray, float, int]:  # fmt: skip
    """(loss, gradient, t, evaluations) at x + t·d with

        loss(t) ≤ loss(0) + c1·t·slope(0)   and   |slope(t)| ≤ c2·|slope(0)|

    where these can be reached in `most` evaluations of f, else the best point met. First t grows
    until a bracket holds such a point, then the bracket shrinks by cubic interpolation. Nocedal and
    Wright, 2006, algorithms 3.5 and 3.6, with PyTorch's safeguards.
    """
    longest = float(np.abs(d).max())

    def at(t: float) -> tuple[float, float, np.ndarray, float]:
        value, gradient = f(x + t * d)
        return t, value, gradient, float(gradient @ d)

    def too_high(point: Any, than: float) -> bool:
        return point[1] > loss + c1 * point[0] * slope or point[1] >= than

    def flat_enough(point: Any) -> bool:
        return abs(point[3]) <= -c2 * slope

    def between(one: Any, two: Any, low: float, high: float) -> float:
        return cubic_minimum(one[0], one[1], one[3], two[0], two[1], two[3], low, high)

    previous, new, used = (0.0, loss, g, slope), at(t), 1
    bracket: list = []
    for i in range(most):
        if too_high(new, previous[1] if i > 1 else math.inf):
            bracket = [previous, new]
        elif flat_enough(new):
            return new[1], new[2], new[0], used
        elif new[3] >= 0:
            bracket = [previous, new]
        if bracket:
            break
        t = between(previous, new, new[0] + 0.01 * (new[0] - previous[0]), new[0] * 10)
        previous, new, used = new, at(t), used + 1
    else:
        bracket = [(0.0, loss, g, slope), new]

    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
    while used < most:
        a, b = sorted((bracket[0][0], bracket[1][0]))
        if (b - a) * longest < tolerance:
            break
        t = between(bracket[0], bracket[1], a, b)
        margin = 0.1 * (b - a)
        if min(b - t, t - a) < margin:  # too close to an end: once that may be, then it is moved
            if stuck or t >= b or t <= a:
                t = b - margin if abs(t - b) < abs(t - a) else a + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new, used = at(t), used + 1
        if too_high(new, bracket[low][1]):
            bracket[high] = new
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        if flat_enough(new):
            return new[1], new[2], new[0], used
        if new[3] * (bracket[high][0] - bracket[low][0]) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    best = bracket[low]
    return best[1], best[2], best[0], used
