"""Rules and forwards of the calculus table as one kernel each, for arrays of one device.

A rule is a few of NumPy's words; on a GPU each word would be a kernel of its own, with its result
written to memory and read again. Here the rule is run once on symbols (trace.py), the product with
the cotangent included, and compiled. What cannot be one kernel runs as it stands. On the
host it is the same while mg.accelerate is on (compiled/), with loops in the place of kernels.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..core.graph import Node
from . import launch

_STATIC = (bool, int, float, str, type(None), tuple, np.generic)


def pull_fused(node: Node, g: Any) -> list:
    """serial.pull_arrays for a GPU: an elementwise op's contributions by one kernel."""
    return feed_fused(node.plan, (g, *node.saved))  # type: ignore[misc]


def feed_fused(plan: Any, values: tuple) -> list:
    """plan.feed(values), where values is (g, *saved)."""
    found = contributions(plan, values)
    return plan.feed(values) if found is None else found


def contributions(plan: Any, values: tuple) -> list | None:
    """The same by one kernel; None where it cannot be one."""
    xp = array_module(values[0])
    if plan.op.kind != "elementwise" or (xp is np and launch.host is None):
        return None
    arrays, places, statics = _apart(values, xp)
    if arrays is None:
        return None
    slots = dict(zip(places, range(len(places)), strict=True))

    def rule(*symbols: Any) -> list:
        given = tuple([symbols[slots[i]] if i in slots else v for i, v in enumerate(values)])
        return plan.feed(given)

    return launch.run((plan, "pull", statics), rule, arrays, may_pass=True)


def fused_forward(op: Any, plain: Any, args: tuple, params: dict) -> Any:
    """The forward of an elementwise op by one kernel; None where it cannot be one.

    The residuals of elementwise ops are functions of the inputs, which the rules find for
    themselves where they are None. On a GPU that is so: computing costs less there than memory.
    """
    xp = next((array_module(x) for x in args if hasattr(x, "strides")), np)
    arrays, places, statics = _apart(args, xp)
    if arrays is None or not all(isinstance(v, _STATIC) for v in params.values()):
        return None
    slots = dict(zip(places, range(len(places)), strict=True))

    def forward(*symbols: Any) -> Any:
        given = [symbols[slots[i]] if i in slots else v for i, v in enumerate(args)]
        y = plain(*given, **params)
        return y[0] if found_by_rules else y

    found_by_rules = xp is not np and op.residuals
    key = (op, "forward", statics, tuple(sorted(params.items())))
    found = launch.run(key, forward, arrays)
    if found is None:
        return None
    if found_by_rules:
        return found[0], *[None] * len(op.residuals)
    return tuple(found) if op.residuals else found[0]


def _apart(values: tuple, xp: Any) -> tuple[list | None, list, tuple]:
    """(the arrays of the module xp, their places, the other values with their places) of a call.

    No arrays where something is neither an array nor a plain number.
    """
    arrays, places, statics = [], [], []
    for i, value in enumerate(values):
        if isinstance(value, _STATIC):
            statics.append((i, type(value), value))
        elif hasattr(value, "dtype") and array_module(value) is xp:
            arrays.append(value)
            places.append(i)
        else:
            return None, [], ()
    return (arrays or None), places, tuple(statics)
