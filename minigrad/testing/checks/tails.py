"""K32: far out, where a derivative is small, it still has digits: relative to itself.

A rule that computes 1 − y² from y = tanh x has none left once y has rounded to 1. That is so in
float32 from x = 9 on and in float64 from 19 on, so no reference is needed but the rule itself:
between the two, the same rule in float64 says what the one in float32 should have said.
"""

from collections.abc import Callable

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
_FEW = (-14.6, -8.7, -3.4, -0.7, 0.7, 3.4, 8.7, 14.6, 1 - 2.0**-10)  # of three arguments and more
_FACTORS = (3.0, 6.0, 9.0, 13.0)
_OFF = 0.01  # of a derivative: none of its digits is right, or nearly none
_CONDITION = 1e-4  # what an ε of the arguments and of the cotangent may change
_SMALLEST, _LARGEST = 1e-30, 1e36  # of what float32 should have
_EPS = float(np.finfo(np.float32).eps)


@check("K32", "tails: derivatives far out, relative to themselves", per="op", optional=True)
def k32(spec: OpSpec, context: Context) -> int:
    if not {"float32", "float64"} <= {*spec.dtypes}:
        raise DoesNotApply("not in both float32 and float64")
    samples = context.samples(spec, "float32")
    if is_elementwise(spec):
        first = {repr(sample.params): sample for sample in reversed(samples)}
        count = sum(on_a_grid(spec, sample) for sample in first.values())
    else:
        count = sum(
            of_multiples(spec, context, s) for s in (samples if context.full else samples[:3])
        )
    if not count:
        raise DoesNotApply("no derivative there that is well conditioned")
    return count


def on_a_grid(spec: OpSpec, sample: Sample) -> int:
    args = list(sample.args)
    places = [i for i, x in enumerate(args) if is_smooth_array(x)]
    row = [s * v for v in (*_TAIL, *_FAR, *_NEAR_ONE) for s in (1, -1)]
    row = np.array(row if len(places) < 3 else _FEW, np.float32)
    grid = [x.reshape(-1) for x in np.meshgrid(*[row] * len(places), indexing="ij")]
    for i, x in enumerate(args):
        if isinstance(x, np.ndarray):
            args[i] = grid[places.index(i)] if i in places else np.resize(x, grid[0].size)
    positions, names = differentiated(spec, tuple(args)), argument_names(spec)
    narrow = Function(spec.call, args, sample.params, positions, names)
    wide = Function(spec.call, [widened(x) for x in args], sample.params, positions, names)
    if (ys := narrow.value_or_refusal(narrow.xs)) is None or not ys:
        return 0
    rng = np.random.default_rng(0)
    finite = np.isfinite(wide.value(wide.xs)[0])
    one = [np.ones_like(ys[0])]
    count = _compare(narrow, wide, lambda f: f.vjp, narrow.xs, one, "the derivative", rng, finite)
    for i in range(len(positions) if len(places) < 3 else 0):
        first, exact = Partial(narrow, i), Partial(wide, i)
        what = f"the derivative by {narrow.names[positions[i]]}, differentiated,"
        count += _compare(first, exact, lambda f: f.vjp, narrow.xs, one, what, rng, finite)
    return count


def of_multiples(spec: OpSpec, context: Context, sample: Sample) -> int:
    count = 0
    for factor in _FACTORS:
        rng = context.rng(spec.name, "K32", sample.name, factor)
        args = [
            x * np.float32(factor) if is_smooth_array(x) and x.dtype == np.float32 else x
            for x in sample.args
        ]
        narrow = function_of(spec, args, sample.params)
        wide = Function(
            spec.call, [widened(x) for x in args], sample.params, narrow.positions, narrow.names
        )
        ys = narrow.value_or_refusal(narrow.xs)
        if not ys or not narrow.xs or not all(np.isfinite(y).all() for y in ys):
            continue
        vs = normal(rng, ys)
        what = f"{sample.name} times {factor}: "
        count += _compare(narrow, wide, lambda f: f.vjp, narrow.xs, vs, what + "the gradient", rng)
        us = normal(rng, narrow.xs)
        count += _compare(narrow, wide, lambda f: f.jvp, narrow.xs, us, what + "forward mode", rng)
        point, ws = [*narrow.xs, *vs], normal(rng, narrow.xs)
        count += _compare(
            Pullback(narrow),
            Pullback(wide),
            lambda f: f.vjp,
            point,
            ws,
            what + "the second derivative",
            rng,
        )
    return count


def _compare(narrow, wide, rule, xs, vs, what, rng, judged=True) -> int:
    found = rule(narrow)(xs, vs)

    def exact_at(shift):
        moved = [widened(x) * (1 + shift * rng.uniform(-1, 1, x.shape)) for x in xs]
        return rule(wide)(
            moved, [widened(v) * (1 + shift * rng.uniform(-1, 1, v.shape)) for v in vs]
        )

    exact, *others = (exact_at(s) for s in (0.0, _EPS, _EPS, _EPS))
    count = 0
    for k, (g, d) in enumerate(zip(found, exact, strict=True)):
        if d.dtype.kind == "c":
            continue
        fine = judged & (np.abs(d) > _SMALLEST) & (np.abs(d) < _LARGEST)
        for other in others:
            fine = fine & (np.abs(other[k] - d) <= _CONDITION * np.abs(d))
        wrong = fine & ~(np.abs(g - d) <= _OFF * np.abs(d))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(np.atleast_1d(wrong))[0])[: d.ndim]
            point = [float(x[at]) for x in xs if x.shape == d.shape]
            raise GradcheckError(
                f"{what} [{k}] at {list(at)} {point} is {float(g[at])!r} in float32, {float(d[at])!r} in "
                f"double precision ({int(wrong.sum())} of {int(fine.sum())} are off)"
            )
        count += int(np.sum(fine))
    return count
