"""K23: under vmap an op gives what it gives one example at a time, in value and gradient."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import TransformError
from ...core.tensor import Tensor
from ..case import Case, primitive_of
from ..errors import DoesNotApply, GradcheckError
from ..function import Arrays, Function, as_array
from ..numeric import normal
from .base import check

_STEP = 0.01  # how far the second example lies from the first: inside the same domain
_AGREE = 1e-10  # relative to the largest entry: sums of a batch may add in another order


@check("K23", "under vmap: one example at a time, value and gradient", optional=True)
def k23(case: Case) -> int:
    """Two examples: with every argument batched, at the full level also with each one alone."""
    function, rng = case.function(), case.rng("K23")
    xs = function.xs
    if not xs or not function.value(xs):
        raise DoesNotApply("a sample without a differentiable argument and result")
    entry = primitive_of(case.spec)
    if "generator" in case.sample.params or (entry is not None and "generator" in entry.defaults):
        raise DoesNotApply("random numbers, for which vmap has policies of its own")
    us = normal(rng, xs)
    vs = normal(rng, function.value(xs))
    choices = [(0,) * len(xs)]
    if case.context.full and len(xs) > 1:
        choices += [tuple(0 if i == k else None for i in range(len(xs))) for k in range(len(xs))]
    for in_dims in choices:
        moved = [x if axis is None else x + _STEP * u for x, u, axis in zip(xs, us, in_dims)]
        _as_one_by_one(function, (xs, moved), in_dims, vs)
    return len(choices)


def _as_one_by_one(
    function: Function, examples: Sequence[Arrays], in_dims: tuple, vs: Arrays
) -> None:
    """Value and gradient of the batch against those of its examples."""
    try:
        expected = [(function.value(xs), function.vjp(xs, vs)) for xs in examples]
    except Exception as error:
        raise DoesNotApply(f"the second example is outside the op's domain ({error})") from error
    if any(y.shape != v.shape for values, _ in expected for y, v in zip(values, vs, strict=True)):
        raise DoesNotApply("the shape of the result depends on values")
    first, second = examples
    batch = [
        Tensor(a if axis is None else np.stack([a, b]))
        for a, b, axis in zip(first, second, in_dims, strict=True)
    ]
    values, gradients, alone = _under_vmap(function, batch, in_dims, vs)
    for k, (ys, gs) in enumerate(expected):
        for i, y in enumerate(ys):
            for found in (values, alone):
                _agree(found[i][k], y, f"result {i} of example {k} with in_dims={in_dims}")
        for i, g in enumerate(gs):
            name = function.names[function.positions[i]]
            _agree(gradients[i][k], g, f"the gradient of {name}, example {k}, in_dims={in_dims}")


def _under_vmap(function: Function, batch: list, in_dims: tuple, vs: Arrays) -> list:
    """The values and gradients, and the values of a call without a gradient."""
    from ... import func

    cotangents = tuple(Tensor(v) for v in vs)

    def both(*xs: Any) -> tuple:
        ys, pull = func.vjp(lambda *ts: tuple(function.call(ts)), *xs)
        return ys, pull(cotangents)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        try:
            ys, gs = func.vmap(both, in_dims=in_dims)(*batch)
            # the vmap method of a Function runs where no gradient is taken inside
            alone = func.vmap(lambda *xs: tuple(function.call(xs)), in_dims=in_dims)(*batch)
        except TransformError as error:
            raise DoesNotApply(f"vmap refuses it: {error}") from error
    return [[as_array(x) for x in xs] for xs in (ys, gs, alone)]


def _agree(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise GradcheckError(
            f"under vmap {what} is {found.dtype} {found.shape}, alone {expected.dtype} "
            f"{expected.shape}"
        )
    finite = np.abs(expected[np.isfinite(expected)])
    close = np.isclose(found, expected, _AGREE, _AGREE * finite.max(initial=0.0), equal_nan=True)
    if not close.all():
        where = tuple(int(i) for i in np.argwhere(~np.atleast_1d(close))[0])[: found.ndim]
        raise GradcheckError(
            f"under vmap {what} at {list(where)} is {found[where]!r}, alone {expected[where]!r}"
        )
