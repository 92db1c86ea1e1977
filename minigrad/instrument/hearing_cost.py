"""What hearing costs a program: real ops and scopes, with and without a listener, in turns."""

from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..backends.sites import outermost
from ..engine import events, modes
from ..modes.scopes import scope
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

    def __init__(self, hear: Callable[[tuple], None], marked: Callable[..., None] | None = None):
        self.hear = hear
        if marked is not None:
            self.marked = marked


def hearing_cost(
    hear: Callable[[tuple], None], heard: list, stack: int = 0, origin: bool = True, frames: int = 1
) -> Cost:
    """What an op takes longer while `hear` listens, which adds to the list `heard`.

    stack, origin  what `hear` needs of a call's line, as events.listen says
    frames         of the caller's code from which the ops are called, as a stack has them

    While others listen too, they must not hear of ops that are none of the program's: then `hear`
    is timed alone, without what the op does for it.
    """
    if events.listeners or modes.active:
        return _alone(hear, heard)
    values = np.ones((4, 4), np.float32)
    x, b = tensor(values, requires_grad=True), tensor(values, requires_grad=True)
    return _in_turns(lambda: _turn(_turn, frames, x, b), _Listener(hear), heard, origin, stack)


def marking_cost(marked: Callable[..., None], heard: list) -> float:
    """What a scope takes longer while `marked` listens, in nanoseconds; 0 while others listen."""
    if events.listeners or modes.active:
        return 0.0
    named = scope("calibration")
    listener = _Listener(lambda event: None, marked)
    return _in_turns(lambda: _scopes(named), listener, heard, origin=True, stack=0).each


def _in_turns(
    turn: Callable[[], float], listener: _Listener, heard: list, origin: bool, stack: int
) -> Cost:
    turns = []
    for _ in range(_TURNS):
        plain = turn()
        events.listen(listener, origin=origin, stack=stack)
        try:
            turns.append((turn(), plain))
        finally:
            events.unlisten(listener)
            heard.clear()
    with_it, without = np.array(turns[1:]).T
    each = float(np.percentile(with_it, _QUICK) - np.percentile(without, _QUICK))
    return Cost(max(each, 0.0), abs(float(np.median(with_it - without)) - each))


outermost.add(id(_in_turns.__code__))  # a stack ends there: it has the frames asked for, no more


def _multiply(again: Callable, frames: int, x: Any, b: Any) -> float:
    """Nanoseconds of this thread for one op, called from so many frames, all of `again`."""
    if frames > 1:
        return again(again, frames - 1, x, b)
    began = thread_time_ns()
    for _ in range(_OPS):
        x * b
    return (thread_time_ns() - began) / _OPS


def _enter(named: Any) -> float:
    """Nanoseconds of this thread for one scope."""
    began = thread_time_ns()
    for _ in range(_OPS):
        with named:
            pass
    return (thread_time_ns() - began) / _OPS


# The same as functions of no module of ours: who looks for the user's line stops at them.
_names = {"__name__": "calibration", "_OPS": _OPS, "thread_time_ns": thread_time_ns}
_turn = FunctionType(_multiply.__code__, _names)
_scopes = FunctionType(_enter.__code__, _names)


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
