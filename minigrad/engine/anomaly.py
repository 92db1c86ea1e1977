"""detect_anomaly: the first op that makes a NaN or an Inf, and the line of the forward behind it.

It is a listener of the engine's events (core/events.py): it hears every op of its thread, forward
and backward, looks at the results, and raises. Stacks are kept as code objects and instruction
offsets, a few microseconds an op, and turned into lines only for an error.
"""

import functools
import math
import weakref
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core import events, modes
from ..core.errors import AnomalyError, InPlaceError, describe
from ..core.tensor import raw

__all__ = ["detect_anomaly"]


class detect_anomaly:
    """Inside, the first op that makes a NaN or an Inf raises AnomalyError, forward or backward.

    The error tells NaN from Inf, the op, the place, and the stack of the forward call, also for a
    backward that runs inside and for the backward of a backward. An op that only passes on an Inf
    of its arguments (a mask of −inf) is not blamed; inf=False lets every Inf pass. NumPy arrays
    that a rule has saved from the caller are checked too: a later change to one is an
    InPlaceError. For this thread only; also a decorator. Costs up to three times on small ops.
    """

    def __init__(self, inf: bool = True):
        self.inf = inf
        self._previous: list = []

    def __enter__(self) -> "detect_anomaly":
        self._previous.append(modes.state.anomaly)
        modes.state.anomaly = self
        events.listen(_listener)
        return self

    def __exit__(self, *exc: object) -> None:
        events.unlisten(_listener)
        modes.state.anomaly = self._previous.pop()

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.inf):
                return fn(*args, **kwargs)

        return wrapped


class _Listener:
    """Hears the ops of all threads; looks at those of threads that are inside detect_anomaly."""

    def hear(self, event: tuple) -> None:
        mode = modes.state.anomaly
        if mode is None:
            return
        kind, op, _, _, node, inputs, outputs = event
        if kind == "forward" and node is not None:
            node.origin = events.capture_stack()
            _remember_arrays(node, inputs)
        for y in outputs:
            if y is not None:
                y = raw(y)
                if not _all_finite(y):
                    _judge(mode, kind, op, node, inputs, y)

    def graph_ready(self, order: list, roots: list) -> None:
        """Compare the arrays of the caller that rules need with what they were."""
        if modes.state.anomaly is not None and _checksums:
            for node in order:
                for array, checksum in _checksums.get(node, ()):
                    if _checksum(array) != checksum:
                        _refuse_array(node, array)


_listener = _Listener()


def explained(pull: Callable[[Any, Any], Iterable]) -> Callable[[Any, Any], Iterable]:
    """The same pull; an anomaly of an op inside a recorded rule names the op whose rule it is."""

    def pulled(node: Any, g: Any) -> Iterable:
        try:
            return pull(node, g)
        except AnomalyError as error:
            if error.phase == "forward":
                error.phase, error.stack = "backward", events.stack_of(node.origin)
                error.add_note(f"in the backward of {node!r}, {_called(error.stack)}")
            raise

    return pulled


def _all_finite(y: Any) -> bool:
    kind = y.dtype.kind
    if kind not in "fcV" or not y.size:
        return True
    if kind == "f" and y.itemsize > 2 and y.flags.c_contiguous and type(y) is np.ndarray:
        flat = y.reshape(-1)  # Σ y² is finite only if every y is: one pass of BLAS
        if math.isfinite(np.dot(flat, flat)):
            return True
    return bool(np.isfinite(y).all())


def _found(y: Any) -> str:
    """ "NaN", "Inf" or "" for one value."""
    y = raw(y)
    if not hasattr(y, "dtype"):
        y = np.asarray(y)
    if y.dtype.kind not in "fcV":
        return ""
    return "NaN" if np.isnan(y).any() else "Inf" if np.isinf(y).any() else ""


def _judge(mode: detect_anomaly, kind: str, op: str, node: Any, inputs: tuple, y: Any) -> None:
    """Raise for the op, unless it only passes on an Inf that came in."""
    value = _found(y)
    if not value:
        return
    before = [x for x in inputs if x is not None and _found(x)]
    if value == "Inf" and (before or not mode.inf):
        return
    bad = np.isnan(y) if value == "NaN" else np.isinf(y)
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    stack = events.stack_of(node.origin if kind == "backward" else events.capture_stack())
    what = f"the {'result' if kind == 'forward' else 'gradient for an argument'}, {describe(y)},"
    came_in = (
        f" It came in: {'an argument' if kind == 'forward' else 'the incoming gradient'}, "
        f"{describe(raw(before[0]))}, holds {_found(before[0])} already."
        if before
        else ""
    )
    raise AnomalyError(
        f"{kind} of {op}: {what} has {value} in {int(bad.sum())} of {y.size} elements, the first "
        f"at {first}.{came_in} The forward was {_called(stack)}",
        op, kind, value, stack,
    )  # fmt: skip


def _called(stack: list) -> str:
    if not stack:
        return "outside detect_anomaly, so its line was not kept"
    lines = [f"\n  {file}:{line} in {function}" for file, line, function in stack]
    return "called at (innermost first)" + "".join(lines)


# -- arrays of the caller --------------------------------------------------------------------------

_checksums: Any = weakref.WeakKeyDictionary()  # node -> [(array, checksum)]


def _remember_arrays(node: Any, inputs: tuple) -> None:
    """Keep a checksum of each plain array among the inputs that the node has saved."""
    plain = [x for x in inputs if type(x) is np.ndarray]
    if plain and type(node.saved) is tuple:
        kept = [x for x in plain if any(value is x for value in node.saved)]
        if kept:
            _checksums[node] = [(x, _checksum(x)) for x in kept]


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)


def _refuse_array(node: Any, array: Any) -> None:
    raise InPlaceError(
        f"{node.op.name}: a NumPy array {array.dtype} {array.shape}, which its derivative needs, "
        f"was changed after the call; pass a copy. The forward was "
        f"{_called(events.stack_of(node.origin))}"
    )
