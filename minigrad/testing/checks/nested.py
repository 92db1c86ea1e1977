"""Two transforms at once, a part of K23: a rule may be right under one and wrong under both."""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ...engine.errors import RuleError
from ...errors import TransformError
from ...tensor_api.tensor import Tensor
from ..errors import GradcheckError
from ..function import Arrays, Function, as_array
from .nearness import agree

# the transforms, their results for all examples, and the results for each alone
Compared = Iterator[tuple[str, Any, list[Arrays]]]


def under_two(examples: list[Function], vs: Arrays, us: Arrays) -> int:
    """vmap of vmap, vjp of vmap, vmap of jvp and jvp of vmap, against one example at a time.

    The outer vmap has one example: that also checks batch rules with a special case for one.
    Returns the number of comparisons; 0 if an example or vmap is refused.
    """
    from ... import func

    function = examples[0]
    values = [ys for f in examples if (ys := f.value_or_refusal(f.xs)) is not None]
    if len(values) < len(examples):
        return 0
    pulled = [f.vjp(f.xs, vs) for f in examples]
    pushed = [f.jvp(f.xs, us) for f in examples]
    if any(y.shape != v.shape for ys in values for y, v in zip(ys, vs, strict=True)):
        return 0  # the shape depends on values
    n = len(function.xs)
    xs = [Tensor(np.stack([f.xs[i] for f in examples])) for i in range(n)]
    gs, ts = ([Tensor(a) for a in arrays] for arrays in (vs, us))
    mapped = func.vmap(lambda *xs: tuple(function.call(xs)))

    def vjp_fn(*xs: Any) -> tuple:
        ys, vjp_fn = func.vjp(lambda *xs: tuple(function.call(xs)), *xs)
        return ys, vjp_fn(tuple(gs))

    def push(*xs: Any) -> tuple:
        return func.jvp(lambda *xs: tuple(function.call(xs)), xs, tuple(ts))

    def batch(arrays: list) -> tuple:
        return tuple([Tensor(np.stack([as_array(a)] * len(examples))) for a in arrays])

    def all_pairs() -> Compared:
        found = func.vmap(func.vmap(vjp_fn))(*[x[None] for x in xs])
        yield "vmap of vmap, value", [y[0] for y in found[0]], values
        yield "vmap of vmap, gradient", [g[0] for g in found[1]], pulled
        yield "vjp of vmap, gradient", func.vjp(mapped, *xs)[1](batch(gs)), pulled
        yield "vmap of jvp, tangent", func.vmap(push)(*xs)[1], pushed
        yield "jvp of vmap, tangent", func.jvp(mapped, tuple(xs), batch(ts))[1], pushed

    def of_jvp() -> Compared:
        # <v, J u> = <Jᵀv, u>, so their gradients are equal
        one = [Tensor(x) for x in function.xs]
        expected = func.vjp(lambda *xs: vjp_fn(*xs)[1], *one)[1](tuple(ts))
        found = func.vjp(lambda *xs: push(*xs)[1], *one)[1](tuple(gs))
        yield "vjp of jvp, gradient", [g[None] for g in found], [[as_array(g) for g in expected]]
        # J u is linear in u: its gradient by u is Jᵀ v
        pushed_from_one = lambda *us: func.jvp(lambda *xs: tuple(function.call(xs)), tuple(one), us)
        found = func.vjp(lambda *us: pushed_from_one(*us)[1], *ts)[1](tuple(gs))
        yield "vjp of jvp by the tangent, gradient", [g[None] for g in found], pulled[:1]

        def curve(*xs: Any) -> tuple:
            return func.vjp(lambda *xs: push(*xs)[1], *xs)[1](tuple(gs))

        expected = [[as_array(g) for g in curve(*map(Tensor, f.xs))] for f in examples]
        try:
            found = func.vmap(curve)(*xs)
        except TransformError as error:  # from a rule with an `if` on its values
            raise GradcheckError(f"vmap refuses the second derivative: {error}") from error
        yield "vmap of vjp of jvp, gradient", found, expected

    def none() -> Compared:
        ys = mapped(*[x[:0] for x in xs])
        # shapes alone: whether a result is complex (roots, eigenvalues) may depend on values
        found = [np.zeros((1, *y.shape)) for y in ys]
        yield "vmap of no example, result", found, [[np.zeros((0, *y.shape)) for y in values[0]]]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", func.VmapWarning)
        return sum(_count_agreeing(pairs()) for pairs in (all_pairs, of_jvp, none))


def _count_agreeing(comparisons: Compared) -> int:
    """How many arrays agree, until a transform refuses; GradcheckError at a difference."""
    count = 0
    with suppress(TransformError, RuleError):
        for name, found, expected in comparisons:
            for k, arrays in enumerate(expected):
                for i, (a, b) in enumerate(zip(found, arrays, strict=True)):
                    agree(as_array(a)[k], b, f"{name} {i} of example {k}")
                    count += 1
    return count
