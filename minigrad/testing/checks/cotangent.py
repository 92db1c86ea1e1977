"""K4 and K5: a rule multiplies by the cotangent, and its result does not depend on its memory."""

from collections.abc import Callable

import numpy as np

from ..case import Case
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, pulled_back
from ..layouts import layouts, repeated
from ..numeric import normal
from .base import check
from .nearness import require_near
from .pushed import require_linear_in_tangent


def recorded(case: Case) -> tuple[Function, list, list, list]:
    """(function, leaves, results, values) of one recorded call with a gradient."""
    function = case.function()
    leaves, ys = function.record(function.xs)
    if not leaves or not any(getattr(y, "requires_grad", False) for y in ys):
        raise DoesNotApply("a sample without a gradient")
    return function, leaves, ys, [y.data if hasattr(y, "node") else y for y in ys]


@check("K4", "linear in the cotangent and the tangent; a zero cotangent gives exact zeros")
def k4(case: Case) -> int:
    """vjp(a v + b w) = a vjp(v) + b vjp(w) with a < 0, to rounding.

    Besides a random w there are large and small ones alone (a = 0). All ones are the cotangent of a
    sum, and all another number that of a mean. |v| and −|v| have one sign alone.
    """
    function, leaves, ys, values = recorded(case)
    vs, ws = normal(case.rng("K4", "v"), values), normal(case.rng("K4", "w"), values)
    ones = [np.ones_like(v) for v in values]
    to_one_sign = [(np.abs(v) - v).astype(v.dtype) for v in vs]

    def pull(cotangents: list) -> list:
        return pulled_back(leaves, ys, cotangents, retain_graph=True)

    of_v, of_w, of_ones, of_change = pull(vs), pull(ws), pull(ones), pull(to_one_sign)
    for a, b, others, pulled in (
        (-1.75, 0.625, ws, of_w),
        (-1.75, 1, ones, of_ones),
        (0, 0.375, ones, of_ones),
        (1, 1, to_one_sign, of_change),
        (-1, -1, to_one_sign, of_change),
        (0, 2.0**100, ws, of_w),
        (0, 2.0**-100, ws, of_w),
    ):
        left = pull([a * v + b * w for v, w in zip(vs, others, strict=True)])
        for i, (both, one, other) in enumerate(zip(left, of_v, pulled, strict=True)):
            one, other = a * one, b * other
            terms = np.abs(one) + np.abs(other)
            largest = max(np.max(terms, initial=0.0), b * np.max(np.abs(of_v[i]), initial=0.0))
            slack = 1e-12 * (terms + largest)  # the terms of equal cotangents may cancel
            if not (np.abs(both - (one + other)) <= slack).all():
                k = int(np.argmax(np.abs(both - (one + other)) - slack))
                raise GradcheckError(
                    f"the gradient of argument {i} is not linear in the cotangent: for "
                    f"{a:g} v + {b:g} w it is {both.flat[k]!r}. The sum for v and w alone is "
                    f"{(one + other).flat[k]!r}"
                )
    for i, g in enumerate(pull([np.zeros_like(v) for v in values])):
        if g.any():  # NaN counts as true
            raise GradcheckError(f"a zero cotangent gives {g[g != 0][0]!r} for argument {i}")
    for value in (np.nan, np.inf):
        not_swallowed(value, lambda value=value: pull([v * value for v in ones]), of_v)
    require_linear_in_tangent(case.spec, function, normal(case.rng("K4", "u"), function.xs))
    return 2 * len(of_v)


def not_swallowed(value: float, pull: Callable[[], list], of_v: list) -> None:
    """NaN in a cotangent must reach each gradient that depends on it; an error also reports it."""
    try:
        found = pull()
    except np.linalg.LinAlgError:
        return
    for i, (g, one) in enumerate(zip(found, of_v, strict=True)):
        has_a_say = np.abs(one) > 1e-12 * np.max(np.abs(one), initial=0.0)
        if (np.isfinite(g) & has_a_say).any():
            raise GradcheckError(
                f"a cotangent of {value} gives a finite gradient of argument {i}: a loss that is "
                "no number would go unnoticed"
            )


@check("K5", "the cotangent's memory layout does not matter")
def k5(case: Case) -> int:
    """C order against every other layout, and repeated numbers against their copy.

    Where a gradient is a sum of cotangents they may cancel. Then the cotangents' absolute values
    give the size of the terms (for a bias: all of one sign).
    """
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K5"), values)
    sizes = [max(y.size for y in values), *[np.size(x) for x in case.sample.args]]
    of_sizes = pulled_back(leaves, ys, [np.abs(v) for v in vs], retain_graph=True)
    scales = [float(np.max(np.abs(g[np.isfinite(g)]), initial=0.0)) for g in of_sizes]
    pairs = []
    for i, v in enumerate(vs):
        pairs += [(name, [*vs[:i], other, *vs[i + 1 :]], vs) for name, other in layouts(v)]
        for name, flat in repeated(v):
            plain = [*vs[:i], flat.copy(), *vs[i + 1 :]]
            pairs.append((name, [*vs[:i], flat, *vs[i + 1 :]], plain))
    for name, cotangents, plain in pairs:
        found = pulled_back(leaves, ys, cotangents, retain_graph=True)
        expected = pulled_back(leaves, ys, plain, retain_graph=True)
        for i, (a, b, scale) in enumerate(zip(expected, found, scales, strict=True)):
            what = f"gradient of argument {i}, cotangent {name}"
            require_near(case.spec, a, b, what, sizes, scale)
    return len(pairs)
