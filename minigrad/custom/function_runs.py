"""The saved values of a Function whose forward vmap has run for one example after the other.

Arguments and results of the call are batches already. Other values that a run has saved belong to
its example, and become batches here. An attribute of ctx cannot, so it has to be the same in all
runs.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine.errors import RuleError
from ..engine.graph import raw, wrap
from ..tensor_api.tensor import Tensor
from .function_context import Context, own_attributes


def saved_by_runs(op: Any, ctx: Context, inputs: Any, y: Any) -> tuple:
    """ctx.looked_up(inputs, y), batched with the values saved by the runs for other examples."""
    kinds, sizes = _hidden_axes(y[0] if isinstance(y, tuple) else y)
    if not kinds:
        return ctx.looked_up(inputs, y)
    runs = op.contexts[-prod(sizes) :] if prod(sizes) else ()
    _require_alike(op, ctx, runs)
    values = list(ctx.looked_up(inputs, y))
    for at, (kind, i) in enumerate(ctx.saved_roles):
        if kind == "other":
            values[at] = _batch(op, [run._others[i] for run in runs], kinds, sizes)
    return tuple(values)


def _hidden_axes(y: Any) -> tuple[list[type], list[int]]:
    """The kinds of the batches that y is in, the innermost vmap first, and their sizes."""
    kinds, sizes = [], []
    while isinstance(y, Tensor):
        if getattr(y, "hides_axis", False):
            kinds.append(type(y))
            sizes.append(y.data.shape[0])
        y = y.data
    return kinds, sizes


def _batch(op: Any, examples: list, kinds: list[type], sizes: list[int]) -> Any:
    """One value of these kinds: the runs of the innermost vmap are the outermost loop."""
    if len({(x.shape, x.dtype) for x in examples}) > 1:
        raise RuleError(
            f"{op.name}.forward saved arrays of other shapes or dtypes for other examples of vmap, "
            f"{examples[0].shape} and others. Save arrays of one shape, or give the class a static "
            "method vmap",
            op=op.name,
        )
    stacked = array_module(examples[0]).stack(examples).reshape(*sizes, *examples[0].shape)
    count = len(sizes)
    order = [*range(count - 1, -1, -1), *range(count, stacked.ndim)]
    value = np.ascontiguousarray(stacked.transpose(order)) if count > 1 else stacked
    for kind in reversed(kinds):
        value = wrap(value, None, kind)
    return value


def _require_alike(op: Any, ctx: Context, runs: Any) -> None:
    """RuleError where the runs have saved different things, or keep other values on ctx."""
    own = own_attributes(ctx)
    for run in runs:
        others = own_attributes(run)
        if run.saved_roles != ctx.saved_roles or run._order != ctx._order:
            raise RuleError(
                f"{op.name}.forward saved other things for one example of vmap than for another; "
                "save the same in every run, or give the class a static method vmap",
                op=op.name,
            )
        name = next((n for n in {**own, **others} if not _same(own, others, n)), None)
        if name is not None:
            raise RuleError(
                f"{op.name}.forward set ctx.{name} to another value for each example of vmap, and "
                "backward could see one alone; give it to ctx.save_for_backward as a tensor, or "
                "give the class a static method vmap",
                op=op.name,
            )


def _same(own: dict, others: dict, name: str) -> bool:
    if name not in own or name not in others:
        return False
    return _equal(own[name], others[name])


def _equal(a: Any, b: Any, depth: int = 3) -> bool:
    """Whether two attributes hold the same; what cannot be compared counts as the same."""
    if a is b or not depth:
        return True
    a, b = raw(a), raw(b)
    if hasattr(a, "dtype") and hasattr(b, "dtype"):
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_equal(x, z, depth - 1) for x, z in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k], depth - 1) for k in a)
    if isinstance(a, int | float | complex | str | bool):
        return a == b or (a != a and b != b)
    return True
