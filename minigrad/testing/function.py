"""A function for the checks: arrays in, arrays out, and the engine's derivatives of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable
from ..tensor_api.derivatives import grad
from ..tensor_api.tensor import Tensor
from .errors import GradcheckError, Skipped

Arrays = list[np.ndarray]


class Function:
    """fn at given arguments, as a map from its differentiated arguments to its floating results.

    positions   which arguments are differentiated; None: every floating or complex array
    xs          their values

    The caller passes the point of every derivative: one Function serves the whole stencil.
    """

    def __init__(
        self,
        fn: Callable,
        args: Sequence[Any],
        params: dict[str, Any] | None = None,
        positions: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
    ):
        self.fn = fn
        self.args = tuple(args)
        self.params = params or {}
        if positions is None:
            positions = [i for i, x in enumerate(self.args) if is_smooth_array(x)]
        self.positions = tuple(positions)
        self.xs: Arrays = [as_array(self.args[i]) for i in self.positions]
        given = names or ()
        self.names = [given[i] if i < len(given) else f"x{i}" for i in range(len(self.args))]

    def call(self, xs: Sequence[Any]) -> list[Any]:
        """The floating results of fn with xs (arrays or tensors) as the differentiated
        arguments."""
        return floating_results(self.fn(*self.args_with(xs), **self.params))

    def args_with(self, xs: Sequence[Any]) -> tuple:
        """All arguments, with xs as the differentiated ones."""
        args = list(self.args)
        for position, x in zip(self.positions, xs, strict=True):
            args[position] = x
        return tuple(args)

    def value(self, xs: Sequence[Any]) -> Arrays:
        """The results as arrays; nothing is recorded."""
        return [as_array(y) for y in self.call([Tensor(x) for x in xs])]

    def value_or_refusal(self, xs: Sequence[Any]) -> Arrays | None:
        """The value; None if fn refuses xs by any exception.

        Only the call may refuse: a derivative that raises after it is wrong.
        """
        try:
            return self.value(xs)
        except Exception:
            return None

    def record(self, xs: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        """(leaves, results) of a recorded call."""
        leaves = self.leaves(xs)
        return leaves, self.call(leaves)

    @staticmethod
    def leaves(xs: Sequence[Any]) -> list[Tensor]:
        return [Tensor(x, requires_grad=True) for x in xs]

    def vjp(self, xs: Sequence[Any], vs: Sequence[Any]) -> Arrays:
        """Jᵀv: the gradient of Re Σ conj(v)·f, by one backward."""
        leaves, ys = self.record(xs)
        return pulled_back(leaves, ys, vs)

    def jvp(self, xs: Sequence[Any], us: Sequence[Any]) -> Arrays:
        """J u by forward mode."""
        forward_mode = find_jvp()
        primals = tuple(Tensor(x) for x in xs)
        tangents = tuple(Tensor(u) for u in us)
        ys, tys = forward_mode(lambda *ts: tuple(self.call(ts)), primals, tangents)
        return [tangent_of(i, y, t) for i, (y, t) in enumerate(zip(ys, tys, strict=True))]


class Pullback(Function):
    """(x, v) ↦ Jᵀ(x) v of another function: its derivative is the second derivative.

    A Pullback of a Pullback has the third; `count` is the number of arrays in the first one's
    point.
    """

    def __init__(self, first: Function, count: int | None = None):
        self.first = first
        self.count = len(first.xs) if count is None else count
        names = [first.names[i] for i in first.positions[: self.count]]
        self.names = [*names, *["the cotangent"] * (self.count + 1 - len(names))]
        self.positions = tuple(range(self.count + 1))
        self.xs = []

    def value(self, xs: Sequence[Any]) -> Arrays:
        return self.first.vjp(xs[: self.count], xs[self.count :])

    def record(self, xs: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        leaves, ys = self.first.record(xs[: self.count])
        cotangents = [Tensor(v, requires_grad=True) for v in xs[self.count :]]
        gxs = gradients(leaves, ys, cotangents, create_graph=True)
        gxs = [Tensor(np.zeros_like(x)) if g is None else g for x, g in zip(xs, gxs)]
        return [*leaves, *cotangents], gxs


def is_smooth_array(x: Any) -> bool:
    """Whether x is an array (or tensor) of a floating or complex dtype."""
    return hasattr(x, "dtype") and hasattr(x, "shape") and is_differentiable(x.dtype)


def as_array(y: Any) -> np.ndarray:
    return np.asarray(y.data if isinstance(y, Tensor) else y)


def replaced(args: tuple, i: int, x: Any) -> tuple:
    """The arguments with x at position i."""
    return (*args[:i], x, *args[i + 1 :])


def as_tensors(args: tuple) -> list:
    """Tensors where they can carry a gradient; if nothing can, tensors everywhere."""
    smooth = any(is_smooth_array(x) for x in args)
    return [
        Tensor(x) if is_smooth_array(x) or (not smooth and isinstance(x, np.ndarray)) else x
        for x in args
    ]


def floating_results(y: Any) -> list[Any]:
    """The results that have a derivative: of a tuple, its floating and complex members."""
    return [y for y in results(y) if is_smooth_array(y)]


def results(y: Any) -> list[Any]:
    """Every array or tensor in a result that may be a (nested) tuple, list or dict."""
    waiting, found = [y], []
    while waiting:
        y = waiting.pop()
        if isinstance(y, dict):
            y = [*y.values()]
        if isinstance(y, tuple | list):
            waiting.extend(reversed(y))
        elif y is not None:
            found.append(y)
    return found


def gradients(
    leaves: Sequence[Tensor], ys: Sequence[Any], vs: Sequence[Any], **options: Any
) -> Sequence[Tensor | None]:
    """grad, where results without a leaf carry nothing and unused leaves give None."""
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if getattr(y, "requires_grad", False)]
    if not pairs or not leaves:
        return [None] * len(leaves)
    tracked, cotangents = zip(*pairs, strict=True)
    return grad(list(tracked), list(leaves), list(cotangents), allow_unused=True, **options)


def pulled_back(
    leaves: Sequence[Tensor], ys: Sequence[Any], vs: Sequence[Any], **options: Any
) -> Arrays:
    """The gradients as arrays of exactly the leaves' shapes and dtypes; None counts as zeros."""
    arrays = []
    for i, (leaf, g) in enumerate(zip(leaves, gradients(leaves, ys, vs, **options), strict=True)):
        if g is None:
            arrays.append(np.zeros_like(leaf.data))
            continue
        if g.shape != leaf.shape or g.dtype != leaf.dtype:
            raise GradcheckError(
                f"the gradient of argument {i} is {g.dtype} {g.shape}, the argument is "
                f"{leaf.dtype} {leaf.shape}"
            )
        arrays.append(as_array(g))
    return arrays


def tangent_of(i: int, y: Any, t: Any) -> np.ndarray:
    """The tangent t of result i, of exactly y's shape and dtype; None counts as zeros."""
    if t is None:
        return np.zeros_like(as_array(y))
    if t.shape != y.shape or t.dtype != y.dtype:
        raise GradcheckError(
            f"forward mode: the tangent of result {i} is {t.dtype} {t.shape}, the result is "
            f"{y.dtype} {y.shape}"
        )
    return as_array(t)


def find_jvp() -> Callable:
    """minigrad.func.jvp; without it, parts that need forward mode are skipped and reported."""
    from .. import func

    if not hasattr(func, "jvp"):
        raise Skipped("minigrad.func.jvp is not there")
    return func.jvp
