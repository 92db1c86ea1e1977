"""K19: tied arguments: the gradient of f(x, x) is the sum of the separate ones."""

import numpy as np

from ..case import Case
from ..conduct import tied_gradients, tied_pairs
from ..errors import DoesNotApply, GradcheckError
from ..numeric import normal
from .base import check


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
        count += 1
    if not count:
        raise DoesNotApply("no two differentiable arguments can be the same tensor")
    return count
