"""K9: the rule itself, before the engine mends anything that it has not declared to mend."""

from typing import Any

import numpy as np

from ...backends.dtypes import is_differentiable
from ...core.graph import Leaf, backward_order
from ...engine import serial
from ...engine.contributions import conform
from ..case import Case
from ..errors import DoesNotApply, GradcheckError
from ..numeric import normal
from .base import check
from .cotangent import recorded


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
    seen = []

    def pull(node: Any, g: Any, plan: Any) -> list:
        contributions = serial.pull_arrays(node, g, plan)
        for name, parent, c in zip(needed_names(node), node.parents, contributions, strict=True):
            if c is not None:
                inspect(node, name, parent, g, c)
                seen.append(c)
        return contributions

    serial.run(backward_order(seeds), seeds, lambda place, g: None, pull=pull)
    if not seen:
        raise DoesNotApply("every rule returns None: the gradient is zero everywhere")
    return len(seen)


def needed_names(node: Any) -> list[str]:
    """The name of the input that each parent of the node was."""
    slots = node.plan.slots_of(node)
    if node.op.variadic:
        return [f"{node.op.arrays[0]}[{i}]" for i in slots]
    return [node.op.arrays[i] for i in slots]


def inspect(node: Any, name: str, parent: Any, g: Any, c: Any) -> None:
    """One contribution against the place where it goes."""
    what = f"the rule of {node.op.name} for {name}"
    if not isinstance(c, np.ndarray | np.generic):
        raise GradcheckError(f"{what} returned a {type(c).__name__}, not an array")
    if not is_differentiable(c.dtype):
        raise GradcheckError(f"{what} returned dtype {c.dtype}")
    if node.op.kind != "elementwise" and c.shape != parent.shape:
        raise GradcheckError(f"{what} returned shape {c.shape}, the input has {parent.shape}")
    widest = max(_precision(x.dtype) for x in (parent, *_arrays(g)))
    if _precision(c.dtype) > max(widest, 4):
        raise GradcheckError(
            f"{what} returned {c.dtype} where the input is {parent.dtype}: it computes in twice "
            "the precision, and takes twice the memory, without having been asked to"
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
