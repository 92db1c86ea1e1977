"""K7 and K8: nothing is written that belongs to somebody else, and no gradient is shared."""

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import numpy as np

from ...core.graph import reachable
from ...engine import api
from ..case import Case
from ..errors import GradcheckError
from ..function import gradients
from ..numeric import normal
from .base import check
from .cotangent import recorded


def saved_arrays(ys: Iterable[Any]) -> Iterator[tuple[str, np.ndarray]]:
    """(op and name, array) for every array that the graph of ys holds for its rules."""
    roots = [y.node for y in ys if getattr(y, "requires_grad", False)]
    for node in reachable(roots):
        names = node.plan.names if node.saved else ()
        for name, value in zip(names, node.saved or (), strict=True):
            for x in value if isinstance(value, tuple | list) else (value,):
                if isinstance(x, np.ndarray):
                    yield f"{node.op.name} saved {name}", x


@check("K7", "inputs, cotangent, result and saved arrays are not written")
def k7(case: Case) -> int:
    """Their bytes before and after a forward and a backward, plain and with create_graph."""
    watched = [(f"argument {i}", x) for i, x in enumerate(case.sample.args)]
    watched = [(name, x) for name, x in watched if isinstance(x, np.ndarray)]
    before = [x.tobytes() for _, x in watched]
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K7"), values)
    _require_same(watched, before, "by the call itself")
    later = [(f"result {i}", y) for i, y in enumerate(values)]
    later += [(f"cotangent {i}", v) for i, v in enumerate(vs)]
    later += saved_arrays(ys)
    watched += later
    before += [x.tobytes() for _, x in later]
    for options in ({"retain_graph": True}, {"create_graph": True}):
        gradients(leaves, ys, vs, **options)
        _require_same(watched, before, f"by the backward ({options})")
    return 2 * len(watched)


def _require_same(watched: list, before: list, what: str) -> None:
    for (name, x), old in zip(watched, before, strict=True):
        if x.tobytes() != old:
            raise GradcheckError(f"{name} was changed in place {what}")


@check("K8", "no gradient shares memory with another, the cotangent, an input or a result")
def k8(case: Case) -> int:
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K8"), values)
    others = [(f"argument {i}", x) for i, x in enumerate(function.xs)]
    others += [(f"result {i}", y) for i, y in enumerate(values)]
    others += [(f"cotangent {i}", v) for i, v in enumerate(vs)]
    others += saved_arrays(ys)
    given = []
    for way in ("retain_graph", "retain_graph", "create_graph"):  # twice: none is written again
        found = gradients(leaves, ys, vs, **{way: True})
        given += [(f"grad({way}) {i}", g.data) for i, g in enumerate(found) if g is not None]
    for _ in range(2):
        tracked = [(y, v) for y, v in zip(ys, vs, strict=True) if y.requires_grad]
        api.backward([y for y, _ in tracked], [v for _, v in tracked], retain_graph=True)
    given += [(f".grad {i}", x.grad.data) for i, x in enumerate(leaves) if x.grad is not None]
    pairs = [*combinations(given, 2), *[(g, other) for g in given for other in others]]
    for (one, a), (other, b) in pairs:
        if np.may_share_memory(a, b) and np.shares_memory(a, b):
            raise GradcheckError(f"{one} and {other} share memory")
    return len(pairs)
