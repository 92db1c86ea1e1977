"""The errors that only this engine raises: mg.errors. The engine's own are in engine/errors.py."""

from collections.abc import Sequence
from typing import Any

from .engine.errors import (  # noqa: F401 (mg.errors has them all)
    ArrayError,
    GraphReleasedError,
    InPlaceError,
    MinigradError,
    RuleError,
    SeedError,
)


class HookError(ArrayError, RuntimeError):
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


class TapeError(ArrayError, RuntimeError):
    """A tape was asked for what it has not recorded, or cannot replay.

    op                         the name of the op that cannot be replayed, or gave another result
    shape, dtype               what the recording has
    given_shape, given_dtype   what came
    """

    op: str | None = None


class CompileError(MinigradError, RuntimeError):
    """A function under mg.compile did what its programs cannot replay, where it must not."""


class TransformError(ArrayError, RuntimeError):
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
