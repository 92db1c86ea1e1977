"""detect_anomaly: the first op that makes a NaN or an Inf, and the line of the forward behind it.

It is a listener of the engine's events (engine/events.py). It checks the results of every op of its
thread, forward and backward, and raises. Stacks are kept as code objects and instruction offsets, a
few microseconds an op, and turned into lines only for an error.
"""

import math
import weakref
import zlib
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from ..backends.leaving import left_always
from ..backends.sites import stack_of
from ..backends.threads import Local
from ..engine import events, modes
from ..engine.backward import NodeVjp
from ..engine.errors import InPlaceError, about, describe
from ..engine.graph import raw
from ..engine.versions import arrays_in
from ..errors import AnomalyError
from .recording import CalledFirst, decorated

__all__ = ["detect_anomaly"]


class detect_anomaly(metaclass=CalledFirst):
    """Inside, the first op that makes a NaN or an Inf raises AnomalyError, forward or backward.

    The error says NaN or Inf, names the op and the element, and shows the stacks of the forward
    call and of the backward. If a backward recorded the call, the error also shows the stack of the
    call whose rule it is part of. Any other error of a rule shows them too. An op that only passes
    on an Inf of its arguments (a mask of −inf) is not blamed. With inf=False every Inf passes. With
    check_nan=False no result is checked, and only stacks are kept. Before a backward saved arrays
    are compared with their former values. A change through raw NumPy memory (an operand, x.data,
    x.numpy()), which no version counter sees, is an InPlaceError. For this thread only; also a
    decorator. Small ops take up to three times as long.
    """

    def __init__(self, check_nan: bool = True, *, inf: bool = True):
        if callable(check_nan):
            raise TypeError(
                "detect_anomaly as a decorator is written with brackets: @mg.detect_anomaly()"
            )
        self.check_nan, self.inf = check_nan, inf
        self._outer = modes.Outer()

    def __enter__(self) -> "detect_anomaly":
        self._outer.enter({"anomaly": self})
        events.listen(self)
        return self

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        events.unlisten(self)
        self._outer.leave()

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, lambda: type(self)(self.check_nan, inf=self.inf))

    def hear(self, event: tuple) -> None:
        """Look at an op of a thread that this is the innermost block of."""
        if modes.state.anomaly is not self:
            return
        kind, op, _, _, node, inputs, outputs, _ = event
        if kind == "forward" and node is not None:
            node.origin = events.capture_stack()
            if rule := getattr(_running, "rule", None):
                _recorded_by[node] = rule
            _remember_arrays(node)
        for y in outputs:
            if y is not None and self.check_nan:
                y = raw(y)
                if not _all_finite(y):
                    _judge(self, kind, op, node, inputs, y)

    def graph_ready(self, order: list, roots: list) -> None:
        """Compare the arrays of the caller that rules need with what they were."""
        if modes.state.anomaly is self and _known:
            for node in order:
                _refuse_changed_arrays(node)


_running = Local()  # .rule: the call whose rule runs in this thread, as in _recorded_by
_recorded_by: Any = weakref.WeakKeyDictionary()  # node -> ((op, origin), …), innermost rule first


def explained(vjp: NodeVjp) -> NodeVjp:
    """The same vjp; an error in a rule tells where its op and the backward were called."""
    called = events.capture_stack()

    def wrapped(node: Any, g: Any, plan: Any) -> Iterable:
        outer = getattr(_running, "rule", None)
        _running.rule = ((node.op.name, node.origin), *_recorded_by.get(node, ()))
        try:
            return vjp(node, g, plan)
        except Exception as error:
            stacks = [(op, stack_of(origin)) for op, origin in _running.rule]
            _explain(error, node, stacks, stack_of(called))
            raise
        finally:
            _running.rule = outer

    return wrapped


def _explain(error: Exception, node: Any, stacks: list, backward: list) -> None:
    """Put into an error of a node's rule the stacks of the calls behind it, and the backward's."""
    (_, stack), *recorded_by = stacks
    inside = not isinstance(error, AnomalyError) or error.phase == "forward"
    lines = [f"in the backward of {node!r}, whose forward was {_called(stack)}"] if inside else []
    lines += [f"recorded by the backward of {op}, {_called(s)}" for op, s in recorded_by]
    error.add_note("\n".join([*lines, f"the backward was {_called(backward)}"]))
    if isinstance(error, AnomalyError):
        if not error.backward_stack:  # else of a backward further in
            error.stack, error.backward_stack = stack, backward
            error.recorded_by = recorded_by
        error.phase = "backward"


def _all_finite(y: Any) -> bool:
    kind = y.dtype.kind
    if kind not in "fcV" or not y.size:
        return True
    if kind == "f" and y.itemsize > 2 and y.flags.c_contiguous and type(y) is np.ndarray:
        flat = y.reshape(-1)  # if Σ y² is finite, every y is: one pass of BLAS
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
    stack = stack_of(node.origin if kind == "backward" else events.capture_stack())
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


# -- memory that is changed where the engine cannot see it -----------------------------------------

_known: Any = weakref.WeakKeyDictionary()  # node -> fingerprints of the arrays it has saved
_WHOLE = 16_384  # bytes up to which a copy is kept: ten times as fast as a checksum


def _saved_arrays(node: Any) -> list:
    """(name, array) of what the node has saved, in order."""
    named = zip(node.plan.names, node.saved, strict=True)
    return [(name, x) for name, value in named for x in arrays_in(value)]


def _fingerprints(node: Any) -> list:
    """Of the arrays that the node has saved, in the order of _saved_arrays."""
    if type(node.saved) is not tuple:
        return []
    found = []
    for value in node.saved:
        if type(value) is np.ndarray:  # nearly always
            found.append(_fingerprint(value))
        else:
            found += [_fingerprint(x) for x in arrays_in(value)]
    return found


def _remember_arrays(node: Any) -> None:
    found = _fingerprints(node)
    if found:
        _known[node] = found


def _refuse_changed_arrays(node: Any) -> None:
    before = _known.get(node)
    if before is None or type(node.saved) is not tuple or _fingerprints(node) == before:
        return
    for (name, array), fingerprint in zip(_saved_arrays(node), before, strict=True):
        if _fingerprint(array) != fingerprint:
            what = "its result" if name == "y" else f"its argument {name!r}"
            raise InPlaceError(
                f"{node.op.name}: {what}, {describe(array)}, which its derivative needs, was "
                "changed after the call through NumPy's memory (the array itself, x.data or "
                "x.numpy()); pass a copy, or change a copy. The forward was "
                f"{_called(stack_of(node.origin))}",
                op=node.op.name, argument=name, **about(array),
            )  # fmt: skip


def _fingerprint(array: Any) -> int | bytes:
    """The bytes themselves of a small array, a checksum of a large one."""
    if type(array) is not np.ndarray:  # on a GPU: to look at it would cost a copy to the host
        return 0
    if array.nbytes <= _WHOLE:
        return array.tobytes()
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
