"""Elementwise ops as one loop each: the row of the calculus table, and its derivative times g.

The expressions are the ops' own, run once on symbols. Only gelu has another expression here:
functions.py has the normal distribution itself, which NumPy's form takes from SciPy's erfc.
"""

from typing import Any

import numpy as np

from ..expressions.trace import Symbol
from ..fusion import launch
from ..fusion.rules import contributions
from .install import on_host

_ndarray = np.ndarray


def _called(name: str, x: Symbol) -> Any:
    """A function of functions.py that NumPy lacks."""
    return x.program.symbol(name, (x,), x.dtype, x.is_row)


def _gelu(x: Any) -> list:
    """(x Φ(x), Φ(x) + x φ(x)); the compiler computes their common exponential once."""
    share, density = _called("ndtr", x), _called("density", x)
    return [x * share, share + np.clip(x, -40, 40) * density]


@on_host("gelu", launches=True)
def gelu(x: Any, approximate: str = "none") -> tuple | None:
    ys = launch.run("gelu", _gelu, [x]) if approximate == "none" else None
    return None if ys is None else tuple(ys)


def contributions_of(plan: Any, values: tuple) -> list:
    """The contributions of an elementwise op's node, by one loop where possible; values are (g,
    *saved).

    Otherwise each is computed as if it were the only one: the bits of a gradient then do not depend
    on the other ones.
    """
    found = contributions(plan, values)
    if found is not None:
        return found
    if plan.joint or len(plan.slots) == 1:
        return plan.apply_rules(values)
    known, found = dict(zip(plan.names, values[1:], strict=True)), []
    for slot, wanted in zip(plan.slots, plan.reached or (True,) * len(plan.slots), strict=True):
        own = plan.op.plan_for(1 << slot)
        given = (values[0], *[known[name] for name in own.names])
        if wanted:
            alone = contributions(own, given)
            found += own.apply_rules(given) if alone is None else alone
        else:
            found.append(None)
    return found
