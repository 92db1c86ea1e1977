"""The slow path of an op: taken while a mode, a transform or a listener is on.

`enter` decides, before a call, how it runs; `tell_forward` informs the listeners after it.
"""

from typing import Any

from ..backends import device
from ..engine import events, modes, primitive
from ..engine.errors import refuse_left_behind
from ..engine.graph import gpu_array
from ..engine.help import operand
from ..tensor_api.methods import each_of
from ..tensor_api.tensor import Tensor
from . import deterministic, session


class CallMode:
    """How one call runs in a transform, which takes part by changing this.

    args, forward   what is called with what
    kind            the class of the result
    recording       whether the call may leave a node
    result          set when a transform has already run the call
    """

    __slots__ = ("args", "forward", "kind", "recording", "result")

    def __init__(self, recording: bool, args: tuple, forward: Any):
        self.recording, self.args, self.forward = recording, args, forward
        self.kind, self.result = Tensor, None


# Ops whose index may differ between examples under vmap -> the method of each_of that runs them.
_BY_INDEX = {"getitem": "read", "setitem": "write"}


def enter(op: Any, args: tuple, params: dict) -> tuple:
    """How a call runs: (its result if a transform has run it, args, forward, class of the result,
    whether it is recorded, whether listeners, Savers or tapes get it).
    """
    if device.several:
        there = device.at(gpu_array(args))
        if there is not device.HERE:
            with there:
                return op.general(*args, **params), args, None, Tensor, False, False
    state = modes.state
    here = state.__dict__  # of this thread: a dict is read in half the time of a thread-local
    run = here["pending"]
    if run is not None and not (here["level"] or here["saving"] or here["tapes"]):
        done = run.call(op, args, params, here)
        if done is not None:
            return done, args, None, Tensor, False, False
    if not modes.checked and state.plain:
        if modes.levels:
            refuse_left_behind(op, args)  # those of a transform that another thread runs
        return None, args, op.forward, Tensor, True, bool(events.listeners)
    kinds = [*map(type, args)]
    if list in kinds or tuple in kinds:  # a transform hands them to rules
        given = args
        args = tuple(
            [operand(x, op, given, params) if type(x) in (list, tuple) else x for x in args]
        )
    heard = bool(events.listeners or state.saving or state.tapes)
    if deterministic.required:
        deterministic.refuse(op, args)
    if session.checked:
        session.refuse_mixed(op, args, params)
    if events.opening is not None and not (state.level or state.muted):
        events.opening(op.name)
    plain = state.plain
    if plain is not None:
        return None, args, op.forward, Tensor, plain, heard
    if state.level and op.name in _BY_INDEX and (each := each_of(params.get("index"))):
        return getattr(each, _BY_INDEX[op.name])(*args), args, op.forward, Tensor, False, heard
    if state.autocast is not None:
        args = state.autocast.cast(op, args)
    top: Any = _innermost(args) if state.level else Tensor
    recording = state.recording and top.level >= state.constant_below
    if not top.level:
        return None, args, op.forward, Tensor, recording, heard
    mode = CallMode(recording, args, op.forward)
    top.run_at_level(mode, op, args, params)
    return mode.result, mode.args, mode.forward, mode.kind, mode.recording, heard


def tell_forward(
    op: Any, kind: type[Tensor], node: Any, args: tuple, params: dict, y: Any, t0: int, t1: int
) -> Any:
    """Inform the listeners of a call; inside transforms only of the level that computes on arrays.

    Then offer what the node saved to the Savers (saved-tensor hooks, checkpoints), and the call to
    the tapes that record. Returns y, with arrays instead of NumPy scalars: a tape identifies each
    output by its array.
    """
    state = modes.state
    if state.muted:
        return y
    outputs = y if op.outputs else (y,)
    if kind.level and isinstance(outputs[0], Tensor):
        return y
    events.emit(("forward", op.name, t0, t1, node, args, outputs, params))
    if state.plain is None and not kind.level:
        if node is not None:
            for saver in reversed(state.saving):
                saver.take(node, y, args)
        if state.tapes:
            for tape in state.tapes:
                tape.record(op, node, args, params, outputs)
    return y


def _innermost(args: tuple) -> Any:
    """The class of the argument that belongs to the innermost transform (the highest level)."""
    top = Tensor
    for x in args:
        if isinstance(x, Tensor) and x.level > top.level:
            top = type(x)
    return top


primitive.enter, primitive.tell = enter, tell_forward
device.on_second_gpu.append(modes.add_check)
