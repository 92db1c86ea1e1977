"""K6: the memory layout of the inputs does not matter."""

from typing import Any

import numpy as np

from ..case import Case, differentiated
from ..function import Function, as_array, as_tensors, is_smooth_array, pulled_back
from ..layouts import layouts
from ..numeric import normal
from .base import check
from .nearness import require_near, require_same_bits
from .pushed import has_jvp_rule


@check("K6", "the inputs' memory layout does not matter", per="every", gradient=False)
def k6(case: Case) -> int:
    """Values and gradients for Fortran, sliced, reversed and read-only inputs, one at a time.

    In every dtype; index arrays, masks and integers are laid out otherwise as well.
    """
    args = case.sample.args
    expected = all_of(case, args)
    results = [np.size(y) for y in case.call(*as_tensors(args))]
    sizes = [max(results), *[np.size(x) for x in args]]
    count = 0
    for i, x in enumerate(args):
        for name, other in layouts(x) if isinstance(x, np.ndarray) else ():
            found = all_of(case, (*args[:i], other, *args[i + 1 :]))
            for k, (a, b) in enumerate(zip(expected, found, strict=True)):
                what = f"result or gradient {k}, argument {i} {name}"
                if is_smooth_array(a):
                    require_near(case.spec, a, b, what, sizes)
                else:
                    require_same_bits(a, b, what)
                count += 1
    return count


def all_of(case: Case, args: tuple) -> list[Any]:
    """Every result of the op, then every gradient for a fixed cotangent; tangents of a jvp rule."""
    function = Function(case.spec.call, args, case.sample.params, differentiated(case.spec, args))
    if not function.xs:
        return [as_array(y) for y in case.call(*as_tensors(args))]
    given, leaves = list(args), function.leaves(function.xs)
    for position, leaf in zip(function.positions, leaves, strict=True):
        given[position] = leaf
    ys = case.call(*given)
    smooth = [y for y in ys if is_smooth_array(y)]
    gradients = pulled_back(leaves, smooth, normal(case.rng("K6"), smooth))
    found = [*map(as_array, ys), *gradients]
    if has_jvp_rule(case.spec) and smooth:
        found += function.jvp(function.xs, normal(case.rng("K6", "jvp"), function.xs))
    return found
