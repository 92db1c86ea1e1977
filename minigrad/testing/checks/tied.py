"""K19: tied arguments: the gradient of f(x, x) is the sum of the separate ones."""

from itertools import combinations

import numpy as np

from ...core.tensor import Tensor
from ..case import Case
from ..errors import DoesNotApply, GradcheckError
from ..function import pulled_back
from ..numeric import normal
from .base import check


@check("K19", "tied arguments: the gradient of f(x, x) is the sum of both", optional=True)
def k19(case: Case) -> int:
    function = case.function()
    xs = function.xs
    pairs = [(i, j) for i, j in combinations(range(len(xs)), 2) if _alike(xs[i], xs[j])]
    if not pairs:
        raise DoesNotApply("no two differentiable arguments of the same shape")
    for i, j in pairs:
        values = [xs[i].copy() if k == j else x for k, x in enumerate(xs)]
        vs = normal(case.rng("K19", i, j), function.value(values))
        separate = function.vjp(values, vs)
        leaves = [Tensor(x, requires_grad=True) for x in values]
        leaves[j] = leaves[i]
        ys = function.call(leaves)
        tied = pulled_back([leaves[i]], ys, vs)[0]
        terms = np.abs(separate[i]) + np.abs(separate[j])
        if not (np.abs(tied - separate[i] - separate[j]) <= 1e-14 * terms).all():
            raise GradcheckError(
                f"the gradient of f with arguments {i} and {j} the same tensor is not the sum of "
                "the gradients of the two"
            )
    return len(pairs)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype
