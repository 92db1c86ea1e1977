"""The cost of calling an op without its work: its time on arrays of two elements an axis."""

import functools
import threading
import warnings
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.engine import events
from minigrad.engine.registry import op as ops

_REPEATS = 20
_SHAPES = ((2, 2), (1, 1, 2, 2), (1, 2, 2), (2,))  # tried in turn
_PHASES = ("forward", "backward")
_COMPOSITE = "softmax"  # stands for ops that take other arguments: it makes several calls


def calling(name: str, phase: str) -> float:
    """Nanoseconds of the fastest call of an op, as an event log has them; phase: of which rule.

    An op that takes other arguments than such arrays gets the cost of softmax, the most it can be.
    """
    found = _measured(name)
    return found[phase] if phase in found else _measured(_COMPOSITE)[phase]


@functools.cache
def _measured(name: str) -> dict[str, float]:
    entry = getattr(ops, name) if name in ops else None
    if not hasattr(entry, "arrays"):
        return {}
    for shape in _SHAPES:
        try:
            return _least(entry, shape)
        except Exception:  # another shape may work, or none
            continue
    return {}


def _least(entry: Any, shape: tuple[int, ...]) -> dict[str, float]:
    """The least time by phase, of one call and one rule."""
    least: dict[str, float] = {}
    here = threading.get_ident()

    def hear(event: tuple) -> None:
        phase, name, t0, t1 = event[:4]
        if name == entry.name and phase in _PHASES and threading.get_ident() == here:
            spent: float = t1 - t0
            least[phase] = min(least.get(phase, spent), spent)

    count = len(entry.arrays) - len(entry.optional)
    xs = [mg.tensor(np.full(shape, 0.5), requires_grad=True) for _ in range(count)]
    events.listen(hear)
    try:
        with mg.enable_grad(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(_REPEATS):
                y = entry(*xs)
                y = y[0] if isinstance(y, tuple) else y
                if y.requires_grad:
                    mg.grad(y, xs, mg.ones_like(y), allow_unused=True)
    finally:
        events.unlisten(hear)
    return least
