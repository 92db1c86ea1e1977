"""Calls: the common part of the events of one op, on one line and with arrays of one shape.

A program repeats itself, so nearly every event belongs to a known call. One look-up finds it, and
all of its line except times and numbers is worked out once.
"""

import contextlib
import math
from copy import copy
from typing import Any

from .wide import COMPLEX128, FLOAT64

_PLAIN = 3  # arrays of a call that is soon described: a result and two inputs
FIELDS = 4  # of an event that waits: call, t0, t1, seq
_MOST_CALLS = 50_000  # remembered; forgotten ones are worked out again when they return
_MOST_FORWARDS = 200_000  # recorded calls remembered, for the work of their backward


class Call:
    """One kind of event.

    arrays           shape and dtype of each, as `hearing` notes them
    more             of a forward: (name, value) of the parameters that its work depends on; of a
                     backward: the numbers of the inputs that its contributions are for
    forward          of a backward: the call that it belongs to, if the log has heard that
    wide, mixed      of a forward whose result is of double precision; not of such inputs alone
    came             the site where double precision came in, if it met a narrower float here
    sort             what it costs to hear: as one that is "plain", "described" by parameters or
                     with more arrays than two inputs, or of a "backward"
    text             what its lines say before, between and after times and number (log_lines.py)
    """

    __slots__ = (
        "kind", "op", "thread", "origin", "arrays", "more", "forward", "wide", "mixed", "came",
        "sort", "text",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        op: str,
        thread: int,
        origin: tuple | None,
        arrays: tuple = (),
        more: tuple | None = None,
        forward: "Call | None" = None,
    ):
        self.kind, self.op, self.thread, self.origin = kind, op, thread, origin
        self.arrays, self.more, self.forward = arrays, more, forward
        many, dtypes = _split(arrays, 1)
        made = dtypes[0] if many else None
        self.wide = kind == "forward" and (made is FLOAT64 or made is COMPLEX128)
        self.mixed = self.wide and dtypes[:1] + dtypes[many:] != (made,) * len(dtypes[many - 1 :])
        self.came: tuple | None = None
        self.sort = "backward" if kind == "backward" else "plain"
        if kind == "forward" and (more is not None or len(dtypes) > _PLAIN):
            self.sort = "described"
        self.text: tuple[str, str, str] | None = None

    def outputs_and_inputs(self) -> tuple[tuple, tuple]:
        """Of each array (shape, dtype, bytes); None for a number or a missing one.

        Worked out as the call is written, at a separate time: an op does not wait for it.
        """
        (many, shapes), (_, dtypes) = _split(self.arrays, 0), _split(self.arrays, 1)
        each = tuple(
            None if shape is None else (shape, dtype, math.prod(shape) * dtype.itemsize)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        )
        return each[:many], each[many:]


class Calls:
    """The calls that have been heard, and which of them each recorded node was.

    known     by all that tells one from another
    forwards  by the number of the node
    """

    def __init__(self) -> None:
        self.known: dict[Any, Call] = {}
        self.forwards: dict[int, Call] = {}

    def add(self, key: tuple, *described: Any) -> Call:
        """A call that is heard for the first time, made of what Call takes."""
        call = Call(*described)
        if len(self.known) >= _MOST_CALLS:
            self.known.clear()
        with contextlib.suppress(TypeError):  # a parameter that cannot be a key
            self.known[key] = call
        return call

    def came(self, call: Call, origin: tuple) -> Call:
        """The same call, where double precision has come in on this line."""
        key = call, id(origin[0]), origin[1]
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = copy(call)
            found.came, found.text = origin, None
        return found

    def forget_old(self) -> None:
        """Keep the number of recorded calls bounded."""
        forwards = self.forwards
        if len(forwards) > _MOST_FORWARDS:
            for old in list(forwards)[: len(forwards) - _MOST_FORWARDS // 2]:
                del forwards[old]


def site_key(origin: tuple | None) -> tuple | None:
    """An origin as a part of a key, without the code objects: their hash is slow."""
    if origin is None:
        return None
    code, instruction, scope, *frames = origin
    return id(code), instruction, scope, *[part for c, at in frames for part in (id(c), at)]


def _split(arrays: tuple, part: int) -> tuple[int, tuple]:
    """(how many are outputs, the shapes or the dtypes of all) of what `hearing` notes of arrays."""
    many, start = (arrays[0], 1) if len(arrays) % 2 else (min(1, len(arrays)), 0)
    return many, arrays[start + part :: 2]
