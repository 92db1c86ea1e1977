"""K6: the memory layout of the inputs does not matter."""

from typing import Any

import numpy as np

from ..case import Case, differentiated
from ..function import Function, as_array, as_tensors, is_smooth_array, pulled_back, replaced
from ..layouts import layouts, repeated
from ..numeric import normal
from .base import check
from .nearness import require_near, require_same_bits
from .pushed import has_jvp_rule


@check("K6", "the inputs' memory layout does not matter", per="every", gradient=False)
def k6(case: Case) -> int:
    """Values and gradients for Fortran, sliced, reversed and read-only inputs, one at a time.

    The check covers every dtype; index arrays, masks and integers also get other layouts. Repeated
    numbers (stride 0) are compared with their copy: in the first dtype on the first sample of each
    kind, at the full level everywhere.
    """
    args = case.sample.args
    expected = all_of(case, args)
    scale = _largest(expected)
    results = [np.size(y) for y in case.call(*as_tensors(args))]
    sizes = [max(results), *[np.size(x) for x in args]]
    count = 0
    for i, x in enumerate(args):
        for name, other in layouts(x) if isinstance(x, np.ndarray) else ():
            found = all_of(case, replaced(args, i, other))
            count += same(case, expected, found, f"argument {i} {name}", sizes, scale)
    if case.context.full or (case.dtype == case.spec.dtypes[0] and case.is_first_of_its_kind):
        for i, x in enumerate(args):
            if isinstance(x, np.ndarray):
                count += repeated_numbers(case, i, x, sizes)
    return count


def repeated_numbers(case: Case, i: int, x: np.ndarray, sizes: list[int]) -> int:
    """The same for argument i as one number or one row, which is in memory once; or refused."""
    count = 0
    for name, flat in [*repeated(x)][0 if case.context.full else -1 :]:
        try:
            case.call(*as_tensors(replaced(case.sample.args, i, flat.copy())))
        except Exception:
            continue  # outside of the op's domain, as a matrix of equal rows
        try:
            expected = all_of(case, replaced(case.sample.args, i, flat.copy()))
        except np.linalg.LinAlgError:
            continue  # some such arguments have a value and no derivative
        found = all_of(case, replaced(case.sample.args, i, flat))
        count += same(case, expected, found, f"argument {i} {name}", sizes, _largest(expected))
    return count


def _largest(arrays: dict[str, Any]) -> float:
    """The size of the terms of sums among the results and gradients: terms that cancel may leave 0
    except for rounding."""
    return float(max(np.max(np.abs(a[np.isfinite(a)]), initial=0.0) for a in arrays.values()))


def same(
    case: Case, expected: dict, found: dict, where: str, sizes: list[int], scale: float = 0.0
) -> int:
    """How many results and gradients there are, each as near to the expected one as K6 demands."""
    for (name, a), b in zip(expected.items(), found.values(), strict=True):
        what = f"{name}, {where}"
        if is_smooth_array(a):
            require_near(case.spec, a, b, what, sizes, scale)
        else:
            require_same_bits(a, b, what)
    return len(expected)


def all_of(case: Case, args: tuple) -> dict[str, Any]:
    """Every result of the op, every gradient for a fixed cotangent, tangents of a jvp rule, by
    name."""
    function = Function(case.spec.call, args, case.sample.params, differentiated(case.spec, args))
    if not function.xs:
        ys = case.call(*as_tensors(args))
        return {f"result {i}": as_array(y) for i, y in enumerate(ys)}
    given, leaves = list(args), function.leaves(function.xs)
    for position, leaf in zip(function.positions, leaves, strict=True):
        given[position] = leaf
    ys = case.call(*given)
    smooth = [y for y in ys if is_smooth_array(y)]
    gradients = pulled_back(leaves, smooth, normal(case.rng("K6"), smooth))
    found = {f"result {i}": as_array(y) for i, y in enumerate(ys)}
    for position, g in zip(function.positions, gradients, strict=True):
        found[f"the gradient of argument {position}"] = g
    if has_jvp_rule(case.spec) and smooth:
        tangents = function.jvp(function.xs, normal(case.rng("K6", "jvp"), function.xs))
        found |= {f"tangent {i} by forward mode": t for i, t in enumerate(tangents)}
    return found
