"""K19: tied arguments: the gradient of f(x, x) is the sum of the separate ones."""

from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..case import Case
from ..conduct import tied_gradients, tied_pairs
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, as_array, find_jvp
from ..numeric import normal
from .base import check
from .nearness import agree
from .pushed import has_jvp_rule


@check("K19", "tied arguments: the gradient of f(x, x) is the sum of both", optional=True)
def k19(case: Case) -> int:
    function, count = case.function(), 0
    for i, j in tied_pairs(function):
        rng = case.rng("K19", i, j)
        found = tied_gradients(function, i, j, lambda ys, rng=rng: normal(rng, ys))
        if found is None:
            continue
        tied, one, other = found
        if not (np.abs(tied - one - other) <= 1e-14 * (np.abs(one) + np.abs(other))).all():
            raise GradcheckError(
                f"the gradient of f with arguments {i} and {j} the same tensor is not the sum of "
                "the gradients of the two"
            )
        in_forward_mode(case, function, i, j)
        count += 1
    if not count:
        raise DoesNotApply("no two differentiable arguments can be the same tensor")
    return count


def in_forward_mode(case: Case, function: Function, i: int, j: int) -> None:
    """The same of a jvp rule: both arguments are one, and so are their tangents."""
    if not has_jvp_rule(case.spec):
        return
    us = normal(case.rng("K19", i, j, "jvp"), function.xs)
    xs, us = ([a[i] if k == j else a[k] for k in range(len(a))] for a in (function.xs, us))

    def call(*arrays: Any) -> tuple:
        return tuple(function.call([arrays[i] if k == j else x for k, x in enumerate(arrays)]))

    _, tied = find_jvp()(call, tuple(map(Tensor, xs)), tuple(map(Tensor, us)))
    for k, (found, t) in enumerate(zip(tied, function.jvp(xs, us), strict=True)):
        agree(as_array(found), t, f"where arguments {i} and {j} are one tensor, tangent {k}")
