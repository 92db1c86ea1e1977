"""A part of K12: if a NaN makes a result NaN, that result has a derivative by it, or NaN.

A derivative of 0 would say that the result does not depend on it. So a maximum that is NaN has a
derivative by its NaN, even with further NaNs.
"""

import numpy as np

from ..case import Context, function_of
from ..errors import GradcheckError
from ..function import Arrays, Function
from ..numeric import normal
from ..spec import OpSpec, Sample

_SAMPLES = 3  # of an op, at the fast level


def nan_shows(spec: OpSpec, context: Context) -> int:
    """How many NaNs reached a result, put into two elements of each argument of some samples.

    Arguments by which a result has no derivative other than 0, as sign's, are skipped.
    """
    count = 0
    if spec.nan_hidden:
        context.notes.add((spec.name, "K12", f"NaN hidden: {spec.nan_hidden}"))
        return 0
    for dtype in spec.dtypes[:1]:
        samples = context.samples(spec, dtype)
        for sample in samples if context.full else samples[:_SAMPLES]:
            function = function_of(spec, sample.args, sample.params)
            ys = function.value_or_refusal(function.xs)
            rng = context.rng(spec.name, "K12", "a NaN shows", sample.name)
            for which in range(len(ys or ())):
                assert ys is not None
                vs = [normal(rng, [y])[0] if k == which else 0 * y for k, y in enumerate(ys)]
                for i, g in enumerate(function.vjp(function.xs, vs)):
                    if g.any():
                        count += _shows(sample, function, i, which, ys, vs)
    return count


def _shows(
    sample: Sample, function: Function, i: int, which: int, before: Arrays, weights: Arrays
) -> int:
    xs, count = function.xs, 0
    for k in {xs[i].size // 3, xs[i].size - 1}:
        changed = xs[i].copy()
        changed.reshape(-1)[k] = np.nan
        given = [changed if j == i else x for j, x in enumerate(xs)]
        ys = function.value_or_refusal(given)
        if not ys or [y.shape for y in ys] != [y.shape for y in before]:
            continue
        shown = np.isnan(ys[which]) & ~np.isnan(before[which])
        if not shown.any():
            continue
        count += 1
        vs = [np.where(shown, v, 0) if j == which else v for j, v in enumerate(weights)]
        g = function.vjp(given, vs)[i].reshape(-1)[k]
        if g == 0:
            where = [int(n) for n in np.unravel_index(k, changed.shape)]
            raise GradcheckError(
                f"{sample.name}: a NaN at {where} of argument "
                f"{function.names[function.positions[i]]} makes {int(shown.sum())} elements of the "
                "result NaN. Their derivative by it is 0, as if they did not depend on it"
            )
    return count
