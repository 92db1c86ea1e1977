"""K9: the rule itself, before the engine applies more than its declared steps."""

import weakref
from typing import Any

import numpy as np

from ...backends.dtypes import is_differentiable
from ...engine import backward
from ...engine.backward import BackwardRun, conform
from ...engine.graph import Leaf, backward_order
from ...engine.versions import owner_of
from ..case import Case
from ..errors import DoesNotApply, GradcheckError
from ..numeric import normal
from .base import check
from .cotangent import recorded
from .memory import arrays_in
from .ownership import saved_arrays

_CALLS = 8  # enough calls for a rule that writes to several arrays in turn to repeat


@check("K9", "a rule returns an array of its input's shape, dtype and device", per="every",
       optional=True)  # fmt: skip
def k9(case: Case) -> int:
    """Every node's contributions, as its rules return them, in each dtype of the op.

    The engine declares three steps: the real part for a real input, the sum over axes that an
    elementwise op broadcast, the input's dtype. After these the contribution must fit exactly.
    """
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K9"), values)
    seeds: dict[Any, Any] = {}
    for y, v in zip(ys, vs, strict=True):
        if getattr(y, "requires_grad", False):
            seeds[y.node] = v.astype(y.dtype)
    held = [*function.xs, *arrays_in(case), *[x for _, x in saved_arrays(ys)]]
    held = {id(owner_of(x)) for x in [*held, *values, *vs, *arrays_of(seeds)]}
    seen = []

    def vjp(node: Any, g: Any, plan: Any) -> list:
        contributions = backward.array_vjp(node, g, plan)
        for name, parent, c in zip(needed_names(node), node.parents, contributions, strict=True):
            if c is not None:
                inspect(node, name, parent, g, c)
                owner = owner_of(c)
                kept = isinstance(owner, np.ndarray) and id(owner) not in held
                seen.append((rule_of(node, name), weakref.ref(owner) if kept else None))
        return contributions

    order = backward_order(seeds)
    backward.run(order, BackwardRun(order, seeds, lambda vertex, g: None), vjp)
    if not seen:
        raise DoesNotApply("every rule returns None: the gradient is zero everywhere")
    for what, owner in seen:
        array = None if owner is None else owner()
        if array is not None and array.size:
            not_written_again(case, what, array)
    return len(seen)


def rule_of(node: Any, name: str) -> str:
    return f"the rule of {node.op.name} for {name}"


def arrays_of(seeds: dict[Any, Any]) -> list:
    """The cotangents of nodes; those of an op with several results are in a dict or list."""
    return [x for g in seeds.values() for x in _arrays(g)]


def not_written_again(case: Case, what: str, kept: np.ndarray) -> None:
    """An array that outlives its backward must keep its values: a table of constants does, a buffer
    that the rule fills again does not.

    The rule may have several such arrays and write to them in turn.
    """
    before = kept.tobytes()
    function = case.function()
    for k in range(_CALLS):
        vs = normal(case.rng("K9 again", k), function.value(function.xs))
        function.vjp(function.xs, vs)
        if kept.tobytes() != before:
            raise GradcheckError(
                f"{what} returns an array that it keeps, and writes to it in a later call: "
                "an earlier gradient changes then. Return a new array"
            )


def needed_names(node: Any) -> list[str]:
    """The name of the input for each parent of the node."""
    slots = node.plan.slots_of(node)
    if node.op.variadic:
        return [f"{node.op.arrays[0]}[{i}]" for i in slots]
    return [node.op.arrays[i] for i in slots]


def inspect(node: Any, name: str, parent: Any, g: Any, c: Any) -> None:
    """One contribution against the input that it belongs to."""
    what = rule_of(node, name)
    if not isinstance(c, np.ndarray | np.generic):
        raise GradcheckError(f"{what} returned a {type(c).__name__}, not an array")
    if isinstance(c, np.ndarray) and type(c) is not np.ndarray:
        raise GradcheckError(
            f"{what} returned a {type(c).__name__}, a kind of array that may compute in its own "
            "way, as a matrix does with *: return np.asarray of it"
        )
    if not is_differentiable(c.dtype):
        raise GradcheckError(f"{what} returned dtype {c.dtype}")
    if node.op.kind != "elementwise" and c.shape != parent.shape:
        raise GradcheckError(f"{what} returned shape {c.shape}, the input has {parent.shape}")
    widest = max(_precision(x.dtype) for x in (parent, *_arrays(g)))
    if _precision(c.dtype) > max(widest, 4):
        raise GradcheckError(
            f"{what} returned {c.dtype} where the input is {parent.dtype}: it computes in twice "
            "the precision, and takes twice the memory, without need"
        )
    fitted = conform(c, parent, node)
    if fitted.shape != parent.shape or fitted.dtype != parent.dtype:
        raise GradcheckError(
            f"{what} gives {fitted.dtype} {fitted.shape} after the engine's steps, the input is "
            f"{parent.dtype} {parent.shape}"
        )
    if parent.__class__ is Leaf and parent.tensor() is not None:
        device = parent.tensor().device
        if device != "cpu":
            raise GradcheckError(f"{what} returned an array on the cpu for an input on {device}")


def _precision(dtype: np.dtype) -> int:
    """Bytes of one real number."""
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def _arrays(g: Any) -> list:
    """The cotangent of an op with several results is a dict or list of them, with None."""
    if isinstance(g, dict):
        g = list(g.values())
    return [x for x in g if x is not None] if isinstance(g, list | tuple) else [g]
