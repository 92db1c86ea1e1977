"""The record of a call in a run, and the comparison with another call."""

from math import copysign
from typing import Any

import numpy as np

from ..backends import device
from ..engine import events, modes, versions
from ..engine.graph import TensorBase
from .awaited import Awaited, Spec, spec_of
from .heard import all_hear_replays

_PLAIN = {int, str, bool, type(None)}  # types whose equal values are interchangeable


class Constant:
    """An argument that is neither tensor nor array; compared by type and value."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


class Outside:
    """A tensor or array that a segment took from outside, numbered by first use.

    varying   whether each call may bring another object of the same form: its array is then an
              input of the program. Otherwise each call must bring the same object, and the program
              reads its memory.
    shares    the number of an earlier Outside with the same array, or None
    """

    __slots__ = (
        "tensor", "is_tensor", "array", "needs", "varying", "first_use", "shares", "last_write",
    )  # fmt: skip

    def __init__(self, x: Any, varying: bool, first_use: tuple, shares: int | None):
        self.tensor, self.array, self.needs = x, array_of(x), needs(x)
        self.is_tensor = isinstance(x, TensorBase)
        self.last_write = versions.last_write_here()  # before its first use
        self.varying, self.first_use, self.shares = varying, first_use, shares

    def fits(self, x: Any) -> bool:
        """Whether x may replace this one."""
        if x is self.tensor and not self.varying:  # nearly always
            if not self.is_tensor:
                return True
            return x._data is self.array and (x.node is not None) is self.needs
        if not self.is_of_its_kind(x):
            return False
        array = x._data if self.is_tensor else x
        if not self.varying:
            return array is self.array and (x is self.tensor or not self.needs)
        return (
            type(array) is type(self.array)
            and array.shape == self.array.shape
            and array.dtype == self.array.dtype
            and array.strides == self.array.strides
            and getattr(array, "device", None) == getattr(self.array, "device", None)
        )

    def is_of_its_kind(self, x: Any) -> bool:
        """Whether x is a tensor or an array, like this one, and agrees in requiring a gradient."""
        if isinstance(x, TensorBase):
            return self.is_tensor and (x.node is not None) is self.needs
        return not self.is_tensor and is_array(x)

    def is_same(self, known: Any, x: Any) -> bool:
        """Whether x is interchangeable with the constant `known`: it has the same array."""
        if isinstance(x, TensorBase) is not self.is_tensor or needs(x):
            return False
        return array_of(x) is array_of(known)


class Call:
    """One call of a segment, of an op or of a backward.

    args        for each argument the number i of a value, ~k for Outside k, or a Constant
    outputs     the Specs of its results; those of a backward are the leaves' gradients
    several     whether it returned a tuple
    only        the Spec of its single result, if it draws nothing and writes nothing; else None
    recording   whether the mode recorded ops for a backward
    leaves      of a backward: for each output (k of the leaf's Outside, whether it had a gradient)
    draws       whether it draws from the library's generator
    writes      whether it wrote into arrays among its parameters, such as running statistics
    returns     whether the function returned after it, before the backward of its results
    origin      the user's line that first made the call: a repetition runs somewhere else
    """

    __slots__ = (
        "op", "args", "params", "outputs", "only", "several", "recording", "leaves", "draws",
        "writes", "returns", "origin",
    )  # fmt: skip

    def __init__(self, op: Any, args: tuple, params: dict, recording: bool):
        self.op, self.args, self.params, self.recording = op, args, params, recording
        self.outputs: list[Spec] = []
        self.only: Spec | None = None
        self.several = False
        self.leaves: tuple | None = None
        self.origin: tuple | None = None
        self.writes = self.returns = False
        self.draws = "generator" in getattr(op, "defaults", ())


END: Call = Call(None, (), {}, True)  # after the last call of a program: no op is equal to it


def array_of(x: Any) -> Any:
    """The array of a tensor; an array itself."""
    return x._data if isinstance(x, TensorBase) else x


def needs(x: Any) -> bool:
    """Whether x requires a gradient."""
    return isinstance(x, TensorBase) and x.node is not None


def is_array(x: Any) -> bool:
    """Whether x is an array of NumPy or CuPy."""
    return hasattr(x, "strides") and hasattr(x, "shape")


def same(a: Any, b: Any) -> bool:
    """Whether two static values have one type and value: NaN is NaN, arrays compare by bytes."""
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in _PLAIN:
        return a == b
    if a is b:
        return not isinstance(a, TensorBase)  # a tensor's numbers may have changed
    if isinstance(a, TensorBase):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if kind is float:
        return a == b and copysign(1, a) == copysign(1, b) or a != a and b != b
    if kind is tuple or kind is list:
        if len(a) != len(b):
            return False
        if _PLAIN.issuperset(map(type, a)):  # such as axes, or a shape
            return a == b and [*map(type, a)] == [*map(type, b)]
        return all(map(same, a, b))
    if kind is dict:
        if a.keys() != b.keys():
            return False
        for key, value in a.items():
            if not same(value, b[key]):
                return False
        return True
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    try:
        return bool(a == b)
    except Exception:
        return False


def arrays_in(value: Any) -> list:
    """The arrays in a static value, also in nested tuples, lists and dicts."""
    if is_array(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [x for part in parts for x in arrays_in(part)] if _is_nested(value) else []


def _is_nested(value: Any) -> bool:
    return isinstance(value, tuple | list | dict)


def kept(value: Any) -> Any:
    """A copy of a static value for a recording: the program may write to its arrays and lists."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (tuple, list):
        return type(value)([kept(part) for part in value])
    if type(value) is dict:
        return {key: kept(part) for key, part in value.items()}
    return value


def has_tensor(value: Any) -> bool:
    """Whether a static value contains a tensor, also in nested tuples, lists and dicts."""
    if isinstance(value, TensorBase):
        return True
    if isinstance(value, tuple | list):
        return any(map(has_tensor, value))
    return isinstance(value, dict) and any(map(has_tensor, value.values()))


def mode_in_the_way(here: dict) -> str:
    """Why ops cannot be awaited in these modes of a thread; "" if they can."""
    if here["level"]:
        return "it runs inside a transform of mg.func"
    if here["tapes"] or here["saving"] or here["anomaly"] is not None:
        return "a tape, saved-tensor hooks, a checkpoint or anomaly mode looks at every op"
    if here["autocast"] is not None:
        return "it runs under autocast"
    if device.several:
        return "several GPUs are in use, and a program runs on one"
    if modes.checked or here["session"] is not None:
        return "a session or deterministic mode looks at every op"
    if events.listeners and not all_hear_replays():
        return "a listener (an event log, a profile of memory) hears every op"
    return ""


def unfit(op: Any, args: tuple, params: dict, gradients: set[int]) -> str:
    """Why a call cannot be recorded; "" if it can.

    gradients   the numbers of the values that a backward of this segment computes
    """
    if modes.state.autocast is not None:
        return f"{op.__name__} runs under autocast"
    if has_tensor(params) or any(isinstance(x, list | tuple) for x in args):
        return f"{op.__name__} has a tensor among its static parameters"
    if any(type(x) is Awaited and spec_of(x).index in gradients for x in args):
        return f"{op.__name__} takes a gradient"
    if op.__name__ == "device_copy" and "cpu" not in (params["device"], params["source"]):
        return "device_copy goes from one GPU to another, and a program runs on one"
    if params.get("generator") is not None:
        return f"{op.__name__} draws from a generator of its own"
    return ""
