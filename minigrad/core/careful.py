"""The careful path of an op: taken while a mode, a transform or a listener asks for it.

`enter` says how this call is to run, before it runs; `Watch.leave` tells the listeners, after.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from . import events, modes
from .tensor import Tensor


class Watch:
    """What this thread's modes ask of one call."""

    __slots__ = ("args", "forward", "kind", "recording", "result", "t0", "t1")

    def __init__(self, args: tuple, forward: Callable, recording: bool):
        self.args = args
        self.forward = forward
        self.kind = Tensor  # the class of the result
        self.recording = recording
        self.result = None  # set when a transform has already run the call

    def time(self, forward: Callable) -> Callable:
        """The forward, timed: t0 and t1 bracket NumPy's work alone, not the engine's."""

        def timed(*arrays: Any, **params: Any) -> Any:
            self.t0 = perf_counter_ns()
            y = forward(*arrays, **params)
            self.t1 = perf_counter_ns()
            return y

        return timed

    def leave(self, op: Any, node: Any, arrays: list, y: Any) -> None:
        """Tell the listeners that the call has run; arrays may end with y."""
        if events.listeners:
            if node is not None and events.wants_origin:
                node.origin = events.capture_origin()
            outputs = y if isinstance(y, tuple) else (y,)
            events.emit(("forward", op.name, self.t0, self.t1, node, tuple(arrays), outputs))


def enter(op: Any, args: tuple, params: dict) -> Watch:
    """How this call runs under the thread's modes; its result, if a transform takes it over."""
    state = modes.state
    watch = Watch(args, op.forward, state.recording)
    if state.level:
        top = _innermost(args)
        if top.level:
            top.run_at_level(watch, op, args, params)
    if events.listeners and watch.kind.level == 0:
        watch.forward = watch.time(watch.forward)
    return watch


def _innermost(args: tuple) -> type[Tensor]:
    """The class of the argument that belongs to the innermost transform (the highest level)."""
    top = Tensor
    for x in args:
        if isinstance(x, Tensor) and x.level > top.level:
            top = type(x)
    return top
