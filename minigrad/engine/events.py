"""Events: one compact tuple for each op, forward and backward, passed to every listener.

The engine knows no tool. A tool is a listener: a function of one event, or an object with a method
`hear(event)`. An event is

    (kind, op, t0, t1, node, inputs, outputs, params)

`kind` is "forward" or "backward", `op` the op's name. `t0` and `t1` are host nanoseconds
(`time.perf_counter_ns`). `node` is the graph node, None if nothing was recorded. `inputs` are the
call's arguments: arrays, tensors, numbers; in a backward the cotangent. `outputs` are its results;
in a backward the contributions, None for an input that gets none. Read shapes and dtypes from these
tuples at once and never keep them: that would keep the arrays alive. `params` are the static
parameters of a forward.

A listener may also have three methods. The engine calls `graph_ready(order, roots)` as a backward
starts, while saved arrays are still there, and `graph_done(error)` after its end. It calls
`marked(what, name, t0, t1, subject)` after anything else that took this thread from t0 to t1: a
"scope", a user's "hook", an "optimizer" step, or "waiting" for another rank.

A listener that is content with the calls of a replayed program, in place of its ops, has
`replayed(call, t0, t1)` (replay/heard.py). If a listener lacks it, compiled functions run op by op.

The only listener may have `brief(node, y, t0, t1)`. The engine calls it after a recorded forward
with one result, before it makes an event. If the method returns true, no event follows.

Without a listener an op reads one global for all this (see `modes.active`).
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..backends import sites
from ..backends.device import array_module
from ..backends.locks import Lock
from . import modes

listeners: tuple[Any, ...] = ()
hearing: tuple[Callable[[tuple], None], ...] = ()  # the function of each listener
wants_origin = False  # some listener asks for source site and scope
stack_depth = 0  # how many frames of the user's code an origin keeps, if more than its line
synchronize: Callable[[tuple], None] | None = None  # waits until the device has made these results
clock: Callable[[], int] = perf_counter_ns  # the time of an event; also marks it on a device
opening: Callable[[str], None] | None = None  # told an op's name before it runs (with add_check)
around: Callable[[Callable], Callable] | None = None  # a wrapper for the vjp of each node
_asked: tuple[tuple[bool, int, bool], ...] = ()  # (origin, stack, sync) of each listener
_lock = Lock()


def listen(listener: Any, origin: bool = False, stack: int = 0, sync: bool = False) -> None:
    """Hear every event from now on.

    origin  nodes also keep their source line and scope
    stack   and this many of the frames that led there
    sync    wait for the device after each op: its time is then the op's alone (slow)
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
        heard = _remove(listener)
    if heard:
        modes.add_reason(-1)


def _remove(listener: Any) -> bool:
    """Take a listener off the list; whether it was there. Under the lock."""
    for i, other in enumerate(listeners):
        if other is listener:
            _set(listeners[:i] + listeners[i + 1 :], _asked[:i] + _asked[i + 1 :])
            return True
    return False


def _set(who: tuple, asked: tuple) -> None:
    global listeners, hearing, emit, brief, wants_origin, stack_depth, synchronize, _asked
    listeners, _asked, modes.listening = who, asked, len(who)
    hearing = tuple([getattr(listener, "hear", listener) for listener in who])
    wants_origin = any(origin for origin, _, _ in asked)
    stack_depth = max((stack for _, stack, _ in asked), default=0)
    synchronize = _wait_for_device if any(sync for _, _, sync in asked) else None
    alone = len(who) == 1 and synchronize is None
    if wants_origin and alone:
        alone = getattr(who[0], "finds_origin", False)
    emit = hearing[0] if alone else _emit
    brief = (alone and getattr(who[0], "brief", None)) or _whole


def _wait_for_device(ys: tuple) -> None:
    """Wait for the stream that computes ys; NumPy has none and is done when it returns."""
    y = next((y for y in ys if y is not None), None)
    if hasattr(y, "device") and hasattr(y, "toDlpack"):  # CuPy
        array_module(y).cuda.get_current_stream().synchronize()


def _emit(event: tuple) -> None:
    """Hand one event to every listener, with what they asked for: true times, and its origin."""
    if synchronize is not None:
        kind, name, t0, _, node, inputs, outputs, params = event
        synchronize(outputs)
        event = (kind, name, t0, perf_counter_ns(), node, inputs, outputs, params)
    if wants_origin:
        node = event[4]
        if node is not None and event[0] == "forward":
            if stack_depth > 1:
                node.origin = capture_stack(stack_depth)
            else:  # below the user's line: this, the op's call, and what called that
                frame = sites.calling_frame(4)
                node.origin = frame.f_code, frame.f_lasti, modes.state.scope
    for hear in hearing:
        hear(event)


emit: Callable[[tuple], None] = _emit  # a listener's own function, if it is alone and asks for none


def _whole(node: Any, y: Any, t0: int, t1: int) -> bool:
    """The `brief` of listeners that take every event whole."""
    return False


brief: Callable[[Any, Any, int, int], bool] = _whole  # such a listener's own, if it has one


def tell(method: str, *args: Any) -> None:
    """Call `method` of those listeners that have it (graph_ready, graph_done, marked)."""
    for listener in listeners:
        handler = getattr(listener, method, None)
        if handler is not None:
            handler(*args)


def capture_origin(skip: int = 1) -> tuple:
    """(code, instruction, scope) of the user's line that is running; sites.py reads it later.

    skip: how many frames are known to be the library's own.
    """
    frame = sites.calling_frame(skip + 1)
    return frame.f_code, frame.f_lasti, modes.state.scope


def capture_stack(depth: int = sites.DEEPEST) -> tuple:
    """An origin followed by the calling frames: (code, instruction, scope, *frames)."""
    frames = sites.calling_frames(depth)
    return *frames[0], modes.state.scope, *frames
