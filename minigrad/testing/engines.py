"""The engines that must give the same bits: each records results and runs a backward of them.

An engine here is a function (function, xs, cotangents) -> gradients as arrays. `missing` names
those that this version of minigrad lacks.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..custom.function_call import FunctionCall
from ..engine.backward import engines as known
from ..tape.tape import Tape
from .function import Function, as_array, pulled_back

Engine = Callable[[Function, list, list], list]


def available() -> tuple[dict[str, Engine], list[str]]:
    """({name: engine}, names of the missing ones)."""
    engines: dict[str, Engine] = {"serial": _with(), "another thread's": in_a_thread}
    if "tape" in known:
        engines["tape"] = on_tape
        engines["replayed tape"] = replayed
    if "parallel" in known:
        for workers in (1, 2, 4, 8):
            # min_work=0: small samples would otherwise stay on one thread
            options = {"engine": "parallel", "workers": workers, "min_work": 0}
            engines[f"{workers} workers"] = _with(**options)
    return engines, [name for name in ("tape", "parallel") if name not in known]


def _with(**options: object) -> Engine:
    def engine(function: Function, xs: list, vs: list) -> list:
        leaves, ys = function.record(xs)
        return pulled_back(leaves, ys, vs, **options)

    return engine


def in_a_thread(function: Function, xs: list, vs: list) -> list:
    """A backward by a thread that did not record: workers get one only where nodes can wait."""
    leaves, ys = function.record(xs)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(pulled_back, leaves, ys, vs).result()


def on_tape(function: Function, xs: list, vs: list) -> list:
    """The tape engine, on a tape that recorded the forward."""
    with Tape():
        leaves, ys = function.record(xs)
        return pulled_back(leaves, ys, vs, engine="tape")


def replayed(function: Function, xs: list, vs: list) -> list:
    """A program compiled from a tape of other values, run at xs."""
    with Tape() as tape, np.errstate(all="ignore"):  # the other values may leave the domain
        leaves, ys = function.record([_elsewhere(x) for x in xs])
    pairs: Any = [(y, v) for y, v in zip(ys, vs, strict=True) if getattr(y, "requires_grad", False)]
    used = [leaf for leaf in leaves if tape.find(leaf) is not None]
    # a replay draws other numbers, and no program can repeat a Function
    other = any("generator" in e.op.defaults or isinstance(e.op, FunctionCall) for e in tape)
    if other or not all(tape.find(y) is not None for y, _ in pairs) or not pairs:
        return on_tape(function, xs, vs)
    results, cotangents = zip(*pairs, strict=True)
    program = tape.compile(list(results), used, used, list(cotangents), allow_unused=True)
    _, gs = program(*[x for x, leaf in zip(xs, leaves, strict=True) if leaf in set(used)])
    found = dict(zip(used, gs, strict=True))
    arrays = []
    for x, leaf in zip(xs, leaves, strict=True):
        g = found.get(leaf)
        arrays.append(np.zeros_like(x) if g is None else as_array(g))
    return arrays


def _elsewhere(x: Any) -> Any:
    """An array like x with each element moved a little, without a common direction."""
    moved = x.copy()
    moved *= 1 + 2.0**-7
    return moved
