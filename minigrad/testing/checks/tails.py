"""K32: far out, where a derivative is small, it still has digits: relative to itself.

A rule that computes 1 − y² from y = tanh x has no digits left once y has rounded to 1. That happens
in float32 from x = 9 on and in float64 from 19 on. So no other reference is needed: between the
two, the rule in float64 gives the right result for the rule in float32.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Context, argument_names, differentiated, function_of, is_elementwise
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, Pullback, is_smooth_array
from ..numeric import normal
from ..spec import OpSpec, Sample
from .base import check
from .forward import widened
from .ranges import Partial

# exponentials of these lie between the ε of float32 and that of float64
_TAIL = (0.7, 2.3, 3.4, 4.6, 5.8, 7.3, 8.7, 10.2, 12.1, 14.6)
_FAR = (37.0, 210.0, 3.1e3, 4.7e4)
_NEAR_ONE = (1 - 2.0**-5, 1 - 2.0**-10, 1 - 2.0**-15, 1 + 2.0**-12)
_FEW = (0.7, 3.4, 8.7, 14.6, 1 - 2.0**-10)  # for three arguments and more, with many combinations
_FACTORS = (3.0, 6.0, 9.0, 13.0)  # for samples of other ops
_SAMPLES = 3  # at the fast level
_OFF = 0.01  # of a derivative: gross errors alone, that is fewer than two digits
_CONDITION = 1e-4  # of it: the tolerated change by rounding the arguments and the cotangent
_SMALLEST, _LARGEST = 1e-30, 1e36  # within the range of float32
_NOISE = 1e-12  # of the cotangent: less may be float64's own rounding in an op's sum
_EPS = float(np.finfo(np.float32).eps)


@check("K32", "tails: derivatives far out, relative to themselves", per="op", optional=True)
def k32(spec: OpSpec, context: Context) -> int:
    """The rule in float32 against that in float64, wherever the latter is well conditioned.

    Elementwise ops: each partial on a grid of numbers near and far, all combinations. Each second
    one is added unless the spec gives a reason against it. Others: samples times 3 to 13, by
    reverse and by forward mode, and the gradient of the gradient. The check judges entries that
    hardly change when arguments and cotangent change by an ε of float32. Other entries need no
    right digit.
    """
    if not {"float32", "float64"} <= {*spec.dtypes}:
        raise DoesNotApply("not in both float32 and float64")
    samples = context.samples(spec, "float32")
    if spec.tails:
        context.notes.add((spec.name, "K32", f"first derivatives alone: {spec.tails}"))
    for what, reason in spec.tails_but.items():
        context.notes.add((spec.name, "K32", f"not of {what}: {reason}"))
    if is_elementwise(spec):
        first = {repr(sample.params): sample for sample in reversed(samples)}
        count = sum(_on_a_grid(spec, context, sample) for sample in first.values())
    else:
        chosen = samples if context.full else samples[:_SAMPLES]
        count = sum(_of_multiples(spec, context, sample) for sample in chosen)
    if not count:
        raise DoesNotApply("no derivative there is well conditioned")
    return count


def _on_a_grid(spec: OpSpec, context: Context, sample: Sample) -> int:
    args = list(sample.args)
    places = [i for i, x in enumerate(args) if is_smooth_array(x)]
    values = (*_TAIL, *_FAR, *_NEAR_ONE) if len(places) < 3 else _FEW
    row = np.array([sign * v for v in values for sign in (1, -1)], np.float32)
    grid = [x.reshape(-1) for x in np.meshgrid(*[row] * len(places), indexing="ij")]
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = grid[places.index(i)] if i in places else np.resize(x, grid[0].size)
    positions, names = differentiated(spec, tuple(args)), argument_names(spec)
    narrow = Function(spec.call, args, sample.params, positions, names)
    wide = Function(spec.call, [widened(x) for x in args], sample.params, positions, names)
    if not (ys := narrow.value_or_refusal(narrow.xs)):
        return 0
    rng = context.rng(spec.name, "K32", sample.name)
    finite = np.isfinite(wide.value(wide.xs)[0])
    xs, ones = narrow.xs, [np.ones_like(ys[0])]
    count = _compare("derivative", narrow.vjp, wide.vjp, xs, ones, rng, finite)
    for i in range(0 if spec.tails or len(places) > 2 else len(positions)):
        what = f"derivative by {names[positions[i]]}, and then"
        both = Partial(narrow, i).vjp, Partial(wide, i).vjp
        count += _compare(what, *both, xs, ones, rng, finite)
    return count


def _of_multiples(spec: OpSpec, context: Context, sample: Sample) -> int:
    count = 0
    for factor in _FACTORS:
        rng = context.rng(spec.name, "K32", sample.name, factor)
        args = [
            x * np.float32(factor) if is_smooth_array(x) and x.dtype == np.float32 else x
            for x in sample.args
        ]
        narrow = function_of(spec, args, sample.params)
        wide = function_of(spec, [widened(x) for x in args], sample.params)
        ys, xs = narrow.value_or_refusal(narrow.xs), narrow.xs
        if not ys or not xs or not all(np.isfinite(y).all() for y in ys):
            continue
        vs, us, ws = normal(rng, ys), normal(rng, xs), normal(rng, xs)
        what, but = f"{sample.name} times {factor:g}: the", (*spec.tails_but,)
        count += _compare(f"{what} gradient", narrow.vjp, wide.vjp, xs, vs, rng, but=but)
        count += _compare(f"{what} tangent", narrow.jvp, wide.jvp, xs, us, rng, but=but)
        if not spec.tails:
            both = Pullback(narrow).vjp, Pullback(wide).vjp
            count += _compare(f"{what} second derivative", *both, [*xs, *vs], ws, rng, but=but)
    return count


def _compare(
    what: str,
    narrow: Callable,
    wide: Callable,
    xs: Arrays,
    vs: Arrays,
    rng: np.random.Generator,
    elementwise: Any = None,
    but: tuple[str, ...] = (),
) -> int:
    """How many entries of a derivative in float32 were compared with those in float64.

    elementwise  where entries of an elementwise op are judged; no other entry's rounding is in them
    but          parts of the names of derivatives that are left out
    """
    found = narrow(xs, vs)

    def exact(shift: float) -> Arrays:
        def near(x: Any) -> Any:
            return widened(x) * (1 + shift * rng.uniform(-1, 1, x.shape))

        return wide([near(x) for x in xs], [near(v) for v in vs])

    right, *others = [exact(shift) for shift in (0.0, _EPS, _EPS, _EPS)]
    least, count = _SMALLEST, 0
    if elementwise is None:
        least = _NOISE * max([float(np.max(np.abs(v), initial=0.0)) for v in vs])
    for k, (g, d) in enumerate(zip(found, right, strict=True)):
        if any(text in f"{what} by argument {k}" for text in but):
            continue
        size = np.abs(d)
        judged = (size > least) & (size < _LARGEST) & (True if elementwise is None else elementwise)
        for other in others:
            judged &= np.abs(other[k] - d) <= _CONDITION * size
        wrong = np.atleast_1d(judged & ~(np.abs(g - d) <= _OFF * size))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])[: d.ndim]
            where = [float(x[at]) for x in xs if elementwise is not None]
            raise GradcheckError(
                f"{what} by argument {k} at {where or list(at)} is {g[at]!r} in float32, {d[at]!r} "
                f"in double precision: it has lost its digits, as a difference of "
                f"nearly equal numbers does ({int(wrong.sum())} of {int(np.sum(judged))})"
            )
        count += int(np.sum(judged))
    return count
