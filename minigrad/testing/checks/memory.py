"""K22: the backward frees the arrays that the graph holds, and no cycle keeps the rest."""

import gc
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...engine.graph import reachable
from ..case import Case
from ..errors import GradcheckError
from ..function import gradients
from ..numeric import normal
from .base import check
from .cotangent import recorded
from .ownership import saved_arrays


@check("K22", "saved arrays are freed by the backward; no reference cycles")
def k22(case: Case) -> int:
    """By weak references, with the cyclic collector off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return freed_by_backward(case) + freed_with_results(case)
    finally:
        if enabled:
            gc.enable()


def freed_by_backward(case: Case) -> int:
    """After the backward, while the results still exist, no array is alive for the rules alone."""
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K22"), values)
    held = {id(x) for y in [*function.xs, *values, *arrays_in(case)] for x in with_bases(y)}
    saved = [(name, weakref.ref(x)) for name, x in saved_arrays(ys) if id(x) not in held]
    gradients(leaves, ys, vs)
    for name, array in saved:
        if array() is not None:
            raise GradcheckError(
                f"the array that {name} is alive after the backward: the op keeps it"
            )
    cotangents = [weakref.ref(v) for v in vs]
    del vs
    if any(v() is not None for v in cotangents):
        raise GradcheckError("the cotangent is alive after the backward: a rule keeps it")
    return len(saved) + len(cotangents)


def arrays_in(case: Case) -> Iterable[Any]:
    """The arrays of the sample itself, in arguments and in (nested) parameters."""
    waiting = [*case.sample.args, *case.sample.params.values()]
    while waiting:
        x = waiting.pop()
        if isinstance(x, tuple | list):
            waiting.extend(x)
        elif isinstance(x, np.ndarray):
            yield x


def with_bases(x: Any) -> Iterable[Any]:
    """x and the arrays whose memory it views: they live as long as it does."""
    while x is not None:
        yield x
        x = getattr(x, "base", None)


def freed_with_results(case: Case) -> int:
    """Without references to results and gradients, every node is gone, also after create_graph."""
    function, leaves, ys, values = recorded(case)
    vs = normal(case.rng("K22"), values)
    found = gradients(leaves, ys, vs, create_graph=True)
    roots = [x.node for x in [*ys, *found] if x is not None and x.requires_grad]
    nodes = [weakref.ref(node) for node in reachable(roots)]
    held = {id(x) for y in [*function.xs, *arrays_in(case)] for x in with_bases(y)}
    arrays = [weakref.ref(y) for y in values if id(y) not in held]
    del leaves, ys, found, roots, values
    for node in nodes:
        alive = node()
        if alive is not None:
            raise GradcheckError(
                f"{alive!r} is alive though nothing refers to its results: a reference cycle"
            )
    if any(array() is not None for array in arrays):
        raise GradcheckError(
            "a result's array is alive though nothing refers to the result: the op keeps it, or "
            "it is in a reference cycle. Return a new array"
        )
    return len(nodes)
