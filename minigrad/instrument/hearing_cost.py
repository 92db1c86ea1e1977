"""What hearing an event costs its op: real ops, with and without a listener, in turns."""

from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..engine import events, modes
from ..tensor_api.create import tensor

_OPS = 100  # in one turn
_TURNS = 24
_QUICK = 25  # the percentile of the turns that counts: those which nobody else held up


class Cost(NamedTuple):
    """Nanoseconds an event; uncertain: how far the typical turn was from the one that counts."""

    each: float
    uncertain: float


class _Listener:
    """Hears like a log, and forgets."""

    finds_origin = True

    def __init__(self, hear: Callable[[tuple], None]):
        self.hear = hear


def hearing_cost(
    hear: Callable[[tuple], None], heard: list, stack: int = 0, origin: bool = True
) -> Cost:
    """What an op takes longer while `hear` listens, which adds to the list `heard`.

    stack, origin  what `hear` needs of a call's line, as events.listen says

    While others listen too, they must not hear of ops that are none of the program's: then `hear`
    is timed alone, without what the op does for it.
    """
    if events.listeners or modes.active:
        return _alone(hear, heard)
    values = np.ones((4, 4), np.float32)
    x, b = tensor(values, requires_grad=True), tensor(values, requires_grad=True)
    listener, turns = _Listener(hear), []
    for _ in range(_TURNS):
        plain = _turn(x, b)
        events.listen(listener, origin=origin, stack=stack)
        try:
            turns.append((_turn(x, b), plain))
        finally:
            events.unlisten(listener)
            heard.clear()
    with_it, without = np.array(turns[1:]).T
    each = float(np.percentile(with_it, _QUICK) - np.percentile(without, _QUICK))
    return Cost(max(each, 0.0), abs(float(np.median(with_it - without)) - each))


def _multiply(x: Any, b: Any) -> float:
    """Nanoseconds of this thread for one op."""
    began = thread_time_ns()
    for _ in range(_OPS):
        x * b
    return (thread_time_ns() - began) / _OPS


# The same as a function of no module of ours: who looks for the user's line stops at it.
_turn = FunctionType(
    _multiply.__code__, {"__name__": "calibration", "_OPS": _OPS, "thread_time_ns": thread_time_ns}
)


def _alone(hear: Callable[[tuple], None], heard: list) -> Cost:
    x, turns = (np.empty(1),), []
    for _ in range(_TURNS):
        began = thread_time_ns()
        for _ in range(_OPS):
            a, b = perf_counter_ns(), perf_counter_ns()
            hear(("forward", "op", a, b, None, x, x, {}))
        turns.append((thread_time_ns() - began) / _OPS)
        heard.clear()
    each = float(np.percentile(turns[1:], _QUICK))
    return Cost(each, float(np.median(turns[1:])))
