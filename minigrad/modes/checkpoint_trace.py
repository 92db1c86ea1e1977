"""The trace of a checkpointed function's run, compared with that of its second run.

Of each node are kept: op, form of its result, which tensors from outside it computes with, and
marks of its values. A constant's mark is its fingerprint, of all its bits: constants are where
random numbers, counters and changed data come in. Results of ops may differ in the last digits (the
parallel engine holds BLAS to one thread). So the mark of a computed value is a sample of it,
compared as rounding allows. The values of leaves are not compared: like any graph, a checkpoint
notices a write through the library, and trusts that there is no other.
"""

import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..backends.fingerprint import fingerprint
from ..backends.sites import site_of
from ..engine import versions
from ..engine.graph import Leaf
from ..errors import CheckpointError
from ..tensor_api.tensor import Tensor

_SAMPLE = 16  # elements of a computed value that are compared
_SMALL = 8192  # bytes; fingerprints of larger arrays are remembered, for other ops that take them
_PLAIN = (bool, int, float, complex, str, type(None), np.generic, slice)


class Step(NamedTuple):
    """A node of the first run."""

    op: str
    form: tuple  # shapes and dtypes of the result
    number: int
    outside: tuple  # numbers of the parents that are from outside
    marks: dict[str, Any]  # by name of argument, result or parameter
    origin: tuple | None  # where the op was called, with debug=True


class Sample(tuple):
    """(dtype, shape, some elements) of a value that ops have computed."""


class Marks:
    """Makes the marks of a run's values; arrays that several ops take are read once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref, Any]] = {}

    def of(self, node: Any, args: tuple) -> dict[str, Any]:
        """The marks of what a node was given as constants, and of what it has saved."""
        marks, others = {}, {}
        names = node.op.arrays * (len(args) if node.op.variadic else 1)
        for i, (name, x) in enumerate(zip(names, args, strict=False)):
            if isinstance(x, Tensor) and x.node is not None:
                others |= dict.fromkeys(map(id, versions.arrays_in(x)), x.node.__class__ is Leaf)
            else:
                marks[f"{name}[{i}]" if node.op.variadic else name] = self._of_constant(x)
        if type(node.saved) is tuple:
            static = node.op.defaults
            for name, value in zip(node.plan.names, node.saved, strict=True):
                if name not in marks:
                    is_constant = name in static
                    marks[name] = self._of_saved(value, others, is_constant)
        return marks

    def _of_saved(self, value: Any, others: dict, is_constant: bool) -> Any:
        if isinstance(value, tuple | list):
            return tuple([self._of_saved(part, others, is_constant) for part in value])
        if not isinstance(value, np.ndarray) or is_constant:
            return self._of_constant(value)
        is_leaf = others.get(id(value), False)
        return None if is_leaf else _sample(value)

    def _of_constant(self, x: Any) -> Any:
        while isinstance(x, Tensor):
            x = x._data
        if isinstance(x, np.ndarray):
            return self._bits(x)
        if isinstance(x, tuple | list):
            return tuple([self._of_constant(part) for part in x])
        return repr(x) if isinstance(x, _PLAIN) else None

    def _bits(self, x: np.ndarray) -> Any:
        if x.nbytes <= _SMALL:
            return fingerprint(x)
        known = self._known.get(id(x))
        if known is None or known[0]() is not x:
            known = self._known[id(x)] = weakref.ref(x), fingerprint(x)
        return known[1]


@lru_cache(256)
def _sampled_positions(size: int) -> np.ndarray:
    """Spread over an array without a period that rows or blocks may have."""
    return (np.arange(1, _SAMPLE + 1) * 0.6180339887498949 % 1 * size).astype(np.intp)


def _sample(x: np.ndarray) -> Sample:
    taken = x.flat[_sampled_positions(x.size)] if x.size > _SAMPLE else x.flatten()
    return Sample((str(x.dtype), x.shape, taken))


def form(y: Any) -> tuple:
    """Shapes and dtypes of a result."""
    ys = y if isinstance(y, tuple | list) else (y,)
    return tuple([(part.shape, str(part.dtype)) for part in ys])


def compare(step: Step, turn: int, marks: dict[str, Any], differs: Callable) -> None:
    """differs(how, op) where a value of this op is another one than in the first run."""
    for name, mark in marks.items():
        if name in step.marks and not _agree(step.marks[name], mark):
            what = "its result" if name == "y" else f"its {name!r}"
            differs(
                f"op {turn}, {step.op} {step.form}, has other values: {what} was another", step.op
            )


def _agree(a: Any, b: Any) -> bool:
    if type(a) is Sample and type(b) is Sample:
        return a[:2] == b[:2] and _close(a[2], b[2])
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_agree, a, b))
    return a == b


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two samples are the same numbers, but for rounding and for what it may tip over."""
    if a.tobytes() == b.tobytes() or a.dtype.hasobject:
        return True
    if a.dtype.kind in "biu":  # a mask, indices: one tie that rounding has decided otherwise
        return int(np.count_nonzero(a != b)) <= a.size // _SAMPLE
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(a), where=np.isfinite(a), initial=0.0)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-3 * scale)
    return bool(same.all())


def differs(how: str, first: str, second: str, op: str | None = None) -> None:
    """Raise a CheckpointError that says how; the ops of both runs, if they are given, follow."""
    lists = f"\nThe first run:\n{first}\nThe second run:\n{second}" if first else ""
    raise CheckpointError(
        f"checkpoint: the function did something else when it was computed again: {how}. It may "
        "depend on nothing that changes between forward and backward (a counter, training mode, "
        f"a generator that it only makes as it runs); make that an argument.{lists}",
        op=op,
    )


def listed(steps: list) -> str:
    """The ops of a run, one a line, each with the line of the program that called it."""
    return "\n".join(_lines(steps))


def _lines(steps: list) -> Iterator[str]:
    for turn, (op, shapes, origin) in enumerate(steps):
        site = site_of(origin) if origin is not None else None
        where = f"   {site['file']}:{site['line']}" if site else ""
        yield f"  {turn}: {op} {shapes}{where}"
