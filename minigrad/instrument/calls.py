"""Calls: what the events of one op, on one line and with arrays of one shape, have in common.

A program repeats itself, so nearly every event is of a call that was written before: it is found by
one look-up, and what its line says besides times and numbers was worked out once.
"""

import contextlib
import math
from typing import Any

FIELDS = 10  # of an event that waits: kind, op, t0, t1, thread, seq, origin, arrays, more, came
_MOST_CALLS = 50_000  # remembered; forgotten ones are worked out again when they return
_MOST_FORWARDS = 200_000  # recorded calls remembered, for the work of their backward


class Call:
    """One kind of event.

    outputs, inputs  (shape, dtype, bytes) of each array, None for a number or a missing one
    more             of a forward: (name, value) of the parameters that its work depends on; of a
                     backward: its plan
    forward          of a backward: the call that it belongs to, if the log holds that
    text             what its lines begin and end with (log_lines.py), once that is made
    """

    __slots__ = ("kind", "op", "origin", "outputs", "inputs", "more", "forward", "text")

    def __init__(
        self, kind: str, op: str, origin: tuple | None, arrays: tuple, more: Any, forward: Any
    ):
        self.kind, self.op, self.origin, self.more = kind, op, origin, more
        self.outputs, self.inputs = _outputs_and_inputs(arrays)
        self.forward: Call | None = forward
        self.text: tuple[str, str] | None = None


class Calls:
    """The calls that have been seen, and which of them each recorded node was.

    known     by all that tells one from another
    forwards  by the number of the node
    """

    def __init__(self) -> None:
        self.known: dict[Any, Call] = {}
        self.forwards: dict[int, Call] = {}

    def add(self, key: tuple, event: tuple) -> Call:
        """A call that is seen for the first time: kind, op, origin, arrays, more, forward."""
        call = Call(*event)
        if len(self.known) >= _MOST_CALLS:
            self.known.clear()
        with contextlib.suppress(TypeError):  # a parameter that cannot be a key
            self.known[key] = call
        return call

    def forget_old(self) -> None:
        """Keep the number of recorded calls bounded."""
        forwards = self.forwards
        if len(forwards) > _MOST_FORWARDS:
            for old in list(forwards)[: len(forwards) - _MOST_FORWARDS // 2]:
                del forwards[old]


def stack_key(origin: tuple | None) -> list:
    """A captured stack as a part of a key, without the code objects: their hash is slow."""
    if origin is None:
        return []
    found = [origin[2]]
    for code, instruction in origin[3:]:
        found += id(code), instruction
    return found


def _outputs_and_inputs(arrays: tuple) -> tuple[tuple, tuple]:
    """What `hearing` notes of a call's arrays, apart: (shape, dtype, bytes) of each."""
    many, start = (arrays[0], 1) if len(arrays) % 2 else (1, 0)
    each = [
        None if shape is None else (shape, dtype, math.prod(shape) * dtype.itemsize)
        for shape, dtype in zip(arrays[start::2], arrays[start + 1 :: 2], strict=True)
    ]
    return tuple(each[:many]), tuple(each[many:])
