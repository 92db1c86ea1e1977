"""grad, value_and_grad, vjp: reverse mode as functions of functions."""

import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..engine.errors import SeedError, describe
from ..engine.graph import wrap
from ..errors import TransformError
from ..tensor_api import derivatives, level_membership
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from . import tree
from .levels import (
    LevelTensor,
    as_result,
    kept,
    lowered,
    named_after,
    new_level,
    require_function,
)

__all__ = ["grad", "value_and_grad", "vjp"]


def _leaf(what: str, x: Any, kind: type[Tensor]) -> Tensor:
    """x as a fresh variable of this level."""
    try:
        data = kept(x) if isinstance(x, Tensor) else as_tensor(x).data
        return wrap(data, None, kind).requires_grad_()
    except TypeError as error:
        raise no_variable(what, x) from error


def no_variable(what: str, x: Any) -> TypeError:
    """The error for an argument in which there is nothing to differentiate."""
    if hasattr(x, "named_parameters"):
        instead = (
            "For a module take its parameters, p = dict(module.named_parameters()), and call it "
            "in the function as mg.func.functional_call(module, p, x)"
        )
    elif isinstance(x, Iterator):
        instead = "Pass what it gives as a list or dict: dict(module.named_parameters())"
    elif isinstance(x, Mapping):
        instead = "Pass it as a dict, dict(x); trees are made of dicts, lists and tuples"
    else:
        instead = (
            "Write 3.0 for 3, x.astype(float) for an array of integers; what is no variable "
            "belongs outside argnums, or into the function's closure"
        )
    return TypeError(
        f"{what} differentiates floating and complex numbers; among its arguments is "
        f"{describe(x)}. {instead}"
    )


class Recorded:
    """A function that has run once at a reverse level: its result, ready to be pulled back.

    inputs     the arguments as variables of the level (a tuple of trees), `xs` their leaves
    returned   what the function returned (a tree), `ys` its leaves, all of the level
    aux        its auxiliary result, as lower values
    """

    def __init__(self, what: str, fn: Callable, primals: tuple, has_aux: bool, lasting: bool):
        require_function(what, fn)
        with new_level(LevelTensor, lasting) as kind:
            self.inputs = tuple(tree.tree_map(lambda x: _leaf(what, x, kind), x) for x in primals)
            self.xs = tree.leaves(self.inputs)
            returned, aux = split_aux(what, fn(*tree.copied(self.inputs)), has_aux)
            warn_of_numbers(what, returned)
            self.returned = tree.tree_map(lambda y: _of_level(what, y, kind), returned)
            self.aux = tree.tree_map(lambda a: lowered(a, kind), aux)
        self.kind = kind
        self.ys = tree.leaves(self.returned)

    def values(self) -> Any:
        """The result as lower values."""
        return tree.tree_map(lambda y: lowered(y, self.kind), self.returned)

    def vjp(self, ys: list, gs: list | None, again: bool) -> list:
        """Σ gᵀJ for each x, as lower values; zeros where the ys do not depend on it."""
        chosen = [i for i, y in enumerate(ys) if y.node is not None]
        found: Any = [None] * len(self.xs)
        if chosen and self.xs:
            with new_level(LevelTensor):
                found = derivatives.grad(
                    [ys[i] for i in chosen],
                    self.xs,
                    None if gs is None else [gs[i] for i in chosen],
                    retain_graph=again,
                    allow_unused=True,
                )
        return [
            as_result(np.zeros_like(x.data) if gx is None else gx)
            for x, gx in zip(self.xs, found, strict=True)
        ]


def warn_of_numbers(what: str, returned: Any) -> None:
    """A warning where a function has returned a number of Python's, which no op has made."""
    if isinstance(returned, int | float | complex):
        warnings.warn(
            f"{what}: the function returned {returned!r}, a number of Python's, which depends on "
            "nothing: its derivative is 0. float(x), x.item() and functions of math such as "
            "math.sin(x) leave the graph; mg.sin(x) stays in it",
            stacklevel=_frames_of_the_library(),
        )


def _frames_of_the_library() -> int:
    """How many frames lie between the caller's caller and the code that uses the library."""
    frame, count = sys._getframe(2), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_LIBRARY):
        frame, count = frame.f_back, count + 1
    return count


_LIBRARY = __name__.partition(".")[0] + "."


def split_aux(what: str, returned: Any, has_aux: bool) -> tuple:
    """(result, aux) of a function that returns both."""
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TransformError(
            f"{what}: with has_aux=True the function returns (result, aux); it returned "
            f"{describe(returned)}"
        )
    return returned


def _of_level(what: str, y: Any, kind: type[Tensor]) -> Tensor:
    """A result of the function as a tensor of the level; a constant where it is of a lower one."""
    if type(y) is kind:
        return wrap(y.data, y.node, kind) if level_membership.has(y, kind.level) else y
    if not (isinstance(y, Tensor) or hasattr(y, "dtype") or isinstance(y, int | float | complex)):
        raise TransformError(
            f"{what}: the function returned {describe(y)}; its result must be tensors, alone or in "
            "dicts, lists and tuples. Return anything else as (result, aux), with has_aux=True."
        )
    return wrap(as_tensor(y) if not isinstance(y, Tensor) else y, None, kind)


def which(what: str, argnums: Any) -> int | tuple:
    """argnums as Python's integers: one, or a tuple of them."""
    try:
        if hasattr(argnums, "__index__"):
            return operator.index(argnums)
        return tuple(operator.index(i) for i in argnums)
    except TypeError:
        raise TransformError(
            f"{what}: argnums is the position of an argument, 0 for the first, or a tuple of "
            "positions; "
            f"got {describe(argnums)}"
        ) from None


def chosen(what: str, fn: Callable, argnums: int | tuple, args: tuple, kwargs: dict) -> tuple:
    """(fn as a function of the chosen arguments alone, those arguments)."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -len(args) <= i < len(args) for i in numbers):
        raise TransformError(
            f"{what}: argnums={argnums} but {len(args)} positional arguments were given; arguments "
            "to differentiate are given by position"
        )
    numbers = tuple(i % len(args) for i in numbers)
    if len(set(numbers)) != len(numbers):
        raise TransformError(f"{what}: argnums={argnums} names an argument twice")

    def of_chosen(*values: Any) -> Any:
        inputs = list(args)
        for i, x in zip(numbers, values, strict=True):
            inputs[i] = x
        return fn(*inputs, **kwargs)

    return of_chosen, tuple(args[i] for i in numbers)


def value_and_grad(fn: Callable, argnums: int | tuple = 0, has_aux: bool = False) -> Callable:
    """(*args) -> (fn(*args), ∂fn/∂args[argnums]); fn returns a scalar tensor, or (scalar, aux).

    The arguments may be trees (nested dicts, lists, tuples, dataclasses) of tensors; gradients have
    the same form. With a tuple for argnums, a tuple of gradients, empty for (). aux may be
    anything.
    """
    argnums = which("value_and_grad", argnums)

    @named_after("value_and_grad", fn)
    def transformed(*args: Any, **kwargs: Any) -> tuple:
        value, aux, gs = _differentiated("value_and_grad", fn, argnums, has_aux, args, kwargs)
        return ((value, aux), gs) if has_aux else (value, gs)

    return transformed


def grad(fn: Callable, argnums: int | tuple = 0, has_aux: bool = False) -> Callable:
    """(*args) -> ∂fn/∂args[argnums] of a scalar fn: a new function; see value_and_grad.

        >>> import minigrad as mg
        >>> mg.func.grad(lambda x: x**3)(3.0)
        tensor(27.)
        >>> mg.func.grad(mg.func.grad(lambda x: x**3))(3.0)
        tensor(18.)

    With has_aux, fn returns (scalar, aux), and the new function (gradient, aux).
    """
    return gradient_of("grad", fn, argnums, has_aux)


def gradient_of(what: str, fn: Callable, argnums: int | tuple, has_aux: bool = False) -> Callable:
    """grad in the name of `what`, which users have called."""
    argnums = which(what, argnums)

    @named_after(what, fn)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        _, aux, gs = _differentiated(what, fn, argnums, has_aux, args, kwargs)
        return (gs, aux) if has_aux else gs

    return transformed


def _differentiated(
    what: str, fn: Callable, argnums: int | tuple, has_aux: bool, args: tuple, kwargs: dict
) -> tuple:
    """(value, aux, gradients) of a function with one real scalar result."""
    of_chosen, primals = chosen(what, fn, argnums, args, kwargs)
    run = Recorded(what, of_chosen, primals, has_aux, lasting=False)
    if not isinstance(run.returned, Tensor) or run.returned.size != 1:
        raise TransformError(
            f"{what} differentiates a function with one scalar result; it returned "
            f"{describe(run.returned)}. Use mg.func.vjp or mg.func.jacobian for others."
        )
    if run.returned.dtype.kind == "c":
        raise TransformError(
            f"{what} differentiates a real scalar; the function returned "
            f"{describe(run.returned)}. Return its real part or its absolute value; "
            "mg.func.jacrev and mg.func.vjp take complex results"
        )
    gs = tree.rebuild(run.inputs, run.vjp(run.ys, None, again=False))
    return run.values(), run.aux, gs[0] if isinstance(argnums, int) else gs


def vjp(fn: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(y, vjp_fn): y = fn(*primals) and vjp_fn(g) = the tuple of gᵀJ for each primal.

    vjp_fn may be called more than once, each time with a cotangent of y's form and shapes. Primals
    and y may be trees. With has_aux, fn returns (y, aux), and vjp returns (y, vjp_fn, aux).

        >>> import minigrad as mg
        >>> y, vjp_fn = mg.func.vjp(lambda a, b: a * b, mg.tensor([2.0, 3.0]), 10.0)
        >>> vjp_fn(mg.tensor([1.0, 1.0]))
        (tensor([10., 10.]), tensor(5.))
    """
    return pulled_back("vjp", fn, primals, has_aux)


def pulled_back(what: str, fn: Callable, primals: tuple, has_aux: bool = False) -> tuple:
    """vjp in the name of `what`, which users have called."""
    run = Recorded(what, fn, primals, has_aux, lasting=True)

    def vjp_fn(g: Any) -> tuple:
        gs = tree.matched(run.returned, g, f"the function of {what}")
        try:
            return tree.rebuild(run.inputs, run.vjp(run.ys, gs, again=True))
        except SeedError as error:
            error.args = (str(error).replace("grad", f"the function of {what}", 1),)
            raise

    return (run.values(), vjp_fn, run.aux) if has_aux else (run.values(), vjp_fn)
