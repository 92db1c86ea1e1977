"""K27: the derivative is right at small and large arguments of either sign too."""

from collections.abc import Iterator

import numpy as np

from ..case import Context, differentiated, is_elementwise
from ..compare import RTOL, check_direction, random_pair
from ..errors import DoesNotApply, GradcheckError, Inconclusive
from ..function import Function, is_smooth_array
from ..numeric import ROUNDING, STEP, normal
from ..spec import OpSpec, Sample
from .base import check
from .nearness import moves_values

_VALUES = (0.03, 0.2, 0.45, 0.8, 1.3, 2.4, 4.6)
_WHOLE = (1.0, 2.0, 3.0)  # as powers, of a negative base too
_APART = 0.017  # what tells two arguments' values from one another: ties are kinks
_FACTORS = (-1.0, 3.0, 0.2)
_NUDGE = 0.01
_CLEAR = 1e-5  # noise above this share of a slope decides nothing
_SIDES = 1e-2  # nor do slopes from left and right that differ by more


@check("K27", "small and large arguments, of either sign", per="op", optional=True)
def k27(spec: OpSpec, context: Context) -> int:
    """Elementwise: each partial at each point of a grid of all combinations.

    Else: the first sample (at the full level all) times −1, 3 and 0.2, all arguments and each
    alone. Points outside of the domain, at kinks and at steps are passed over: finite differences
    decide nothing there.
    """
    samples = [s for dtype in spec.dtypes[:1] for s in context.samples(spec, dtype)]
    if moves_values(spec):
        raise DoesNotApply("it moves values about, whatever they are")
    if is_elementwise(spec):
        first = {repr(sample.params): sample for sample in reversed(samples)}
        count = sum(on_grid(spec, sample) for sample in first.values())
    else:
        count = sum(
            multiplied(spec, context, s) for s in (samples if context.full else samples[:1])
        )
    if not count:
        raise DoesNotApply("finite differences decide nothing there")
    return count


def multiplied(spec: OpSpec, context: Context, sample: Sample) -> int:
    """How many multiples of the sample's arguments have a gradient that could be compared."""
    function = Function(spec.call, sample.args, sample.params, differentiated(spec, sample.args))
    rng, count = context.rng(spec.name, "K27", sample.name), 0
    for factors in _choices(len(function.xs)):
        # not exactly three times: means, norms and ratios must not cancel to the same numbers
        xs = [
            (x * factor * (1 + _NUDGE * abs(u))).astype(x.dtype)
            for x, factor, u in zip(function.xs, factors, normal(rng, function.xs), strict=True)
        ]
        try:
            us, vs = random_pair(function, xs, rng)
            if us and vs:
                check_direction(function, xs, us, vs, f"{sample.name} times {factors}")
                count += 1
        except GradcheckError as error:
            if not isinstance(error, Inconclusive):
                raise
        except Exception:
            continue  # values that the op refuses
    return count


def _choices(n: int) -> Iterator[tuple[float, ...]]:
    """A factor for each of n arguments: the same for all, and for one alone."""
    for factor in _FACTORS:
        yield (factor,) * n
        if n > 1:
            yield from (tuple(factor if i == k else 1.0 for i in range(n)) for k in range(n))


def on_grid(spec: OpSpec, sample: Sample) -> int:
    """How many partials at the points of a grid were compared."""
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    rows = [
        [s * (v + _APART * k) for v in _VALUES for s in (1, -1)] + list(_WHOLE)
        for k in range(len(places))
    ]
    grid = [x.reshape(-1) for x in np.meshgrid(*rows, indexing="ij")]
    args = list(sample.args)
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = grid[places.index(i)] if i in places else np.resize(x, grid[0].size)
    function = Function(spec.call, args, sample.params, differentiated(spec, tuple(args)))
    y = function.value(function.xs)[0]
    gradients = function.vjp(function.xs, [np.ones_like(y)])
    return sum(partial(function, i, g) for i, g in enumerate(gradients))


def partial(function: Function, i: int, g: np.ndarray) -> int:
    """The partial by argument i against its slope, point by point; how many were compared."""
    xs, h = function.xs, STEP / 4
    at = {
        k: function.value([*xs[:i], xs[i] + k * h, *xs[i + 1 :]])[0]
        for k in (0, 1, -1, 2, -2, 4, -4)
    }
    odd = {k: at[k] - at[-k] for k in (1, 2, 4)}
    fine, coarse = (8 * odd[1] - odd[2]) / (12 * h), (8 * odd[2] - odd[4]) / (24 * h)
    right, left = (s * (-3 * at[0] + 4 * at[s] - at[2 * s]) / (2 * h) for s in (1, -1))
    size = np.max([np.abs(y) for y in at.values()], axis=0)
    rounding = 4 * ROUNDING * (size + np.abs(xs[i] * fine))
    noise = 10 * np.abs(fine - coarse)
    clear = np.isfinite(size) & (noise <= _CLEAR * np.abs(fine) + rounding)
    clear &= np.abs(right - left) <= _SIDES * np.abs(fine) + rounding
    wrong = clear & ~(np.abs(g - fine) <= RTOL * np.abs(fine) + noise + rounding)
    if wrong.any():
        k, position = int(np.argmax(wrong)), function.positions[i]
        point = [float(x[k]) for x in function.args if is_smooth_array(x)]
        raise GradcheckError(
            f"the derivative by argument {position} ({function.names[position]}) at {point} is "
            f"{g[k]!r}, by finite differences {fine[k]!r} ({int(wrong.sum())} of "
            f"{int(clear.sum())} points)"
        )
    return int(clear.sum())
