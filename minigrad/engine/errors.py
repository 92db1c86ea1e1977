"""The errors that only this engine raises, and what each holds of that which it speaks of.

An attribute is None where the error does not know it. Ops are told by their names; `shape` and
`dtype` are what was needed, `given_shape` and `given_dtype` what came instead. They survive
pickling, and so the way from a worker process.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.device import ErrorAbout

# Messages begin with the call: "vmap: in_dims ...", "median(x: float64 (3,)): ...".
_CALL = re.compile(r"([A-Za-z_][\w.]*)(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?: ")


class MinigradError(ErrorAbout):
    """Base of the errors that only this engine raises.

    call   the name of the function, transform or class that the message begins with
    """

    @property
    def call(self) -> str | None:
        """The function, transform or class that the message begins with; None if with none."""
        found = _CALL.match(Exception.__str__(self))
        return found and found[1]


class _OfArrays(MinigradError):
    """Base of errors about a shape or a dtype."""

    shape: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    given_shape: tuple[int, ...] | None = None
    given_dtype: np.dtype | None = None


class GraphReleasedError(_OfArrays, RuntimeError):
    """A second backward reached a node whose saved arrays were already freed.

    op, number, shape, dtype   of the node: the op's name, its place in the order of making
    """

    op: str | None = None
    number: int | None = None


class RuleError(_OfArrays, RuntimeError):
    """A derivative rule is missing, or it returned something of the wrong shape or kind.

    op, argument               whose rule: the op's name, and that of the input
    shape, dtype               of that input
    given_shape, given_dtype   of what the rule returned
    """

    op: str | None = None
    argument: str | None = None


class SeedError(_OfArrays, ValueError):
    """The cotangent that starts a backward is missing or does not fit its root.

    shape, dtype               of the root
    given_shape, given_dtype   of the cotangent
    """


class InPlaceError(_OfArrays, RuntimeError):
    """Memory that a backward needs was changed in place, or a change cannot be recorded.

    op, argument, shape, dtype   what was changed: an argument of an op, or "y", its result
    versions                     (when the op ran, now) of its memory
    site                         of the last change: {"file", "line", "function"}
    """

    op: str | None = None
    argument: str | None = None
    versions: tuple[int, int] | None = None
    site: dict[str, Any] | None = None


class HookError(_OfArrays, RuntimeError):
    """A hook stands where none can run, returned what is no gradient there, or stopped its loop.

    shape, dtype               of the gradient that the hook got, or of the tensor it was for
    given_shape, given_dtype   of what it returned
    """


class GraphInUseError(MinigradError, RuntimeError):
    """Two threads ran backward on one graph at once, and one of them frees what it has used.

    ops       the names of ops that both go through
    threads   the numbers of the two threads (threading.get_ident); None for a parallel backward
    """

    ops: tuple[str, ...] | None = None
    threads: tuple | None = None


class AnomalyError(MinigradError, RuntimeError):
    """An op made a NaN or an Inf under detect_anomaly.

    op              the op's name
    phase           "forward" or "backward"
    value           "NaN" or "Inf"
    stack           where the forward call was made: (file, line, function), innermost user frame
                    first
    backward_stack  where the backward was called, in the same form; empty in the forward phase
    recorded_by     of a call that a backward has recorded (create_graph): (op, stack) of the one
                    whose rule it is part of; then of the one that recorded that; and so on
    """

    def __init__(
        self, message: str, op: str = "", phase: str = "", value: str = "", stack: Sequence = ()
    ):  # a pickled one comes back by its message alone, and then gets its attributes
        super().__init__(message)
        self.op, self.phase, self.value, self.stack = op, phase, value, list(stack)
        self.backward_stack: list = []
        self.recorded_by: list = []


class ImplementationError(MinigradError, NotImplementedError):
    """An op has no forward for the device of its arrays.

    op, device   the op's name, and where its arrays are
    devices      those for which it has a forward
    """

    op: str | None = None
    device: str | None = None
    devices: tuple[str, ...] | None = None


class DeterminismError(MinigradError, RuntimeError):
    """An op that may not repeat bit for bit ran while deterministic algorithms are asked for.

    op, device   the op's name, and where it ran
    """

    op: str | None = None
    device: str | None = None


class SessionMismatch(MinigradError, RuntimeError):
    """An op was given tensors of two sessions.

    sessions    the two, or of a pickled error None
    ids         their numbers
    op          the op's name; "track" where a tensor of one was to join the other
    arguments   the names of the two arguments
    """

    sessions: tuple | None = None
    ids: tuple[int, int] | None = None
    op: str | None = None
    arguments: tuple[str, str] | None = None

    def __reduce__(self) -> tuple:
        return type(self), self.args, {**vars(self), "sessions": None}


class CheckpointError(MinigradError, RuntimeError):
    """A checkpointed function did something else when it was computed again for the backward.

    op   the name of the op that differs
    """

    op: str | None = None


class TapeError(_OfArrays, RuntimeError):
    """A tape was asked for what it has not recorded, or cannot replay.

    op                         the name of the op that cannot be replayed, or gave another result
    shape, dtype               what the recording has
    given_shape, given_dtype   what came
    """

    op: str | None = None


class TransformError(_OfArrays, RuntimeError):
    """A function transform (jvp, vmap, grad) was used in a way it cannot honour.

    call                       the transform
    given_shape, given_dtype   of the tensor, where it is about one; shape, dtype: what it needs
    """


class ConvergenceError(MinigradError, RuntimeError):
    """A solver did not reach its tolerance, or the system that a derivative solves is singular.

    steps      how many were made
    residual   how far the equation was off then (the largest of the examples)
    tol        the tolerance that was asked for
    """

    explained = True  # it names the call itself
    steps: int | None = None
    residual: float | None = None
    tol: float | None = None


class StateError(MinigradError, ValueError, RuntimeError):
    """The dictionary given to load_state_dict is not that of this module or optimizer.

    missing, unexpected   names that the state lacks, and that it has besides
    unfit                 names of entries whose shape or dtype does not fit
    """

    missing: tuple[str, ...] | None = None
    unexpected: tuple[str, ...] | None = None
    unfit: tuple[str, ...] | None = None


class FormatError(MinigradError, ValueError):
    """A file is damaged, too large, or written by a newer version.

    The message may quote the file: it is cut, and has no characters that a terminal would obey.

    where   the file or document that the message begins with, and the line, where it names one
    """

    MOST = 600  # characters

    def __init__(self, message: str = "", **about: Any):
        text = "".join(c if c.isprintable() else "?" for c in message[: self.MOST])
        super().__init__(text + "…" * (len(message) > self.MOST), **about)

    @property
    def where(self) -> str | None:
        """The file or document that the message begins with; None if with none."""
        head, colon, _ = str(self).partition(": ")
        return head if colon else None


# -- what errors say ------------------------------------------------------------------------


def about(needed: Any, given: Any = None) -> dict[str, Any]:
    """The attributes of an error about an array that is needed, and what came instead."""
    found = {"shape": getattr(needed, "shape", None), "dtype": getattr(needed, "dtype", None)}
    if given is not None:
        found["given_shape"] = getattr(given, "shape", None)
        found["given_dtype"] = getattr(given, "dtype", None)
    return found


def describe(value: Any) -> str:
    """One value as an error shows it: `float32 (3, 4)` for arrays and tensors, its repr else."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype} {shape}"
    several = isinstance(value, list | tuple) and any(hasattr(x, "dtype") for x in value)
    text = f"[{', '.join(map(describe, value))}]" if several else repr(value)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= 40 else f"{text[:37]}..."


def named_arguments(op: Any, args: tuple) -> list[tuple[str, Any]]:
    """The arguments of an op's call with their names; those of a variadic op are numbered."""
    names = [f"{op.arrays[0]}[{i}]" for i in range(len(args))] if op.variadic else op.arrays
    return [*zip(names, args, strict=False)]


def call_text(op: Any, args: tuple, params: dict) -> str:
    """The call in the user's terms: `mul(a: float32 (3,), b: float32 (4,))`."""
    parts = [f"{name}: {describe(x)}" for name, x in named_arguments(op, args)]
    parts += [f"{name}={describe(value)}" for name, value in params.items()]
    return f"{op.called}({', '.join(parts)})"


def refuse_out(method: str, out: Any) -> None:
    """An error for ndarray's out=, which a method has in its place in the signature alone."""
    if out is not None:
        raise TypeError(
            f"{method}: out= would write a tensor's values where no gradient can follow; "
            "write y = ... instead"
        )


def refuse_left_behind(op: Any, args: tuple) -> None:
    """An error for an argument that belongs to a vmap or jvp that has ended, or to another thread.

    Outside transforms such a tensor passes the doorway like any other, but its data is a tensor of
    a lower level, on which a forward for arrays fails or computes nonsense.
    """
    for x in args:
        if getattr(x, "level", 0):
            x.require_life(op)
