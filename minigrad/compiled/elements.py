"""Elementwise ops as one loop each: the row of the calculus table, and its derivative times g.

The words are the ops' own, run on symbols once. gelu alone has other words here: functions.py has
the normal distribution itself, where NumPy's form takes it from SciPy's erfc.
"""

from typing import Any

import numpy as np

from ..engine.graph import Node
from ..engine.primitive import Primitive
from ..engine.registry import op
from ..fusion import launch
from ..fusion.rules import contributions, fused_forward, run_fused_rules
from ..fusion.trace import Symbol
from ..tape.trace import Traced
from . import install
from .install import joint_vjps, on_host

_ndarray = np.ndarray


def rows_of_the_table() -> list[tuple]:
    """(name, forward) of every elementwise op."""
    found = []
    for entry in op:
        if isinstance(entry, Primitive) and entry.kind == "elementwise" and not entry.outputs:
            found.append((entry.name, _forward_of(entry)))
    return found


def _forward_of(entry: Primitive) -> Any:
    def loop(*args: Any, **params: Any) -> Any:
        return fused_forward(entry, args, params)

    return loop


def _called(name: str, x: Symbol) -> Any:
    """A function of functions.py that is not a function of NumPy's."""
    return x.program.symbol(name, (x,), x.dtype, x.is_row)


def _gelu(x: Any) -> list:
    """(x Φ(x), Φ(x) + x φ(x)); both take the same exponential, which the compiler sees."""
    share, density = _called("ndtr", x), _called("density", x)
    return [x * share, share + np.clip(x, -40, 40) * density]


@on_host("gelu")
def gelu(x: Any, approximate: str = "none") -> tuple | None:
    ys = launch.run("gelu", _gelu, [x]) if approximate == "none" else None
    return None if ys is None else tuple(ys)


def vjp(node: Node, g: Any, plan: Any) -> list:
    """backward.array_vjp for large arrays: an op's contributions by one loop where they can be."""
    if type(g) is _ndarray and g.size >= install.LEAST:
        return apply_rules(plan, (g, *node.saved))  # type: ignore[misc]
    return plan.vjp(g, node.saved)


def apply_rules(plan: Any, values: tuple) -> list:
    """The same from a plan and (g, *saved)."""
    g = values[0]
    if type(g) is Traced and g.array.size >= install.LEAST:
        return g.trace.call(
            "call", lambda *given: apply_rules(plan, given), values, {}, plan.op.name
        )
    if type(g) is not _ndarray or g.size < install.LEAST:
        return plan.apply_rules(values)
    if plan.op.kind == "elementwise":
        return contributions(plan, values) or _one_by_one(plan, values)
    joint = joint_vjps.get(plan.op.name)
    found = (
        None if joint is None else joint(plan, dict(zip(plan.names, values[1:], strict=True)), g)
    )
    return plan.apply_rules(values) if found is None else found


def _one_by_one(plan: Any, values: tuple) -> list:
    """The contributions where not all can be one loop: each as if it alone were asked for.

    So the bits of a gradient do not depend on which others are.
    """
    if plan.joint or len(plan.slots) == 1:
        return plan.apply_rules(values)
    known, found = dict(zip(plan.names, values[1:], strict=True)), []
    for slot, wanted in zip(plan.slots, plan.reached or (True,) * len(plan.slots), strict=True):
        own = plan.op.plan_for(1 << slot)
        given = (values[0], *[known[name] for name in own.names])
        found += run_fused_rules(own, given) if wanted else [None]
    return found
