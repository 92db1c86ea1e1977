"""What the engine tells those who listen: one compact tuple for each op, forward and backward.

The engine knows no tool. A tool is a listener: a function of one event, or an object with a method
`hear(event)`. An event is

    (kind, op, t0, t1, node, inputs, outputs)

`kind` is "forward" or "backward"; `op` the op's name; `t0`, `t1` host nanoseconds
(`time.perf_counter_ns`); `node` the graph node, None where nothing was recorded; `inputs` the
call's arguments (arrays, tensors, numbers; backward: the cotangent) and `outputs` its results (None
for an input that gets no gradient), tuples to be read for shape and dtype at once and never kept.
A listener may also have `graph_ready(order, roots)`, called as a backward starts (saved arrays are
still there), and `graph_done(error)`, called when it has ended.

While nobody listens an op pays for one global word (see `modes.active`).
"""

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from . import modes

listeners: tuple[Any, ...] = ()
hearing: tuple[Callable[[tuple], None], ...] = ()  # what of each listener takes the events
wants_origin = False  # some listener asks for source site and scope
_origins: tuple[bool, ...] = ()  # which ones
_lock = threading.Lock()


def listen(listener: Any, origin: bool = False) -> None:
    """Hear every event from now on; with `origin`, nodes also keep their source line and scope."""
    with _lock:
        _set((*listeners, listener), (*_origins, origin))
    modes.add_reason()


def unlisten(listener: Any) -> None:
    """Stop hearing events; unknown listeners are ignored."""
    with _lock:
        at = [i for i, other in enumerate(listeners) if other is listener][:1]
        for i in at:
            _set(listeners[:i] + listeners[i + 1 :], _origins[:i] + _origins[i + 1 :])
    if at:
        modes.add_reason(-1)


def _set(who: tuple, origins: tuple) -> None:
    global listeners, hearing, wants_origin, _origins
    listeners, _origins = who, origins
    hearing = tuple([getattr(listener, "hear", listener) for listener in who])
    wants_origin = any(origins)


def emit(event: tuple) -> None:
    """Hand one event to every listener."""
    for hear in hearing:
        hear(event)


def tell(method: str, *args: Any) -> None:
    """Call `method` of those listeners that have it (graph_ready, graph_done)."""
    for listener in listeners:
        handler = getattr(listener, method, None)
        if handler is not None:
            handler(*args)


_DEEPEST = 40  # frames of a captured stack
_PACKAGE = __name__.partition(".")[0]
_OWN_PACKAGES = {_PACKAGE, "numpy"}
_known: dict[Any, bool] = {}  # module name -> whether it is ours; cutting the name costs 0.1 µs


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    own = _known.get(name)
    if own is None:
        own = _known[name] = str(name).partition(".")[0] in _OWN_PACKAGES
    return own


def capture_origin() -> tuple:
    """(code, instruction, scope) of the user's line that runs now.

    Only the code object and the instruction's offset are kept, 0.15 µs; the line is looked up when
    somebody reads it (`site_of`).
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti, modes.state.scope


def capture_stack() -> tuple:
    """An origin with the frames that have called it behind: (code, instruction, scope, *frames).

    Each frame is (code, instruction), innermost first, without those of the library and of NumPy.
    """
    frame: FrameType | None = sys._getframe(1)
    frames = []
    while frame is not None and len(frames) < _DEEPEST:
        if not _is_own(frame):
            frames.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    if not frames:
        return capture_origin()
    return (*frames[0], modes.state.scope, *frames)


def stack_of(origin: tuple | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of the frames of a captured stack, innermost first."""
    frames = () if origin is None else origin[3:] or (origin[:2],)
    return [(code.co_filename, _line_of(code, at), code.co_qualname) for code, at in frames]


def site_of(origin: tuple | None) -> dict[str, Any] | None:
    """{file, line, function} of a captured origin."""
    if origin is None:
        return None
    code, instruction = origin[:2]
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
