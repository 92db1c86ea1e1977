"""Engine against finite differences: along random directions, entry by entry; the wrong entry."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.registry import op
from .errors import DoesNotApply, Entry, GradcheckError, Inconclusive
from .function import Function, as_array, pulled_back
from .numeric import (
    ROUNDING,
    STEP,
    Slope,
    bend,
    coordinate,
    length,
    normal,
    of_numbers,
    pack,
    slope,
    unpack,
)

RTOL = 1e-7  # of ‖v∘Ju‖; far above the stencil's error, far below any wrong rule that matters
NOISE = 1e-4  # above this share of the scale, noise makes a comparison inconclusive
_THIRD = 0.75  # a third step, as a share of the coarse one
_EXPLAINS = 0.25  # of an error: a kink bends f by at least half of its effect on a stencil


def as_vectors(function: Function, xs: Sequence[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """function as a map between packed vectors, near xs."""
    return lambda vector: pack(function.value(unpack(vector, xs)))


def check_direction(
    function: Function, xs: Sequence[Any], us: Sequence[Any], vs: Sequence[Any], what: str
) -> np.ndarray:
    """v·(J u) by finite differences against (Jᵀv)·u by the engine; returns Jᵀv, packed.

    Accepts an error of 1e-7 ‖v∘Ju‖ + 10 ‖v∘(Ju_h − Ju_h/2)‖ + rounding. There is no absolute floor:
    a function of size 1e-7 must have as many right digits as one of size 1. If a kink lies between
    the steps, both are off by the same; the bend of f along u reveals that.
    """
    x, u, v = pack(xs), pack(us), pack(vs)
    g = pack(function.vjp(xs, vs))
    try:
        ju = slope(as_vectors(function, xs), x, u)
    except Exception as error:
        raise Inconclusive(
            f"{what}: the function refuses arguments near these: {error!r}"
        ) from error
    _require_finite(ju, g, what)
    numeric, analytic = float(v @ ju.value), float(g @ u)
    scale = length(v * ju.value)
    noise = 10 * length(v * ju.change)
    rounding = ROUNDING * (length(v * ju.size) + length(finite(x) * g))
    larger = max(scale, length(g * u))
    if not noise <= NOISE * larger + rounding or larger > rounding > NOISE * larger:
        raise inconclusive(what, noise + rounding, larger)
    tolerance = _rtol(g) * scale + noise + rounding
    error = abs(numeric - analytic)
    if not error <= tolerance:  # NaN is wrong
        kink = bend(lambda t: float(v @ as_vectors(function, xs)(x + t * u))) - rounding
        if kink >= _EXPLAINS * error:
            raise at_a_kink(what)
        _require_repeats(g, pack(function.vjp(xs, vs)), what)
        raise GradcheckError(
            f"{what}: along a random direction u and for a random cotangent v, (Jᵀv)·u is "
            f"{analytic!r} but finite differences give v·(Ju) = {numeric!r} "
            f"(tolerance {tolerance:.2g})",
            locate(function, xs, vs, g),
        )
    return g


def _rtol(g: np.ndarray) -> float:
    """The tolerance of a gradient: nothing beyond noise if it was rounded to single precision.

    That rounding is below RTOL, but it loses half the digits of a double-precision graph. A
    gradient counts as rounded if each of its numbers is a float32, as ones and zeros are by chance.
    """
    with np.errstate(over="ignore"):
        return 0.0 if np.array_equal(g, g.astype(np.float32)) else RTOL


def finite(x: np.ndarray) -> np.ndarray:
    """x with zeros for NaN and infinities, which some samples contain on purpose (nansum)."""
    return np.where(np.isfinite(x), x, 0.0)


def _require_finite(ju: Slope, g: np.ndarray, what: str) -> None:
    if not np.isfinite(ju.value).all():
        raise Inconclusive(
            f"{what}: the function is not finite near the sample, so finite differences cannot "
            "tell; choose a sample inside the domain"
        )
    if not np.isfinite(g).all():
        raise GradcheckError(
            f"{what}: the gradient holds {g[~np.isfinite(g)][0]} at a finite point"
        )


def inconclusive(what: str, noise: float, scale: float) -> Inconclusive:
    return Inconclusive(
        f"{what}: inconclusive, the finite differences at two steps differ by {noise / 10:.2g} "
        f"where the derivative is of size {scale:.2g}. The sample may lie near a kink or a "
        "singularity, or the function may not be deterministic"
    )


def at_a_kink(what: str) -> Inconclusive:
    return Inconclusive(
        f"{what}: inconclusive, the sample may lie near a kink or a singularity. There finite "
        "differences give a mean of the slopes on both sides, and a rule may give either slope. "
        "Choose another point"
    )


def locate(function: Function, xs: Sequence[Any], vs: Sequence[Any], g: np.ndarray) -> Entry | None:
    """The most wrong entry of Jᵀv, found by halving the direction's support."""
    x, v = pack(xs), pack(vs)
    f = as_vectors(function, xs)
    u = normal(np.random.default_rng(0), [np.empty(x.size)])[0]

    def error(support: np.ndarray) -> float:
        part = np.zeros_like(u)
        part[support] = u[support]
        return abs(float(v @ slope(f, x, part).value) - float(g @ part))

    support = np.arange(x.size)
    while support.size > 1:
        support = max(np.array_split(support, 2), key=error)
    if not support.size:
        return None
    unit = np.zeros_like(x)
    unit[support] = 1.0
    j = int(support[0])
    return _entry(function, xs, j, float(g[j]), float(v @ slope(f, x, unit).value))


def _require_repeats(g: np.ndarray, again: np.ndarray, what: str) -> None:
    """A wrong gradient must be the same when computed again; otherwise this is the fault to
    report."""
    if g.tobytes() != again.tobytes():
        k = int(np.argmax(g.reshape(-1) != again.reshape(-1)))
        raise GradcheckError(
            f"{what}: the gradient is {g.reshape(-1)[k]!r} where the same backward, made again, "
            f"gives {again.reshape(-1)[k]!r}: a rule does not repeat, or writes into its arguments"
        )


def _entry(function: Function, xs: Sequence[Any], j: int, analytic: float, numeric: float) -> Entry:
    which, index, part = coordinate(j, xs)
    position = function.positions[min(which, len(function.positions) - 1)]
    return Entry(position, function.names[position], index, analytic, numeric, part)


def check_jacobian(function: Function, xs: Sequence[Any], what: str) -> np.ndarray:
    """Every entry of the Jacobian by the engine against finite differences; returns the former.

    One column takes six calls, one row takes one backward of a unit cotangent.
    """
    x = pack(xs)
    f = as_vectors(function, xs)
    columns = [slope(f, x, unit) for unit in np.eye(x.size)]
    numeric = np.stack([column.value for column in columns], axis=1)
    change = np.stack([column.change for column in columns], axis=1)
    size = np.max([column.size for column in columns], axis=0)
    analytic = jacobian(function, xs)
    if not np.isfinite(numeric).all():
        raise Inconclusive(f"{what}: the function is not finite near the sample")
    reach = np.abs(numeric) @ np.abs(finite(x))  # the effect of rounding x on each result
    results = function.value(xs)
    rounding = ROUNDING * of_numbers(size + reach, results)[:, None]
    scale = float(np.max(np.abs(numeric)))

    def beyond() -> np.ndarray:
        """How far each entry exceeds its tolerance."""
        noise = 10 * np.abs(change)
        if not (noise <= NOISE * scale + rounding).all():
            raise inconclusive(what, float(noise.max()), scale)
        allowed = _rtol(analytic) * np.abs(numeric) + noise + rounding
        excess = np.abs(analytic - numeric) - allowed
        excess[np.isnan(excess)] = np.inf
        return excess

    excess = beyond()
    for k in np.flatnonzero((excess > 0).any(axis=0)):  # two steps may agree by chance: try a third
        other = slope(f, x, np.eye(x.size)[k], _THIRD * STEP)
        seen = np.maximum(np.abs(other.change), np.abs(other.value - numeric[:, k]))
        change[:, k] = np.fmax(np.abs(change[:, k]), seen)
    excess = beyond()
    if (excess > 0).any():
        row, column = np.unravel_index(int(np.argmax(excess)), excess.shape)
        kink = bend(lambda t: float(f(x + t * np.eye(x.size)[column])[row])) - rounding[row, 0]
        if kink >= _EXPLAINS * abs(analytic[row, column] - numeric[row, column]):
            raise at_a_kink(what)
        _require_repeats(analytic, jacobian(function, xs), what)
        which, index, part = coordinate(int(row), results)
        place = f"result {which}{list(index) or ''}" + (f" ({part} part)" if part else "")
        count = int((excess > 0).sum())
        raise GradcheckError(
            f"{what}: {count} of {excess.size} entries of the Jacobian are wrong; the worst is "
            f"∂ {place} / ∂ the entry named below",
            _entry(function, xs, int(column), float(analytic[row, column]),
                   float(numeric[row, column])),
        )  # fmt: skip
    return analytic


def jacobian(function: Function, xs: Sequence[Any]) -> np.ndarray:
    """The engine's Jacobian between packed vectors, one row per backward."""
    leaves, ys = function.record(xs)
    values = [y.data if hasattr(y, "node") else y for y in ys]
    rows = []
    for unit in np.eye(pack(values).size):
        rows.append(pack(pulled_back(leaves, ys, unpack(unit, values), retain_graph=True)))
    return np.stack(rows)


def check_calls(
    function: Function, xs: Sequence[Any], moved: Sequence[Any], us: Sequence[Any],
    vs: Sequence[Any], what: str,
) -> int:  # fmt: skip
    """Calls are independent: this finds state that outlives a call (the last input, the first one).

    A call at the second point `moved`, between forward and backward at xs, changes no bit of the
    gradient. The gradient at `moved` is right too. Returns how many of the two were compared.
    Raises DoesNotApply if the function cannot be called there, or has another shape.
    """
    alone = function.vjp(xs, vs)
    leaves, ys = function.record(xs)
    before = [as_array(y).tobytes() for y in ys]
    try:
        between = function.value(moved)
        function.record(moved)
    except Exception as error:
        raise DoesNotApply(f"the second point is outside the op's domain ({error})") from error
    for i, (y, old) in enumerate(zip(ys, before, strict=True)):
        if as_array(y).tobytes() != old:
            raise GradcheckError(
                f"{what}the next call changes result {i} of one call: the function keeps this "
                "array and writes to it again; return a new one"
            )
    for i, (g, g_alone) in enumerate(zip(pulled_back(leaves, ys, vs), alone, strict=True)):
        if g.tobytes() != g_alone.tobytes():
            raise GradcheckError(
                f"{what}the gradient of argument {function.positions[i]} is another when the "
                "function is called again between its forward and its backward. Some state "
                "outlives the call, or it does not repeat"
            )
    if any(y.shape != v.shape for y, v in zip(between, vs, strict=True)):
        raise DoesNotApply("the shape of the result depends on values")
    try:
        check_direction(function, moved, us, vs, f"{what}at a second point, after the first")
    except Inconclusive:  # the second point may lie near a kink, unlike the first
        return 1
    return 2


def both_in_one_graph(
    function: Function, xs: Sequence[Any], moved: Sequence[Any], vs: Sequence[Any], what: str
) -> int:
    """One backward through two calls gives the gradients of each alone: how many were compared.

    Ops before both calls make the result of one rule wait while the other runs. If the rule keeps
    an array and writes to it again, that result has changed by then.
    """
    leaves = function.leaves([*xs, *moved])
    inner = [op.copy(leaf) for leaf in leaves]
    results = [*function.call(inner[: len(xs)]), *function.call(inner[len(xs) :])]
    expected = [*function.vjp(xs, vs), *function.vjp(moved, vs)]
    if any(y.shape != v.shape for y, v in zip(results, [*vs, *vs], strict=True)):
        return 0
    found = pulled_back(leaves, results, [*vs, *vs])
    for i, (g, alone) in enumerate(zip(found, expected, strict=True)):
        if not np.array_equal(g, alone, equal_nan=True):
            raise GradcheckError(
                f"{what}the gradient of {name_of(function, i % len(xs))} is another where two "
                "calls lie in one graph. A rule writes again into an array that it has returned "
                "earlier, and so changes that result; return a new array"
            )
    return len(found)


def name_of(function: Function, i: int) -> str:
    """The name of the i-th differentiated argument in messages."""
    position = function.positions[i]
    return f"argument {position} ({function.names[position]})"


def random_pair(
    function: Function, xs: Sequence[Any], rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """A direction for the inputs and a cotangent for the results, both signed N(0, 1)."""
    return normal(rng, xs), normal(rng, function.value(xs))
