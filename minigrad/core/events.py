"""What the engine tells those who listen: one compact tuple for each op, forward and backward.

The engine knows no tool. A tool is a listener: a callable that takes one event

    (kind, op, t0, t1, node, inputs, outputs)

`kind` is "forward" or "backward"; `op` the op's name; `t0`, `t1` host nanoseconds
(`time.perf_counter_ns`); `node` the graph node, None where nothing was recorded; `inputs` the
call's arguments (arrays, tensors, numbers; backward: the cotangent) and `outputs` its results (None
for an input that gets no gradient), tuples to be read for shape and dtype at once and never kept.
A listener may also have a method `graph_ready(order, roots)`, called as a backward starts (saved
arrays are still there), and `graph_done(error)`, called when it has ended.

While nobody listens an op pays for one global word (see `modes.active`).
"""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from . import modes

listeners: tuple[Callable[[tuple], None], ...] = ()
wants_origin = False  # some listener asks for source site and scope


def listen(listener: Callable[[tuple], None], origin: bool = False) -> None:
    """Hear every event from now on; with `origin`, nodes also keep their source line and scope."""
    global listeners, wants_origin
    listeners = (*listeners, listener)
    wants_origin = wants_origin or origin
    modes.add_reason()


def unlisten(listener: Callable[[tuple], None]) -> None:
    """Stop hearing events; unknown listeners are ignored."""
    global listeners, wants_origin
    if listener in listeners:
        listeners = tuple(other for other in listeners if other is not listener)
        wants_origin = wants_origin and bool(listeners)
        modes.add_reason(-1)


def emit(event: tuple) -> None:
    """Hand one event to every listener."""
    for listener in listeners:
        listener(event)


def tell(method: str, *args: Any) -> None:
    """Call `method` of those listeners that have it (graph_ready, graph_done)."""
    for listener in listeners:
        handler = getattr(listener, method, None)
        if handler is not None:
            handler(*args)


_PACKAGE = __name__.partition(".")[0]
_OWN_PACKAGES = {_PACKAGE, "numpy"}


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OWN_PACKAGES


def capture_origin() -> tuple:
    """(code, instruction, scope) of the user's line that runs now.

    Only the code object and the instruction's offset are kept, 0.15 µs; the line is looked up when
    somebody reads it (`site_of`).
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti, modes.state.scope


def site_of(origin: tuple | None) -> dict[str, Any] | None:
    """{file, line, function} of a captured origin."""
    if origin is None:
        return None
    code, instruction, _ = origin
    return {
        "file": code.co_filename,
        "line": _line_of(code, instruction),
        "function": code.co_qualname,
    }


def _line_of(code: CodeType, instruction: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno


class scope:
    """`with mg.scope("encoder"):` names a part of the program in profiles and graphs.

    Scopes nest ("model/conv1") and follow each op into its backward.
    """

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> "scope":
        self._outer = modes.state.scope
        modes.state.scope = f"{self._outer}/{self.name}" if self._outer else self.name
        return self

    def __exit__(self, *exc: object) -> None:
        modes.state.scope = self._outer
