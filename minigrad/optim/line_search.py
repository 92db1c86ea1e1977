"""A step length that satisfies the strong Wolfe conditions."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

HALVINGS = 10  # of a first step to where the loss is not finite, however few evaluations are left


class Point(NamedTuple):
    """A step length that was tried, with the loss, its gradient and its slope along the step.

    Where the loss or the gradient is not finite, the loss is ∞ and the slope NaN.
    """

    t: float
    loss: float
    g: np.ndarray
    slope: float


def cubic_minimum(one: Point, two: Point, low: float, high: float) -> float:
    """Where the cubic with the losses and slopes of two points is smallest, kept in [low, high].

    The middle of the interval where it has no minimum; of a line, as |x| has on one side of 0, the
    end that lies lower. Nocedal and Wright, 2006, equation 3.59.
    """
    if one.t > two.t:
        one, two = two, one
    d1 = math.nan
    if one.t != two.t:
        d1 = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.t - two.t)
    square = d1 * d1 - one.slope * two.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    rise, bend = two.slope + d2 - d1, two.slope - one.slope + 2 * d2
    if bend == 0:
        return high if rise < 0 else low
    return min(max(two.t - (two.t - one.t) * (rise / bend), low), high)


class _Search:
    """The two conditions of a search from `start`; `used` counts the evaluations of f."""

    def __init__(
        self, f: Callable, x: np.ndarray, d: np.ndarray, start: Point, c1: float, c2: float
    ):
        self.f, self.x, self.d, self.start = f, x, d, start
        self.c1, self.c2 = c1, c2
        self.used = 0

    def at(self, t: float) -> Point:
        loss, g = self.f(self.x + t * self.d)
        self.used += 1
        if math.isfinite(loss) and np.isfinite(g).all():
            return Point(t, loss, g, float(g @ self.d))
        return Point(t, math.inf, g, math.nan)

    def is_too_high(self, point: Point, than: float) -> bool:
        line = self.start.loss + self.c1 * point.t * self.start.slope
        return point.loss > line or point.loss >= than

    def is_flat_enough(self, point: Point) -> bool:
        return abs(point.slope) <= -self.c2 * self.start.slope


def strong_wolfe(
    f: Callable, x: np.ndarray, t: float, d: np.ndarray, loss: float, g: np.ndarray, slope: float,
    c1: float = 1e-4, c2: float = 0.9, tolerance: float = 1e-9, most: int = 25,
) -> tuple[float, np.ndarray, float, int]:  # fmt: skip
    """(loss, gradient, t, evaluations) at x + t·d with

        loss(t) ≤ loss(0) + c1·t·slope(0)   and   |slope(t)| ≤ c2·|slope(0)|

    where these can be reached in `most` + 1 evaluations of f (and the HALVINGS), else the best
    point met. That is the start if no other has a finite loss and gradient. First t grows until a
    bracket holds such a point, then the bracket shrinks by cubic interpolation. Nocedal and Wright,
    2006, algorithms 3.5 and 3.6, with PyTorch's safeguards.
    """
    search = _Search(f, x, d, Point(0.0, loss, g, slope), c1, c2)
    bracket = _bracketed(search, t, most)
    best = bracket[0] if len(bracket) == 1 else _shrunk(search, bracket, tolerance, most)
    return best.loss, best.g, best.t, search.used


def _bracketed(search: _Search, t: float, most: int) -> list[Point]:
    """Two points with one between them that meets the conditions; or one that does itself."""
    previous, new = search.start, search.at(t)
    for _ in range(HALVINGS):
        if new.loss < math.inf:
            break
        t /= 2
        new = search.at(t)
    for i in range(most):
        if search.is_too_high(new, previous.loss if i > 1 else math.inf):
            return [previous, new]
        if search.is_flat_enough(new):
            return [new]
        if new.slope >= 0:
            return [previous, new]
        t = cubic_minimum(previous, new, new.t + 0.01 * (new.t - previous.t), new.t * 10)
        previous, new = new, search.at(t)
    return [search.start, new]


def _shrunk(search: _Search, bracket: list[Point], tolerance: float, most: int) -> Point:
    """A point in the bracket that meets the conditions; the best where x hardly moves any more."""
    longest = float(np.abs(search.d).max())
    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while search.used <= most:
        a, b = sorted((bracket[0].t, bracket[1].t))
        if (b - a) * longest < tolerance:
            break
        t = cubic_minimum(bracket[0], bracket[1], a, b)
        margin = 0.1 * (b - a)
        if min(b - t, t - a) < margin:  # too close to an end: once that may be, then it is moved
            if stuck or t >= b or t <= a:
                t = b - margin if abs(t - b) < abs(t - a) else a + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = search.at(t)
        if search.is_too_high(new, bracket[low].loss):
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if search.is_flat_enough(new):
            return new
        if new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    return bracket[low]
