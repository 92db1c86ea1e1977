"""K19: tied arguments: the gradient of f(x, x) is the sum of the separate ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor_api.tensor import Tensor
from ..case import Case
from ..conduct import some_arguments, tied_gradients, ties
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, as_array, find_jvp
from ..numeric import normal
from .base import check
from .nearness import agree
from .pushed import has_jvp_rule


@check("K19", "tied arguments: the gradient of f(x, x) is the sum of both; shared memory is no tie",
       optional=True)  # fmt: skip
def k19(case: Case) -> int:
    function, count = case.function(), 0
    for tied in ties(function):
        rng = case.rng("K19", *tied)
        found = tied_gradients(function, tied, lambda ys, rng=rng: normal(rng, ys))
        if found is None:
            continue
        g, separate = found
        # one may be a sum that cancelled, as 1 − t/x of poisson_nll: the cotangents are about 1
        terms = sum(map(np.abs, separate)) + 0.1
        if not (np.abs(g - sum(separate)) <= 1e-14 * terms).all():
            raise GradcheckError(
                f"the gradient of f with arguments {_listed(tied)} the same tensor is not the sum "
                "of the separate gradients"
            )
        in_shared_memory(case, function, tied)
        in_forward_mode(case, function, tied)
        count += 1
    if not count:
        raise DoesNotApply("no two differentiable arguments can be the same tensor")
    return count


def _listed(places: Sequence[int]) -> str:
    return " and ".join(map(str, places))


def in_shared_memory(case: Case, function: Function, places: Sequence[int]) -> None:
    """Separate tensors over one array, as x and x.detach() are: each keeps its own gradient,
    whether all are wanted or one alone."""
    x = function.xs[places[0]]
    apart = _at(function, [x.copy() if k in places else z for k, z in enumerate(function.xs)])
    shared = _at(function, [x if k in places else z for k, z in enumerate(function.xs)])
    vs = normal(case.rng("K19", *places, "shared"), function.value(apart.xs))
    for wanted in ([*range(len(apart.xs))], *[[k] for k in places]):
        pairs = zip(some_arguments(shared, vs, wanted), some_arguments(apart, vs, wanted))
        for k, (found, expected) in zip(wanted, pairs, strict=True):
            what = f"where arguments {_listed(places)} share memory, the gradient of argument {k}"
            agree(found, expected, what)


def _at(function: Function, xs: Sequence[np.ndarray]) -> Function:
    args = list(function.args)
    for position, x in zip(function.positions, xs, strict=True):
        args[position] = x
    return Function(function.fn, args, function.params, function.positions, function.names)


def in_forward_mode(case: Case, function: Function, places: Sequence[int]) -> None:
    """The same for a jvp rule: the arguments are one, and so are their tangents."""
    if not has_jvp_rule(case.spec):
        return
    us = normal(case.rng("K19", *places, "jvp"), function.xs)

    def as_one(arrays: Sequence[Any]) -> list:
        return [arrays[places[0]] if k in places else x for k, x in enumerate(arrays)]

    def call(*arrays: Any) -> tuple:
        return tuple(function.call(as_one(arrays)))

    xs, us = as_one(function.xs), as_one(us)

    _, tied = find_jvp()(call, tuple(map(Tensor, xs)), tuple(map(Tensor, us)))
    for k, (found, t) in enumerate(zip(tied, function.jvp(xs, us), strict=True)):
        what = f"where arguments {_listed(places)} are one tensor, tangent {k}"
        agree(as_array(found), t, what)
