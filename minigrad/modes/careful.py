"""The careful path of an op: taken while a mode, a transform or a listener is on.

`enter` decides, before a call, how it runs; `tell_forward` informs the listeners after it.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import NUMBERS
from ..engine import events, modes
from ..engine.errors import describe, refuse_left_behind
from ..engine.tensor import raw
from ..tensor_api.methods import each_of
from ..tensor_api.tensor import Tensor
from . import deterministic, session


class Watch:
    """How one call runs under this thread's modes."""

    __slots__ = ("args", "forward", "kind", "recording", "result", "transformed")

    def __init__(self, recording: bool, args: tuple = (), forward: Any = None):
        self.recording = recording
        self.transformed = forward is not None  # whether a transform takes part
        self.args = args
        self.forward = forward
        self.kind = Tensor  # the class of the result
        self.result = None  # set when a transform has already run the call


# Outside transforms there are only two answers, so two objects serve all calls.
_RECORDED, _UNRECORDED = Watch(True), Watch(False)

# Ops whose index may differ between examples under vmap -> the method of each_of that runs them.
_BY_INDEX = {"getitem": "read", "setitem": "write"}


def enter(op: Any, args: tuple, params: dict) -> Watch:
    """How this call runs under the thread's modes; its result, if a transform takes it over."""
    if deterministic.required:
        deterministic.refuse(op, args)
    if session.checked:
        session.refuse_mixed(op, args, params)
    state = modes.state
    if events.opening is not None and not (state.level or state.muted):
        events.opening(op.name)
    plain = state.plain
    if plain is not None:
        return _RECORDED if plain else _UNRECORDED
    if state.level and op.name in _BY_INDEX and (each := each_of(params.get("index"))):
        watch = Watch(True)
        watch.result = getattr(each, _BY_INDEX[op.name])(*args)
        return watch
    given = args
    if state.autocast is not None:
        args = state.autocast.cast(op, args)
    top: Any = _innermost(args) if state.level else Tensor
    recording = state.recording and top.level >= state.constant_below
    if not top.level and args is given:
        return _RECORDED if recording else _UNRECORDED
    watch = Watch(recording, args, op.forward)
    if top.level:
        top.run_at_level(watch, op, args, params)
    return watch


def tell_forward(
    op: Any, kind: type[Tensor], node: Any, args: tuple, params: dict, y: Any, t0: int, t1: int
) -> Any:
    """Inform the listeners of a call; inside transforms only of the level that computes on arrays.

    Then offer what the node saved to the Savers (saved-tensor hooks, checkpoints), and the call to
    the tapes that record. Returns y, with arrays instead of NumPy scalars, so that a tape can
    identify each output by its array.
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


def scalars_as_arrays(op: Any, values: list) -> list:
    """mg.sum(2.0): if no argument is a tensor, Python numbers are 0-d arrays to all but ufuncs.

    Beside an array they stay weak in elementwise ops, as they do beside a tensor.
    """
    weak = op.kind == "elementwise" and any(hasattr(x, "dtype") for x in values)
    if weak or isinstance(op.forward, np.ufunc):
        return values
    xp = next((array_module(x) for x in values if hasattr(x, "dtype")), np)
    return [xp.asarray(x) if type(x) in NUMBERS else x for x in values]


def as_result(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """A forward's result that is not a NumPy array, in the form that a tensor may hold."""
    if isinstance(y, np.generic):
        return np.asarray(y)  # see as_arrays
    if isinstance(y, Tensor | tuple):
        y = without_tensors(op, y, args, params)
    if not op.outputs and not hasattr(y, "dtype"):
        several = isinstance(y, tuple) and len(y) > 1
        advice = f", or a tuple of {len(y)} with outputs={len(y)}" if several else ""
        raise TypeError(
            f"the forward of {op.name} returned {describe(y)}; an op returns an array{advice}"
        )
    return y


def as_arrays(ys: Any) -> Any:
    """Several results, with arrays instead of the scalars that NumPy returns for 0-d ones.

    Scalars are read-only. Also, products of complex scalars are rounded differently from those of
    arrays, which use fused multiply-add, and a replay of a tape computes on arrays.
    """
    return tuple([np.asarray(y) if isinstance(y, np.generic) else y for y in ys])


def without_tensors(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """The array of a result that came out as a tensor because a static parameter was one.

    A parameter that requires a gradient is refused: it would silently get none. So is an argument
    left over from a transform that has ended, also where there are several results.
    """
    refuse_left_behind(op, args)
    for name, value in params.items():
        if isinstance(value, Tensor) and (value.level or value.requires_grad):
            raise TypeError(
                f"{op.name}: {name} is a constant here, and the one given, {describe(value)}, "
                f"asks for a derivative that it would not get; pass {name}={name}.item()"
            )
    return raw(y)


def _innermost(args: tuple) -> Any:
    """The class of the argument that belongs to the innermost transform (the highest level)."""
    top = Tensor
    for x in args:
        if isinstance(x, Tensor) and x.level > top.level:
            top = type(x)
    return top
