"""K19: tied arguments: the gradient of f(x, x) is the sum of the separate ones."""

import numpy as np

from ..case import Case
from ..conduct import tied_gradients, tied_pairs
from ..errors import DoesNotApply, GradcheckError
from ..numeric import normal
from .base import check


@check("K19", "tied arguments: the gradient of f(x, x) is the sum of both", optional=True)
def k19(case: Case) -> int:
    function = case.function()
    pairs = tied_pairs(function)
    if not pairs:
        raise DoesNotApply("no two differentiable arguments of the same shape")
    for i, j in pairs:
        rng = case.rng("K19", i, j)
        tied, one, other = tied_gradients(function, i, j, lambda ys, rng=rng: normal(rng, ys))
        if not (np.abs(tied - one - other) <= 1e-14 * (np.abs(one) + np.abs(other))).all():
            raise GradcheckError(
                f"the gradient of f with arguments {i} and {j} the same tensor is not the sum of "
                "the gradients of the two"
            )
    return len(pairs)
