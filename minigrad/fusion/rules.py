"""Rules and forwards of the calculus table as one kernel each, for arrays of one device.

A rule is a few NumPy calls. On a GPU each call would be a separate kernel, with its result written
to memory and read again. Here the rule is run once on symbols (expressions/trace.py), the product
with the cotangent included, and compiled. A rule that cannot be one kernel runs unfused. On the
host the same happens while mg.accelerate is on (compiled/), with loops instead of kernels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine.primitive import Primitive
from ..engine.registry import op
from . import launch

_STATIC = (bool, int, float, str, type(None), tuple, np.generic)


def elementwise_ops() -> list[Primitive]:
    """Every elementwise op with one result."""
    ops = [entry for entry in op if isinstance(entry, Primitive)]
    return [entry for entry in ops if entry.kind == "elementwise" and not entry.outputs]


def contributions(plan: Any, values: tuple) -> list | None:
    """plan.apply_rules(values) of an elementwise op by one kernel; None where it cannot be one.

    values: (g, *saved)
    """
    xp = array_module(values[0])
    if xp is np and launch.host is None:
        return None
    arrays, places, statics = _apart(values, xp)
    if arrays is None:
        return None

    def rule(*symbols: Any) -> list:
        return plan.apply_rules(_with(values, places, symbols))

    key = (plan, "vjp", statics)
    g, kind = arrays[0], xp.ndarray
    if type(g) is kind and launch.repeats(g) and plan.op.kind == "elementwise":
        if all(type(x) is kind and launch.repeats(x) for x in arrays):
            return _repeated(key, rule, arrays, xp)
    return launch.run(key, rule, arrays, may_pass=True)


def _repeated(key: tuple, rule: Callable, arrays: list, xp: Any) -> list | None:
    """Contributions that are one number at all places, as in the gradient of a sum: views of it."""
    shape = arrays[0].shape
    found = launch.run(key, rule, [x[(*[0] * x.ndim, ...)] for x in arrays], may_pass=True)
    return found and [None if y is None else xp.broadcast_to(y, shape) for y in found]


def fused_forward(entry: Any, /, *args: Any, **params: Any) -> Any:
    """The forward of an elementwise op by one kernel; None where it cannot be one.

    The residuals of elementwise ops are functions of the inputs, which the rules compute where they
    are None. On a GPU they are None, since computing costs less than memory.
    """
    xp = _module_of(args)
    arrays, places, statics = _apart(args, xp)
    if arrays is None or (params and not all(isinstance(v, _STATIC) for v in params.values())):
        return None
    found_by_rules = xp is not np and entry.residuals

    def forward(*symbols: Any) -> Any:
        y = entry.reference(*_with(args, places, symbols), **params)
        return y[0] if found_by_rules else y

    key = (entry, "forward", statics, tuple(sorted(params.items())) if params else ())
    found = launch.run(key, forward, arrays)
    if found is None:
        return None
    if found_by_rules:
        return found[0], *[None] * len(entry.residuals)
    return tuple(found) if entry.residuals else found[0]


def _module_of(args: tuple) -> Any:
    """The module of the first array among the arguments of a call."""
    for x in args:
        if hasattr(x, "ndim"):
            return array_module(x)
    return np


def _apart(values: tuple, xp: Any) -> tuple[list | None, list, tuple]:
    """(the arrays of the module xp, their places, the other values with their places) of a call.

    No arrays where something is neither an array nor a plain number.
    """
    arrays, places, statics, kind = [], [], [], xp.ndarray
    for i, value in enumerate(values):
        if type(value) is kind:  # by far the most frequent case: tested first
            arrays.append(value)
            places.append(i)
        elif isinstance(value, _STATIC):
            if type(value) is tuple and not all(isinstance(v, _STATIC) for v in value):
                return None, [], ()  # inputs that a rule hides from the op
            statics.append((i, type(value), value))
        elif hasattr(value, "dtype") and array_module(value) is xp:
            arrays.append(value)
            places.append(i)
        else:
            return None, [], ()
    return (arrays or None), places, tuple(statics)


def _with(values: tuple, places: list, symbols: tuple) -> tuple:
    """The values of a call with symbols in the places of its arrays."""
    given = list(values)
    for i, symbol in zip(places, symbols, strict=True):
        given[i] = symbol
    return tuple(given)
