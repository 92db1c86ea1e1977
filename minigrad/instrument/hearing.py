"""The listener of an event log: it notes each event while its op waits.

Which call it is (calls.py), by shapes and dtypes: to keep an array would keep it alive. All else is
worked out once for each call; four values an event wait for the next batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..backends.sites import calling_frame
from ..engine import modes
from ..engine.events import capture_stack
from ..ops.work import needed_params
from ..tensor_api.tensor import Tensor
from .calls import site_key
from .formats import cotangents_of
from .kept import KeptGraphs
from .log_lines import Lines
from .memory import MemoryTracker
from .sampler import Sampler
from .wide import WideSources

FOLLOW_ALL = 256  # recorded calls whose graphs are followed, all of them;
ONE_IN = 13  # of later ones one in so many: a prime, since steps repeat themselves
TOLD = 64  # one in so many of those calls has its callers


def hearing(
    events: list,
    most: int,
    flush: Callable[[], None],
    lines: Lines,
    stack: int,
    kept: KeptGraphs,
    wide: WideSources,
    sampler: Sampler,
    memory: MemoryTracker | None,
    device: Any,
) -> Callable[[tuple], None]:
    """A function of one event: names bound here cost little.

    It adds FIELDS values to `events`, and calls flush() when `most` are there. The nodes of a call
    share its origin: an event leaves nothing behind for Python's cyclic collector.
    """
    add, own, here, state = events.extend, lines.threads.own, lines.threads.here, modes.state
    calls, known, forwards = lines.calls, lines.calls.known, lines.calls.forwards
    follow_all = FOLLOW_ALL

    def hear(event: tuple) -> None:
        nonlocal follow_all
        kind, op, t0, t1, node, inputs, outputs, params = event
        try:
            thread = own.number
        except AttributeError:
            thread = here()
        seq: Any = "null"
        origin = more = forward = None
        if node is not None:
            seq, origin = node.number, node.origin
        # which call it is: its line, its arrays, and what else its work depends on
        if kind == "forward":
            if origin is not None:
                site = site_key(origin)
            elif stack > 1 and node is not None:
                origin = capture_stack(stack)
                site = site_key(origin)
            else:  # below the user's line: this, the op's call, and what called that
                frame = calling_frame(4)
                code, instruction, scope = frame.f_code, frame.f_lasti, state.scope
                site = id(code), instruction, scope
            parents = ()
            if node is not None and len(node.parents) == len(inputs) and len(outputs) == 1:
                y, parents = node, node.parents  # of the arrays' shapes, and sooner asked
            if len(parents) == 2:
                x, b = parents
                arrays = y.shape, y.dtype, x.shape, x.dtype, b.shape, b.dtype
            elif len(parents) == 1:
                (x,) = parents
                arrays = y.shape, y.dtype, x.shape, x.dtype
            else:
                arrays = described(outputs, inputs)
            if params:
                more = tuple([(name, params.get(name)) for name in needed_params(op)])
        else:
            site = site_key(origin)
            arrays = described(outputs, cotangents_of(inputs[0]))
            if node is not None:
                more, forward = tuple(node.plan.slots), forwards.get(seq)
        key = kind, op, thread, node is None, site, arrays, more, forward
        try:
            call = known[key]
        except (KeyError, TypeError):  # the second: a parameter that cannot be a key
            if origin is None and kind == "forward":
                origin = code, instruction, scope
            call = calls.add(key, kind, op, thread, origin, arrays, more, forward)
        origin: Any = call.origin
        # what else there is to do
        if kind == "forward":
            if node is not None:
                node.origin = origin
                forwards[seq] = call
                if not seq % ONE_IN or follow_all:
                    follow_all = max(0, follow_all - 1)
                    kept.follow(node)
                    if sampler.due or not seq % TOLD:
                        sampler.called(op, t1, thread)
                        kept.forward_only(t1)
            if call.wide and (call.mixed or not wide.alone):
                came = wide.source(op, inputs, outputs, origin)
                if came is not None:
                    call = calls.came(call, came)
            if memory is not None:
                memory.forward(op, t1, node, inputs, outputs, (thread, origin))
        elif memory is not None:
            memory.backward(op, t1, node, inputs[0], outputs, (thread, origin))
        if device is not None:
            device.hear(kind, op, t0, t1, None if node is None else seq)
        add((call, t0, t1, seq))
        if len(events) >= most:
            flush()

    return hear


def described(outputs: Sequence, inputs: Sequence) -> tuple:
    """Shape and dtype of each in turns, (None, None) of a number or a missing one.

    Their number is in front where there is not one output.
    """
    found: list[Any] = [] if len(outputs) == 1 else [len(outputs)]
    for x in (*outputs, *inputs):
        if isinstance(x, Tensor):
            x = x._data
        try:
            found += x.shape, x.dtype
        except AttributeError:
            found += None, None
    return tuple(found)
