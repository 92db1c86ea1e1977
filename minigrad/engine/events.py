"""Events: one compact tuple for each op, forward and backward, passed to every listener.

The engine knows no tool. A tool is a listener: a function of one event, or an object with a method
`hear(event)`. An event is

    (kind, op, t0, t1, node, inputs, outputs, params)

`kind` is "forward" or "backward"; `op` the op's name; `t0`, `t1` host nanoseconds
(`time.perf_counter_ns`); `node` the graph node, None where nothing was recorded; `inputs` the
call's arguments (arrays, tensors, numbers; backward: the cotangent) and `outputs` its results
(backward: the contributions, None for an input that gets none). Read shapes and dtypes from these
tuples at once and never keep them: that would keep the arrays alive.
`params` are the static parameters of a forward.

A listener may also have `graph_ready(order, roots)`, called as a backward starts (saved arrays are
still there), `graph_done(error)`, called when it has ended, and `marked(what, name, t0, t1,
subject)`, called after anything else that took time: a "scope", a user's "hook", an "optimizer"
step, or "waiting" for another rank, in which this thread was from t0 to t1.

While nobody listens an op reads one global for all this (see `modes.active`).
"""

import functools
import sys
from collections.abc import Callable
from operator import attrgetter
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from ..backends.device import array_module
from ..backends.leaving import left_always
from ..backends.locks import Lock
from . import modes

listeners: tuple[Any, ...] = ()
hearing: tuple[Callable[[tuple], None], ...] = ()  # the function of each listener
wants_origin = False  # some listener asks for source site and scope
stack_depth = 0  # how many frames of the user's code an origin keeps, if more than its line
synchronize: Callable[[tuple], None] | None = None  # waits until the device has made these results
clock: Callable[[], int] = perf_counter_ns  # the time of an event; also marks it on a device
opening: Callable[[str], None] | None = None  # told an op's name before it runs (with add_check)
around: Callable[[Callable], Callable] | None = None  # a wrapper for the pull of each node
_asked: tuple[tuple[bool, int, bool], ...] = ()  # (origin, stack, sync) of each listener
_lock = Lock()


def listen(listener: Any, origin: bool = False, stack: int = 0, sync: bool = False) -> None:
    """Hear every event from now on.

    origin  nodes also keep their source line and scope
    stack   and this many of the frames that led there
    sync    wait for the device after each op, so that its time is the op's own (slow)
    """
    modes.add_reason()
    try:
        with _lock:
            _set((*listeners, listener), (*_asked, (origin or stack > 0, stack, sync)))
    except BaseException:  # Ctrl-C: the block that listens is not entered, and so never left
        unlisten(listener)
        raise


def unlisten(listener: Any) -> None:
    """Stop hearing events; unknown listeners are ignored."""
    with _lock:
        at = [i for i, other in enumerate(listeners) if other is listener][:1]
        for i in at:
            _set(listeners[:i] + listeners[i + 1 :], _asked[:i] + _asked[i + 1 :])
    if at:
        modes.add_reason(-1)


def _set(who: tuple, asked: tuple) -> None:
    global listeners, hearing, emit, wants_origin, stack_depth, synchronize, _asked
    listeners, _asked = who, asked
    hearing = tuple([getattr(listener, "hear", listener) for listener in who])
    wants_origin = any(origin for origin, _, _ in asked)
    stack_depth = max((stack for _, stack, _ in asked), default=0)
    synchronize = _wait_for_device if any(sync for _, _, sync in asked) else None
    alone = len(who) == 1 and not wants_origin and synchronize is None
    emit = hearing[0] if alone else _emit


def _wait_for_device(ys: tuple) -> None:
    """Wait for the stream that computes ys; NumPy has none and is done when it returns."""
    y = next((y for y in ys if y is not None), None)
    if hasattr(y, "device") and hasattr(y, "toDlpack"):  # CuPy
        array_module(y).cuda.get_current_stream().synchronize()


def _emit(event: tuple) -> None:
    """Hand one event to every listener, with what they asked for: true times, and its origin."""
    kind, name, t0, _, node, inputs, outputs, params = event
    if synchronize is not None:
        synchronize(outputs)
        event = (kind, name, t0, perf_counter_ns(), node, inputs, outputs, params)
    if wants_origin and node is not None and kind == "forward":
        # below the user's line are at least this function, the op's call, and what called that
        node.origin = capture_stack(stack_depth) if stack_depth > 1 else capture_origin(4)
    for hear in hearing:
        hear(event)


emit: Callable[[tuple], None] = _emit  # a listener's own function, if it is alone and asks for none


def tell(method: str, *args: Any) -> None:
    """Call `method` of those listeners that have it (graph_ready, graph_done, marked)."""
    for listener in listeners:
        handler = getattr(listener, method, None)
        if handler is not None:
            handler(*args)


class span:
    """`with span("optimizer", "SGD", self):` reports the block to the listeners' `marked`."""

    __slots__ = ("what", "name", "subject", "t0")

    def __init__(self, what: str, name: str, subject: Any = None):
        self.what, self.name, self.subject = what, name, subject

    def __enter__(self) -> "span":
        self.t0 = perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        if listeners:
            tell("marked", self.what, self.name, self.t0, perf_counter_ns(), self.subject)


def spanned(what: str) -> Callable[[Callable], Callable]:
    """Decorator of a method: each call is reported as a span with the class's name."""

    def decorate(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def told(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not listeners:
                return fn(self, *args, **kwargs)
            with span(what, type(self).__name__, self):
                return fn(self, *args, **kwargs)

        return told

    return decorate


_DEEPEST = 40  # frames of a captured stack
_PACKAGE = __name__.partition(".")[0]
_OWN_PACKAGES = {_PACKAGE, "numpy"}
_known: dict[Any, bool] = {}  # module name -> whether it is ours: splitting a name costs 0.1 µs


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    own = _known.get(name)
    if own is None:
        own = _known[name] = str(name).partition(".")[0] in _OWN_PACKAGES
    return own


def capture_origin(skip: int = 1) -> tuple:
    """(code, instruction, scope) of the user's line that is running.

    Only the code object and the instruction's offset are kept, which takes 0.15 µs; the line number
    is looked up when needed (`site_of`). skip: how many frames are known to be the library's own.
    Fewer frames to look at is worth a higher number: Python makes an object of each.
    """
    frame = sys._getframe(skip)
    while _is_own(frame) and (outer := frame.f_back) is not None:
        frame = outer
    return frame.f_code, frame.f_lasti, modes.state.scope


def capture_stack(depth: int = _DEEPEST) -> tuple:
    """An origin followed by the calling frames: (code, instruction, scope, *frames).

    Each frame is (code, instruction), innermost first, without those of the library and of NumPy.
    """
    frame: FrameType | None = sys._getframe(1)
    frames = []
    while frame is not None and len(frames) < depth:
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
        self._outer = modes.Outer()

    def __enter__(self) -> "scope":
        own = modes.state.__dict__
        outer = own["scope"]
        self._outer.stack.append((outer, perf_counter_ns() if listeners else None))
        own["scope"] = f"{outer}/{self.name}" if outer else self.name
        return self

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        outer, t0 = self._outer.stack[-1]
        try:
            if listeners and t0 is not None:
                tell("marked", "scope", modes.state.scope, t0, perf_counter_ns(), None)
        finally:  # a listener may fail, or be interrupted as it writes
            modes.state.__dict__["scope"] = outer
            self._outer.stack.pop()
