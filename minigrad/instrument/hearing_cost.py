"""What hearing costs a program: real ops and scopes, with and without a listener, in turns.

A turn is long enough for a listener's occasional work, such as writing a batch. That work is timed
separately, but it empties the processor's caches, and the next ops are slow.
"""

from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..backends.sites import outermost
from ..engine import events, modes
from ..modes.scopes import scope
from ..tensor_api.create import tensor

_OPS = 256  # in one turn
_TURNS = 12
_QUICK = 25  # the percentile of the turns that counts: those without a delay from outside


class Cost(NamedTuple):
    """Nanoseconds an event; uncertain: how far the typical turn was from the one that counts."""

    each: float
    uncertain: float


class _Listener:
    """Hears like a log, and forgets."""

    finds_origin = True

    def __init__(
        self,
        hear: Callable[[tuple], None],
        marked: Callable[..., None] | None = None,
        brief: Callable[..., bool] | None = None,
    ):
        self.hear, self.brief = hear, brief
        if marked is not None:
            self.marked = marked


def hearing_cost(
    hear: Callable[[tuple], None],
    settle: Callable[[], None],
    stack: int = 0,
    origin: bool = True,
    frames: int = 1,
    dtype: str = "float64",
    apart: Callable[[], int] = int,
    brief: Callable[..., bool] | None = None,
    sort: str = "plain",
) -> Cost:
    """The extra time of an op while `hear` listens, with settle() after each turn.

    settle         what the listener does in the end with what it has heard
    stack, origin  what `hear` needs of a call's line, as events.listen says
    frames         of the caller's code from which the ops are called, as a stack has them
    dtype          of the ops' arrays
    apart          nanoseconds so far that are counted elsewhere, and not here
    brief          hears the short form of a call (engine/events.py), if the listener has that
    sort           of the events: "plain" multiplications; "described", a sum along an axis, which
                   is told with that; "backward", a multiplication and its rule together

    Other listeners must not get ops that are none of the program's. With any, `hear` is timed
    alone, without the op's part of the work.
    """
    if events.listeners or modes.active:
        return _alone(hear, settle, apart)
    values = np.ones((4, 4), dtype)
    x, b = tensor(values, requires_grad=True), tensor(values, requires_grad=True)
    listener = _Listener(hear, brief=brief)
    turn = _TURN[sort]
    return _in_turns(lambda: turn(turn, frames, x, b), listener, settle, apart, origin, stack)


def marking_cost(marked: Callable[..., None], settle: Callable[[], None]) -> float:
    """Nanoseconds of a module's scope while `marked` listens; 0 with other listeners."""
    if events.listeners or modes.active:
        return 0.0
    listener = _Listener(lambda event: None, marked)
    return _in_turns(_scopes, listener, settle, int, origin=True, stack=0).each


def _in_turns(
    turn: Callable[[], int],
    listener: _Listener,
    settle: Callable[[], None],
    apart: Callable[[], int],
    origin: bool,
    stack: int,
) -> Cost:
    turns = []
    for _ in range(_TURNS):
        plain = turn()
        elsewhere = apart()
        events.listen(listener, origin=origin, stack=stack)
        try:
            with_it = turn()
        finally:
            events.unlisten(listener)
            began = thread_time_ns()
            settle()
            settling = thread_time_ns() - began
        with_it += settling - (apart() - elsewhere)
        turns.append((with_it / _OPS, plain / _OPS))
    with_it, without = np.array(turns[1:]).T
    each = float(np.percentile(with_it, _QUICK) - np.percentile(without, _QUICK))
    return Cost(max(each, 0.0), abs(float(np.median(with_it - without)) - each))


outermost.add(id(_in_turns.__code__))  # a stack ends there: it has the frames asked for, no more


def _multiply(again: Callable, frames: int, x: Any, b: Any) -> int:
    """Nanoseconds of this thread for the ops, called from so many frames, all of `again`."""
    if frames > 1:
        return again(again, frames - 1, x, b)
    began = thread_time_ns()
    for _ in range(_OPS):
        x * b  # pyright: ignore[reportUnusedExpression]
    return thread_time_ns() - began


def _sum(again: Callable, frames: int, x: Any, b: Any) -> int:
    """The same for sums along an axis."""
    if frames > 1:
        return again(again, frames - 1, x, b)
    began = thread_time_ns()
    for _ in range(_OPS):
        x.sum(axis=1)
    return thread_time_ns() - began


def _there_and_back(again: Callable, frames: int, x: Any, b: Any) -> int:
    """The same for multiplications with their backward."""
    if frames > 1:
        return again(again, frames - 1, x, b)
    began = thread_time_ns()
    y = x
    for _ in range(_OPS):
        y = y * b
    y.sum().backward()
    return thread_time_ns() - began


def _enter() -> int:
    """Nanoseconds of this thread for the scopes: as modules do, it has them while one listens."""
    began = thread_time_ns()
    for _ in range(_OPS):
        if events.listeners:
            with scope("calibration"):
                pass
    return thread_time_ns() - began


# The same as functions of no module of ours: who looks for the user's line stops at them.
_names = {"__name__": "calibration", "_OPS": _OPS, "thread_time_ns": thread_time_ns}
_names |= {"events": events, "scope": scope}
_TURN = {
    sort: FunctionType(ops.__code__, _names)
    for sort, ops in (("plain", _multiply), ("described", _sum), ("backward", _there_and_back))
}
_scopes = FunctionType(_enter.__code__, _names)


def _alone(
    hear: Callable[[tuple], None], settle: Callable[[], None], apart: Callable[[], int]
) -> Cost:
    x, turns = (np.empty(1),), []
    for _ in range(_TURNS):
        began, elsewhere = thread_time_ns(), apart()
        for _ in range(_OPS):
            a, b = perf_counter_ns(), perf_counter_ns()
            hear(("forward", "op", a, b, None, x, x, {}))
        settle()
        turns.append((thread_time_ns() - began - (apart() - elsewhere)) / _OPS)
    each = float(np.percentile(turns[1:], _QUICK))
    return Cost(each, float(np.median(turns[1:])))
