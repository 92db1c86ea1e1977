"""The errors that the engine raises, and their attributes.

Those of other rooms are in minigrad/errors.py.

An attribute is None where the error does not know it. Ops appear by name; `shape` and `dtype` were
needed, and `given_shape` and `given_dtype` came instead. The attributes survive pickling, and so
the way from a worker process.
"""

import re
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


class ArrayError(MinigradError):
    """Base of errors about a shape or a dtype."""

    shape: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    given_shape: tuple[int, ...] | None = None
    given_dtype: np.dtype | None = None


class GraphReleasedError(ArrayError, RuntimeError):
    """A second backward reached a node whose saved arrays were already freed.

    op, number, shape, dtype   of the node: the op's name, its position in the order of making
    """

    op: str | None = None
    number: int | None = None


class RuleError(ArrayError, RuntimeError):
    """A derivative rule is missing, or it returned something of the wrong shape or kind.

    op, argument               whose rule: the op's name, and that of the input
    shape, dtype               of that input
    given_shape, given_dtype   of what the rule returned
    """

    op: str | None = None
    argument: str | None = None


class SeedError(ArrayError, ValueError):
    """The cotangent that starts a backward is missing or does not fit its root.

    shape, dtype               of the root
    given_shape, given_dtype   of the cotangent
    """


class InPlaceError(ArrayError, RuntimeError):
    """Memory that a backward needs was changed in place, or a change cannot be recorded.

    op, argument, shape, dtype   what was changed: an argument of an op, or "y", its result
    versions                     (when the op ran, now) of its memory
    site                         of the last change: {"file", "line", "function"}
    """

    op: str | None = None
    argument: str | None = None
    versions: tuple[int, int] | None = None
    site: dict[str, Any] | None = None


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


def refuse_left_behind(op: Any, args: tuple) -> None:
    """An error for an argument that belongs to a vmap or jvp that has ended, or to another thread.

    Outside transforms an op accepts such a tensor like any other. But its data is a tensor of a
    lower level, on which a forward for arrays fails or computes nonsense.
    """
    for x in args:
        if getattr(x, "level", 0):
            x.require_life(op)
