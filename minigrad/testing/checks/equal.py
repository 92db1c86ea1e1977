"""K27 where elements are equal or whole: two numbers, one number, all of them 0 or 1."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..compare import as_vectors, check_direction
from ..errors import GradcheckError, Inconclusive
from ..function import Arrays, Function
from ..numeric import ROUNDING, STEP, normal, pack, slope, unpack

_ADDS = 1e-6  # of the largest: tolerance of slopes along u, w and u + w
_STRAIGHT = 0.01  # of a step: its tolerated difference from the opposite step
_ALIKE = 0.1  # of the largest: tolerated difference of slopes at two steps, if a slope exists


def with_equal_elements(function: Function, name: str, rng: np.random.Generator) -> int:
    """Half of the elements are one number and the rest another. The direction keeps that: most ops
    with kinks at ties are smooth along it, and the shares of tied elements must add up. If all
    elements are 0, no gradient is NaN. Returns how many of the two could be compared."""
    us = [_of_two(x, rng) for x in function.xs]
    ties = [_of_two(x, rng) for x in function.xs]
    zeros = [np.zeros_like(x) for x in ties]
    places = [xs for xs in (ties, zeros) if us and has_slopes(function, xs, us)]
    for xs in places:
        vs = normal(rng, function.value(xs))
        with suppress(Inconclusive, np.linalg.LinAlgError):
            if xs is ties:
                if _is_rounding(function, xs, us, vs):
                    continue
                check_direction(
                    function, xs, us, vs, f"{name} with two numbers alone, so with ties"
                )
            elif np.isnan(pack(function.vjp(xs, vs))).any():
                raise GradcheckError(f"{name} with zeros alone: the gradient holds NaN")
    return len(places) + at_plain_numbers(function, name, rng)


def at_plain_numbers(function: Function, name: str, rng: np.random.Generator) -> int:
    """At how many points the gradient could be compared. The points are whole numbers; all elements
    of all arguments equal, zeros or ones; zeros or ones in one argument with the others unchanged.
    A rule may have a special case for each. Kinks of f are skipped, as at ties of a maximum."""
    xs, count = function.xs, 0
    if not xs or not all(x.size for x in xs):
        return 0
    points = [
        ("in whole numbers", [_whole(x) for x in xs]),
        ("all elements equal", [np.full_like(x, x.flat[0]) for x in xs]),
    ]
    for what, fill in (("zeros", np.zeros_like), ("ones", np.ones_like)):
        points.append((f"of {what} alone", [fill(x) for x in xs]))
        for k in range(len(xs)) if len(xs) > 1 else ():
            changed = [fill(x) if i == k else x for i, x in enumerate(xs)]
            points.append((f"with {what} in {function.names[function.positions[k]]}", changed))
    for what, at in points:
        us, ws = normal(rng, at), normal(rng, at)
        thirds = rng.permutation(pack(us).size) % 3
        parts = [unpack(np.where(thirds == k, pack(us), 0), us) for k in range(3)]
        if adds_up(function, at, (us, ws)) and adds_up(function, at, parts):
            vs = normal(rng, function.value(at))
            with suppress(Inconclusive, np.linalg.LinAlgError):
                check_direction(function, at, us, vs, f"{name} {what}")
                count += 1
    return count


def _whole(x: np.ndarray) -> np.ndarray:
    """Whole numbers near x, of either sign and with few ties."""
    apart = np.arange(x.size).reshape(x.shape) ** 2 % 7
    return np.copysign(np.ceil(np.abs(np.real(x))) + apart, np.real(x)).astype(x.dtype)


def adds_up(function: Function, xs: Arrays, directions: Sequence[Arrays]) -> bool:
    """Whether f is straight along the sum of directions, and its slopes along them add up to that
    of the sum. A median of equal numbers is straight along every direction alone, and has a kink
    there."""
    total = [np.sum(us, axis=0) for us in zip(*directions, strict=True)]
    if not all(has_slopes(function, xs, us) for us in (*directions, total)):
        return False
    f, x, h = as_vectors(function, xs), pack(xs), STEP / 16
    at, right, left = (f(x + t * pack(total)) for t in (0.0, h, -h))
    steps = np.max(np.abs([right - at, left - at]), initial=0.0)
    if not (np.abs(right + left - 2 * at) <= _STRAIGHT * steps + ROUNDING).all():
        return False
    slopes = [slope(f, x, pack(us)) for us in (*directions, total)]
    off = np.abs(sum(s.value for s in slopes[:-1]) - slopes[-1].value)
    change = sum(np.abs(s.change) for s in slopes)
    size = np.max([np.abs(s.value) for s in slopes], initial=0.0)
    return bool((off <= _ADDS * size + change + ROUNDING).all())


_NOTHING = 1e-10  # of a gradient at the sample: the rest of one that cancels to 0


def _is_rounding(function: Function, xs: Arrays, us: Arrays, vs: Arrays) -> bool:
    """Whether the gradient along us is nearly 0, compared with the sample's, and the function
    constant there. A determinant of equal rows has no digits to compare."""
    u = pack(us)
    at, moved = (
        function.value([x + t * u for x, u in zip(xs, us, strict=True)]) for t in (0, STEP)
    )
    if any((a != b).any() for a, b in zip(at, moved, strict=True)):
        return False
    along, usual = (abs(pack(function.vjp(place, vs)) * u).sum() for place in (xs, function.xs))
    return bool(along <= _NOTHING * usual)


def _of_two(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An array like x: one number in the first half of its elements, another in the rest."""
    largest = np.max(np.abs(x), initial=0.0, where=np.isfinite(x))
    numbers = largest * rng.uniform(0.3, 0.9, 2) * rng.choice([-1, 1], 2)
    return numbers[np.sort(np.arange(x.size) % 2)].astype(x.dtype).reshape(x.shape)


def has_slopes(function: Function, xs: Arrays, us: Arrays) -> bool:
    """Whether the function is defined at xs and has slopes along ±us, with or without kinks.
    Differences at two steps are then about the same, unlike at a singular matrix."""
    places = [
        [x + t * u for x, u in zip(xs, us, strict=True)]
        for t in (0.0, STEP, STEP / 16, -STEP, -STEP / 16)
    ]
    found = [ys for ys in map(function.value_or_refusal, places) if ys]
    if len(found) < len(places) or len({tuple(y.dtype for y in ys) for ys in found}) > 1:
        return False
    at, *moved = [np.concatenate([y.reshape(-1) for y in ys]) for ys in found]
    if any(ys.shape != at.shape for ys in moved) or not np.isfinite(at).all():
        return False
    slopes = [(y - at) / t for y, t in zip(moved, (STEP, STEP / 16) * 2, strict=True)]
    size = np.max(np.abs(slopes), initial=0.0)
    pairs = (slopes[:2], slopes[2:])
    return all(bool((np.abs(a - b) <= _ALIKE * size + ROUNDING).all()) for a, b in pairs)
