"""The listener of an event log: what is noted of each event while its op waits.

Shapes and dtypes, of no array more: to keep one would keep it alive. Everything that can be worked
out later is (calls.py), in batches, which takes a third of the time.
"""

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from ..backends.sites import calling_frame
from ..engine import modes
from ..engine.events import capture_stack
from ..ops.work import needed_params
from ..tensor_api.tensor import Tensor
from .formats import cotangents_of
from .kept import KeptGraphs
from .memory import MemoryTracker
from .sampler import Sampler
from .wide import COMPLEX128, FLOAT64, WideSources

FOLLOW_ALL = 256  # recorded calls whose graphs are followed, all of them;
ONE_IN = 13  # of later ones one in so many: a prime, since steps repeat themselves
TOLD = 64  # one in so many of those calls is told with its callers


def hearing(
    events: list,
    most: int,
    flush: Callable[[], None],
    threads: Any,
    stack: int,
    kept: KeptGraphs,
    wide: WideSources,
    sampler: Sampler,
    memory: MemoryTracker | None,
    device: Any,
) -> Callable[[tuple], None]:
    """A function of one event: names bound here cost little.

    It adds FIELDS values to `events`, and calls flush() when `most` are there. `arrays` among them
    are shapes and dtypes in turns, first of the outputs; their number in front where it is not one.
    """
    add, own, here, state = events.extend, threads.own, threads.here, modes.state
    follow_all = FOLLOW_ALL

    def hear(event: tuple) -> None:
        nonlocal follow_all
        kind, op, t0, t1, node, inputs, outputs, params = event
        try:
            thread = own.number
        except AttributeError:
            thread = here()
        seq: Any = None
        origin = more = came = None
        vertices = ()
        if len(outputs) != 1:
            arrays = [len(outputs)]
            for y in outputs:
                arrays += (y.shape, y.dtype) if y.__class__ is ndarray else described(y)
            dtype = arrays[2] if outputs else None
        elif node is not None and kind == "forward":
            dtype = node.dtype  # at hand there
            arrays = [node.shape, dtype]
        else:
            arrays = [*described(outputs[0])]
            dtype = arrays[1]
        if node is not None:
            seq, origin = node.number, node.origin
        if kind == "forward":
            if origin is None:  # nobody has looked for it yet
                if stack > 1 and node is not None:
                    origin = capture_stack(stack)
                else:  # below the user's line: this, the op's call, and what called that
                    frame = calling_frame(4)
                    origin = frame.f_code, frame.f_lasti, state.scope
            if node is not None:
                node.origin = origin
                if len(node.parents) == len(inputs):
                    vertices = node.parents  # of the inputs' shapes, and sooner asked
                if not seq % ONE_IN or follow_all:
                    follow_all = max(0, follow_all - 1)
                    kept.follow(node)
                    if sampler.due or not seq % TOLD:
                        sampler.called(op, t1, thread)
                        kept.forward_only(t1)
            if dtype is FLOAT64 or dtype is COMPLEX128:
                if not wide.alone or not all_are(dtype, vertices):
                    came = wide.source(op, inputs, outputs, origin)
            if params:
                more = tuple([(name, params.get(name)) for name in needed_params(op)])
            if memory is not None:
                memory.forward(op, t1, node, inputs, outputs, (thread, origin))
        else:
            more = None if node is None else node.plan
            if memory is not None:
                memory.backward(op, t1, node, inputs[0], outputs, (thread, origin))
            inputs = cotangents_of(inputs[0])
        if vertices:
            for vertex in vertices:
                arrays += vertex.shape, vertex.dtype
        else:
            for x in inputs:
                if x.__class__ is Tensor:
                    x = x._data
                arrays += (x.shape, x.dtype) if x.__class__ is ndarray else described(x)
        if device is not None:
            device.hear(kind, op, t0, t1, seq)
        add((kind, op, t0, t1, thread, seq, origin, arrays, more, came))
        if len(events) >= most:
            flush()

    return hear


def all_are(dtype: Any, vertices: tuple) -> bool:
    """Whether there are any, and all of this dtype."""
    for vertex in vertices:
        if vertex.dtype is not dtype:
            return False
    return bool(vertices)


def described(x: Any) -> tuple:
    """(shape, dtype) of an array or tensor; of a number or a missing one (None, None)."""
    if isinstance(x, Tensor):
        x = x._data
    try:
        return x.shape, x.dtype
    except AttributeError:
        return None, None
