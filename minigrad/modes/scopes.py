"""Named parts of a program and spans of time, for listeners."""

import functools
from collections.abc import Callable
from operator import attrgetter
from time import perf_counter_ns
from typing import Any

from ..backends.leaving import left_always
from ..engine import events, modes
from ..engine.events import tell


class span:
    """`with span("optimizer", "SGD", self):` reports the block to the listeners' `marked`."""

    __slots__ = ("what", "name", "subject", "t0")

    def __init__(self, what: str, name: str, subject: Any = None):
        self.what, self.name, self.subject = what, name, subject

    def __enter__(self) -> "span":
        self.t0 = perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        if events.listeners:
            tell("marked", self.what, self.name, self.t0, perf_counter_ns(), self.subject)


ended: tuple[Callable[[str, Any], Any], ...] = ()  # told of each such call, whoever listens


def spanned(what: str) -> Callable[[Callable], Callable]:
    """Decorator of a method: each call is reported as a span with the class's name."""

    def decorate(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def told(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not events.listeners:
                result = fn(self, *args, **kwargs)
            else:
                with span(what, type(self).__name__, self):
                    result = fn(self, *args, **kwargs)
            for hear in ended:
                hear(what, self)
            return result

        return told

    return decorate


class scope:
    """`with mg.scope("encoder"):` names a part of the program in profiles and graphs.

    Scopes nest ("model/conv1") and follow each op into its backward.
    """

    def __init__(self, name: str):
        self.name = name
        self._outer = modes.Outer()

    def __enter__(self) -> "scope":
        own = modes.state.__dict__
        outer = own["scope"]
        self._outer.stack.append((outer, perf_counter_ns() if events.listeners else None))
        own["scope"] = f"{outer}/{self.name}" if outer else self.name
        return self

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        outer, t0 = self._outer.stack[-1]
        try:
            if events.listeners and t0 is not None:
                tell("marked", "scope", modes.state.scope, t0, perf_counter_ns(), None)
        finally:  # a listener may fail, or be interrupted as it writes
            modes.state.__dict__["scope"] = outer
            self._outer.stack.pop()
