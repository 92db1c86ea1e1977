"""The careful path of an op: taken while a mode, a transform or a listener asks for it.

`enter` says how a call is to run, before it runs; `tell_forward` tells the listeners, after.
"""

from typing import Any

from . import events, modes
from .tensor import Tensor


class Watch:
    """What this thread's modes ask of one call."""

    __slots__ = ("args", "forward", "kind", "recording", "result", "transformed")

    def __init__(self, recording: bool, args: tuple = (), forward: Any = None):
        self.recording = recording
        self.transformed = forward is not None  # whether a transform takes part
        self.args = args
        self.forward = forward
        self.kind = Tensor  # the class of the result
        self.result = None  # set when a transform has already run the call


# Outside transforms the answer is the same for every call, so two objects serve them all.
_RECORDED, _UNRECORDED = Watch(True), Watch(False)


def enter(op: Any, args: tuple, params: dict) -> Watch:
    """How this call runs under the thread's modes; its result, if a transform takes it over."""
    state = modes.state
    top: Any = _innermost(args) if state.level else Tensor
    if not top.level:
        return _RECORDED if state.recording else _UNRECORDED
    watch = Watch(state.recording, args, op.forward)
    top.run_at_level(watch, op, args, params)
    return watch


def tell_forward(
    op: Any, kind: type[Tensor], node: Any, args: tuple, y: Any, t0: int, t1: int
) -> None:
    """Tell the listeners that a call has run; of transforms, only the level that meets arrays.

    Then what the node saves goes to whoever takes it over (saved-tensor hooks, checkpoints).
    """
    if node is not None and events.wants_origin:
        node.origin = events.capture_origin()
    outputs = y if op.outputs else (y,)
    if kind.level and isinstance(outputs[0], Tensor):
        return
    event = ("forward", op.name, t0, t1, node, args, outputs)
    for hear in events.hearing:
        hear(event)
    if node is not None and not kind.level and modes.state.saving is not None:
        modes.state.saving.save(node, y)


def _innermost(args: tuple) -> Any:
    """The class of the argument that belongs to the innermost transform (the highest level)."""
    top = Tensor
    for x in args:
        if isinstance(x, Tensor) and x.level > top.level:
            top = type(x)
    return top
