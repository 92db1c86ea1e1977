"""grad, value_and_grad, vjp: reverse mode as functions of functions."""

from collections.abc import Callable
from typing import Any

from ..core.create import as_tensor
from ..core.errors import TransformError, describe
from ..core.tensor import Tensor, wrap
from ..engine import api
from . import tree
from .levels import LevelTensor, as_result, lowered, new_level

__all__ = ["grad", "value_and_grad", "vjp"]


def _leaf(x: Any, kind: type[Tensor]) -> Tensor:
    """x as a fresh variable of this level."""
    return wrap(x if isinstance(x, Tensor) else as_tensor(x).data, None, kind).requires_grad_()


def _pull_back(y: Tensor, xs: list[Tensor], g: Any) -> list:
    """The gradients of y for cotangent g as lower values; zeros where y does not depend on x."""
    if y.node is None:
        return [as_tensor(x.data) * 0 for x in xs]
    gs = api.grad(y, xs, None if g is None else [g], allow_unused=True)
    return [as_tensor(x.data) * 0 if gx is None else gx for x, gx in zip(xs, gs, strict=True)]


def value_and_grad(fn: Callable, argnums: int | tuple = 0, has_aux: bool = False) -> Callable:
    """(*args) -> (fn(*args), ∂fn/∂args[argnums]); fn returns a scalar tensor, or (scalar, aux).

    The arguments may be nested dicts, lists and tuples of tensors; gradients have the same form.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def transformed(*args: Any, **kwargs: Any) -> tuple:
        with new_level(LevelTensor) as kind:
            chosen = [tree.tree_map(lambda x: _leaf(x, kind), args[i]) for i in numbers]
            inputs = list(args)
            for i, x in zip(numbers, chosen, strict=True):
                inputs[i] = x
            returned = fn(*inputs, **kwargs)
            y, aux = returned if has_aux else (returned, None)
            if not isinstance(y, Tensor) or y.size != 1:
                raise TransformError(
                    f"grad differentiates a function with one scalar result; it returned "
                    f"{describe(y)}. Use mg.func.vjp or mg.func.jacobian for others."
                )
            y = y if type(y) is kind else wrap(y, None, kind)
            xs = tree.leaves(chosen)
            gs = tree.rebuild(chosen, [as_result(g) for g in _pull_back(y, xs, None)])
            gs = gs[0] if isinstance(argnums, int) else tuple(gs)
            value = as_result(lowered(y, kind))
            aux = tree.tree_map(lambda a: lowered(a, kind), aux)
        return ((value, aux), gs) if has_aux else (value, gs)

    return transformed


def grad(fn: Callable, argnums: int | tuple = 0, has_aux: bool = False) -> Callable:
    """(*args) -> ∂fn/∂args[argnums] (with has_aux: (gradient, aux)); see value_and_grad."""
    both = value_and_grad(fn, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        value, gs = both(*args, **kwargs)
        return (gs, value[1]) if has_aux else gs

    return transformed


def vjp(fn: Callable, *primals: Any) -> tuple[Any, Callable]:
    """(y, pull): y = fn(*primals) and pull(g) = the tuple of vᵀJ for each primal.

    pull may be called more than once, each time with a cotangent of y's shape.
    """
    with new_level(LevelTensor, lasting=True) as kind:
        xs = [_leaf(x, kind) for x in primals]
        returned = fn(*xs)
    y = returned if type(returned) is kind else wrap(as_tensor(returned), None, kind)

    def pull(g: Any) -> tuple:
        with new_level(LevelTensor):
            if y.node is None:
                return tuple(as_tensor(x.data) * 0 for x in xs)
            gs = api.grad(y, xs, [g], retain_graph=True, allow_unused=True)
        return tuple(
            as_tensor(x.data) * 0 if gx is None else as_result(gx)
            for x, gx in zip(xs, gs, strict=True)
        )

    return as_result(lowered(y, kind)), pull
