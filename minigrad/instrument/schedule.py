"""Which steps of a run are recorded: some are skipped, some recorded and dropped, some kept."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..modes import scopes


class Schedule(NamedTuple):
    """Steps are counted by `step()`, called at the end of each.

    wait     steps without listening, at no cost
    warmup   steps that are recorded and forgotten, to fill caches and pools
    active   steps that are recorded
    repeat   how often this is gone through; 0: until the end
    """

    wait: int = 0
    warmup: int = 0
    active: int = 1
    repeat: int = 0

    def phase(self, step: int) -> str:
        """ "wait", "warmup", "active" or "done" for this step, counted from 0."""
        cycle, place = divmod(step, self.wait + self.warmup + self.active)
        if self.repeat and cycle >= self.repeat:
            return "done"
        if place < self.wait:
            return "wait"
        return "warmup" if place < self.wait + self.warmup else "active"


def schedule_of(given: Any) -> Schedule | None:
    """The schedule in (wait, warmup, active, repeat) or {"wait": ...}; None is none."""
    if given is None or isinstance(given, Schedule):
        return given
    try:
        if isinstance(given, Mapping):
            schedule = Schedule(**given)
        else:
            schedule = Schedule(*given) if isinstance(given, Sequence) else Schedule(int(given))
    except (TypeError, ValueError):
        schedule = None
    if schedule is None or isinstance(given, str) or not _sensible(schedule):
        raise ValueError(
            f"schedule={given!r}: give (wait, warmup, active, repeat), numbers of steps from "
            "0 on, active at least 1; repeat 0 means until the end"
        )
    return schedule


def schedule_from(text: str) -> Schedule:
    """The schedule in a text, "wait,warmup,active" or "wait,warmup,active,repeat"."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (3, 4):
        raise ValueError(f"{text!r} is not wait,warmup,active or wait,warmup,active,repeat")
    schedule = schedule_of(numbers)
    assert schedule is not None
    return schedule


class OptimizerSteps:
    """Calls step() after each step of the program's first optimizer: it ends a step of training.

    For programs that call no step() themselves. Others of its optimizers step along.
    """

    def __init__(self, step: Callable[[], Any]):
        self._step = step
        self._first: weakref.ref | None = None
        scopes.ended += (self._ended,)

    def _ended(self, what: str, subject: Any) -> None:
        if what != "optimizer":
            return
        first = None if self._first is None else self._first()
        if first is None:
            self._first = weakref.ref(subject)
        if first is None or first is subject:
            self._step()

    def stop(self) -> None:
        """Call it no more."""
        scopes.ended = tuple([other for other in scopes.ended if other != self._ended])


def _sensible(schedule: Schedule) -> bool:
    whole = all(type(n) is int and n >= 0 for n in schedule)
    return whole and schedule.active > 0
