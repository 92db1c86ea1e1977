"""K27: the derivative is right at small and large arguments of either sign too."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..case import Context, argument_names, differentiated, function_of, is_elementwise
from ..compare import RTOL, check_direction, random_pair
from ..errors import DoesNotApply, GradcheckError, Inconclusive
from ..function import Arrays, Function, Pullback, as_array, is_smooth_array, pulled_back
from ..numeric import ROUNDING, normal
from ..spec import OpSpec, Sample
from .base import check
from .equal import with_equal_elements
from .nearness import moves_values
from .plane import in_the_plane
from .pushed import require_modes_agree
from .slopes import Slopes, stencil

_VALUES = (0.03, 0.2, 0.45, 0.8, 1.3, 2.4, 4.6)
_FAR = (14.3, 61.7)  # for one argument or two: tails, where rules have special cases
# for one argument: near enough to hit every range of a factor of 1.2, and far out
_CLOSE = (1e-4, *[0.01 * 1.2**k for k in range(70)], 1.1e4, 1.7e5, 1.3e6)
_WHOLE = (0.0, 1.0, 2.0, 3.0)  # as powers, of a negative base too; these also meet in ties
_POWERS = (*_WHOLE, -1.0, -2.0, 0.5, -0.5)  # for one argument or two
_APART = 0.017  # the distance between two arguments' values: ties are kinks
_FACTORS = (-1.0, 3.0, 0.2)
_NUDGE = 0.01


@check("K27", "small and large arguments, of either sign; zeros and ties", per="op", optional=True)
def k27(spec: OpSpec, context: Context) -> int:
    """Elementwise: each partial at each point of a grid of all combinations, and each second one.
    For three arguments and more the second ones need the full level. Complex numbers lie all around
    the origin.

    Other ops: the first sample (at the full level all) times −1, 3 and 0.2, all arguments and each
    alone. Further points are of one sign, in order with a zero in each, or have two elements equal.
    Others consist of two numbers alone, of one, of whole numbers, of zeros or of ones, in all
    arguments and each alone. Points outside of the domain, at kinks and at steps are skipped:
    finite differences are inconclusive there. A jvp rule must agree with the vjp at kinks as well.
    """
    samples = [s for dtype in spec.dtypes[:1] for s in context.samples(spec, dtype)]
    if moves_values(spec):
        raise DoesNotApply("it only moves values")
    if is_elementwise(spec):
        first = {repr(sample.params): sample for sample in reversed(samples)}
        count = sum(on_grid(spec, context, sample) for sample in first.values())
        if "complex128" in spec.dtypes:
            some = {repr(sample.params): sample for sample in context.samples(spec, "complex128")}
            count += sum(in_the_plane(spec, context, sample) for sample in some.values())
    else:
        doubles = [dtype for i, dtype in enumerate(spec.dtypes) if i == 0 or dtype == "complex128"]
        lists = [context.samples(spec, dtype) for dtype in doubles]
        chosen = [s for some in lists for s in (some if context.full else some[:1])]
        count = sum(elsewhere(spec, context, sample) for sample in chosen)
    if not count:
        raise DoesNotApply("finite differences decide nothing there")
    return count


def elsewhere(spec: OpSpec, context: Context, sample: Sample) -> int:
    """At how many points made of the sample's arguments the gradient could be compared."""
    function = function_of(spec, sample.args, sample.params)
    rng, count = context.rng(spec.name, "K27", sample.name), 0
    count += with_equal_elements(function, sample.name, rng)
    for what, xs in points(function.xs, rng):
        what = f"{sample.name} {what}"
        ys = function.value_or_refusal(xs)
        if not ys or not all(np.isfinite(y).all() for y in ys):
            continue
        try:
            us, vs = random_pair(function, xs, rng)
            if not us or not vs:
                continue
            with suppress(Inconclusive):  # at kinks both modes still share a convention
                check_direction(function, xs, us, vs, what)
                count += 1
                second_order_at(function, xs, vs, what, rng)
            require_modes_agree(spec, function, xs, us, vs, what)
        except np.linalg.LinAlgError:
            continue  # a singular matrix, which has no derivative
    return count


def second_order_at(
    function: Function, xs: Arrays, vs: Arrays, what: str, rng: np.random.Generator
) -> None:
    """The gradient of the gradient at xs, if finite differences are conclusive."""
    pullback, point = Pullback(function), [*xs, *vs]
    us, ws = normal(rng, point), normal(rng, xs)
    check_direction(pullback, point, us, ws, f"{what}: second derivative")


def points(xs: Arrays, rng: np.random.Generator) -> Iterator[tuple[str, Arrays]]:
    """(description, arguments): multiples of all and of each alone; in order with a zero; ties."""
    n = len(xs)
    for factor in _FACTORS:
        choices = [range(n), *[[k] for k in range(n)]] if n > 1 else [range(n)]
        for chosen in choices:
            # not exactly: sums that cancel must not cancel again
            nudged = [x * (1 + _NUDGE * abs(u)) for x, u in zip(xs, normal(rng, xs), strict=True)]
            moved = [x * factor if i in chosen else x for i, x in enumerate(nudged)]
            yield f"times {factor}, arguments {[*chosen]}", moved
    for what in ("with a zero, in order", "with a tie"):
        changed = [x.copy() for x in xs]
        for x in changed:
            if x.size and what == "with a tie":
                x.flat[x.size // 2] = x.flat[0]
            elif x.size > 1:  # a matrix with a zero alone is singular
                x[...] = np.sort(x, axis=None).reshape(x.shape)
                x.flat[int(np.argmin(np.abs(x)))] = 0
        yield what, changed
    for sign, what in ((1, "all positive"), (-1, "all negative")):
        yield what, [(sign * np.abs(x)).astype(x.dtype) for x in xs]


def on_grid(spec: OpSpec, context: Context, sample: Sample) -> int:
    """How many partials were compared on a grid, and second ones; for three arguments and more,
    second ones only at the full level."""
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    values = _VALUES if len(places) > 2 else (*_VALUES, *_FAR)  # there are many combinations
    values = _CLOSE if len(places) == 1 else values
    special = _WHOLE if len(places) > 2 else _POWERS
    rows = [
        [s * (v + _APART * k) for v in values for s in (1, -1)] + list(special)
        for k in range(len(places))
    ]
    grid = [x.reshape(-1) for x in np.meshgrid(*rows, indexing="ij")]
    args = list(sample.args)
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = grid[places.index(i)] if i in places else np.resize(x, grid[0].size)
    positions = differentiated(spec, tuple(args))
    function = Function(spec.call, args, sample.params, positions, argument_names(spec))
    count = partials(function)
    for i in range(len(function.xs)) if context.full or len(places) < 3 else ():
        count += partials(Partial(function, i))
    return count


class Partial(Function):
    """The partial of a row of the table by its i-th differentiated argument, as a function.

    NaN where the row has no finite value: there its rule may return anything.
    """

    def __init__(self, first: Function, i: int):
        super().__init__(first.fn, first.args, first.params, first.positions, first.names)
        self.first, self.i = first, i

    def value(self, xs: Sequence[Any]) -> Arrays:
        leaves, ys = self.first.record(xs)
        g = pulled_back([leaves[self.i]], ys, [np.ones_like(as_array(y)) for y in ys])[0]
        return [np.where(np.isfinite(as_array(ys[0])), g, np.nan)]

    def vjp(self, xs: Sequence[Any], vs: Sequence[Any]) -> Arrays:
        """By this partial alone: 0 for the others would be 0 · ∞ where one of them is singular."""
        leaves, gs = Pullback(self.first).record([*xs, np.ones_like(vs[0])])
        return pulled_back(leaves[: len(xs)], [gs[self.i]], vs)


def partials(function: Function) -> int:
    """How many partials at function.xs were compared."""
    y = function.value(function.xs)[0]
    gradients = function.vjp(function.xs, [np.ones_like(y)])
    stencils = [stencil(function, i) for i in range(len(gradients))]
    inside = np.all([np.isfinite(y) for at in stencils for y in at.values()], axis=0)
    slopes = [Slopes(at, x) for at, x in zip(stencils, function.xs, strict=True)]
    if isinstance(function, Partial):  # a kink along another argument is one of the second partial
        inside &= np.all([slope.clear for slope in slopes], axis=0)
        sizes = np.abs(
            function.first.value(function.xs)[0]
        )  # terms that its rule takes from the value
        for slope, g in zip(slopes, gradients, strict=True):
            slope.rounding += 4 * ROUNDING * sizes
            slope.clear &= inside
            # a quantile rounded to the end of its support, where the density is infinite
            slope.clear &= ~(np.isnan(g) & (slope.fine == 0))
    return sum(
        partial(function, i, slope, g, inside)
        for i, (slope, g) in enumerate(zip(slopes, gradients, strict=True))
    )


def partial(function: Function, i: int, slope: Slopes, g: np.ndarray, inside: np.ndarray) -> int:
    """The partial by argument i against its slope, point by point; returns the number of
    comparisons.

    Where some argument cannot move, it may be NaN: a power of a negative base by its exponent.
    """
    fine, clear = slope.fine, slope.clear & (inside | ~np.isnan(g))
    wrong = clear & ~(np.abs(g - fine) <= RTOL * np.abs(fine) + slope.noise + slope.rounding)
    if wrong.any():
        k, position = int(np.argmax(wrong)), function.positions[i]
        point = [float(x[k]) for x in function.args if is_smooth_array(x)]
        what = "derivative"
        if isinstance(function, Partial):
            what = f"second derivative by {function.names[function.positions[function.i]]} and"
        raise GradcheckError(
            f"the {what} by argument {position} ({function.names[position]}) at {point} is "
            f"{g[k]!r}, by finite differences {fine[k]!r} ({int(wrong.sum())} of "
            f"{int(clear.sum())} points)"
        )
    return int(clear.sum())
