"""Rules and forwards of the calculus table as one kernel each, for arrays on a GPU.

A rule is a few of NumPy's words; on a GPU each word would be a kernel of its own, with its result
written to memory and read again. Here the rule is run once on symbols (trace.py), the product with
the cotangent included, and compiled. What cannot be one kernel runs as it stands.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..core.graph import Node
from .launch import run

_STATIC = (bool, int, float, str, type(None), tuple, np.generic)


def pull_fused(node: Node, g: Any) -> list:
    """serial.pull_arrays for a GPU: an elementwise op's contributions by one kernel."""
    return feed_fused(node.plan, (g, *node.saved))  # type: ignore[misc]


def feed_fused(plan: Any, values: tuple) -> list:
    """plan.feed(values), where values is (g, *saved)."""
    g = values[0]
    if plan.op.kind != "elementwise" or array_module(g) is np:
        return plan.feed(values)
    arrays, places, statics = _apart(values)
    if arrays is None:
        return plan.feed(values)
    slots = dict(zip(places, range(len(places)), strict=True))

    def rule(*symbols: Any) -> list:
        given = tuple([symbols[slots[i]] if i in slots else v for i, v in enumerate(values)])
        return plan.feed(given)

    found = run((plan, "pull", statics), rule, arrays, may_pass=True)
    return plan.feed(values) if found is None else found


def fused_forward(op: Any, plain: Any, args: tuple, params: dict) -> Any:
    """The forward of an elementwise op by one kernel; None where it cannot be one."""
    arrays, places, statics = _apart(args)
    if arrays is None or not all(isinstance(v, _STATIC) for v in params.values()):
        return None
    slots = dict(zip(places, range(len(places)), strict=True))

    def forward(*symbols: Any) -> Any:
        given = [symbols[slots[i]] if i in slots else v for i, v in enumerate(args)]
        return plain(*given, **params)

    key = (op, "forward", statics, tuple(sorted(params.items())))
    found = run(key, forward, arrays)
    return None if found is None else found[0]


def _apart(values: tuple) -> tuple[list | None, list, tuple]:
    """(the device arrays, their places, the other values with their places) of a call.

    No arrays where something is neither an array nor a plain number.
    """
    arrays, places, statics = [], [], []
    for i, value in enumerate(values):
        if isinstance(value, _STATIC):
            statics.append((i, type(value), value))
        elif hasattr(value, "dtype") and array_module(value) is not np:
            arrays.append(value)
            places.append(i)
        else:
            return None, [], ()
    return (arrays or None), places, tuple(statics)
