"""Who holds memory, from when to when: the arrays that ops make and are given, while it listens.

An array that owns its data is one piece of memory; views belong to their owner. It is noted when
an op first returns it, or is first given it, with a weak reference that tells when it goes. Memory
that an op allocates and frees inside itself is not seen.

Categories. A tensor that optimizers train is a parameter, another leaf or plain array an input. A
result of an op is temporary until a node saves it for its rules, then saved. Arrays that a backward
passes on, and those in `.grad`, are gradients; arrays that an optimizer keeps are its state.
"""

import os
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends.locks import Lock
from ..engine.graph import Leaf, raw
from ..tensor_api.tensor import Tensor
from .formats import cotangents_of
from .numbers import owner

_MOST_PARTS = 1000  # of a list that a node saves or an optimizer keeps


class _Held(weakref.ref):
    """A weak reference to an owner of memory, with what is known of it."""

    __slots__ = "number", "key", "bytes", "category", "saved", "used", "used_forward"
    number: int
    key: int
    bytes: int
    category: str
    saved: int  # how many nodes wait with it for a backward
    used: int
    used_forward: int


class MemoryTracker:
    """Turns the engine's events into lines: `tell(line)` gets alloc, category and release tuples.

    ("alloc", id, t, bytes, category, phase, op, seq, thread, origin, shape, dtype)
    ("category", id, t, category)
    ("release", id, t, used, used_forward)
    ("held", id, used, used_forward)           at the end, for what is still there

    The caller adds thread and origin by giving `where`, a pair, to what it calls. Lines come one at
    a time, except releases: several threads may free at once. freed: gives the time at which an
    array is released.
    """

    def __init__(
        self,
        tell: Callable[[tuple], Any],
        most: int,
        freed: Callable[[], int] = perf_counter_ns,
    ):
        self.tell = tell
        self.most = most
        self.freed = freed
        self.lost = 0
        self._next = 0
        self._held: dict[int, _Held] = {}  # by id of the owner
        self.lock = Lock()
        self._open = True
        self._callback = _telling(self)
        _trackers.add(self)

    def close(self) -> None:
        """Tell what is still held, and no further releases."""
        self._open = False
        with self.lock:
            for held in list(self._held.values()):
                self.tell(("held", held.number, held.used, held.used_forward))

    def leave(self) -> None:
        """In a forked child: tell nothing more."""
        self._open = False
        self._held.clear()

    # -- what the engine tells ---------------------------------------------------------------

    def forward(
        self, op: str, t: int, node: Any, inputs: tuple, outputs: tuple, where: tuple
    ) -> None:
        """An op has run forward: its inputs were there before, its outputs are new."""
        with self.lock:
            self._forward(op, t, node, inputs, outputs, where)

    def _forward(
        self, op: str, t: int, node: Any, inputs: tuple, outputs: tuple, where: tuple
    ) -> None:
        known, seq = self._held.get, None if node is None else node.number
        for x in inputs:
            array = x._data if x.__class__ is Tensor else x
            held = known(id(array))
            if held is None or held() is not array:
                held = self._of(x, t, _category_of(x), "before", None, None, where)
            if held is not None:
                held.used = held.used_forward = t
        for y in outputs:
            held = self._of(y, t, "temporary", "forward", op, seq, where)
            if held is not None:
                held.used = held.used_forward = t
        if node is not None and node.saved:
            for x in _arrays_in(node.saved):
                held = known(id(x))
                if held is None or held() is not x:
                    held = self._of(x, t, "temporary", "forward", op, seq, where)
                if held is not None:
                    held.saved += 1
                    if held.category == "temporary":
                        self._set(held, "saved", t)

    def backward(
        self, op: str, t: int, node: Any, g: Any, contributions: tuple, where: tuple
    ) -> None:
        """A node has run backward: its saved arrays have been used, its contributions are new."""
        with self.lock:
            self._backward(op, t, node, g, contributions, where)

    def _backward(
        self, op: str, t: int, node: Any, g: Any, contributions: tuple, where: tuple
    ) -> None:
        for x in _arrays_in(node.saved):
            held = self._of(x, t, "saved", "before", None, None, where)
            if held is not None:
                held.used = t
                held.saved = max(0, held.saved - 1)
                if not held.saved and held.category == "saved":
                    self._set(held, "temporary", t)  # as it was before
        for x in cotangents_of(g):
            held = self._of(x, t, "gradient", "backward", None, None, where)
            if held is not None:
                held.used = t
        for c in contributions:
            held = self._of(c, t, "gradient", "backward", op, node.number, where)
            if held is not None:
                held.used = t

    def backward_done(self, leaves: list, where: tuple) -> None:
        """A backward has ended: look at what each `.grad` holds now."""
        t = perf_counter_ns()
        with self.lock:
            for leaf in leaves:
                self._gradient_of(leaf.tensor(), t, where)

    def _gradient_of(self, tensor: Any, t: int, where: tuple) -> None:
        if tensor is not None and tensor.grad is not None:
            held = self._of(tensor.grad, t, "gradient", "backward", None, None, where)
            if held is not None and held.category in ("temporary", "saved"):
                self._set(held, "gradient", t)

    def stepped(self, optimizer: Any, t: int, where: tuple) -> None:
        """An optimizer has made a step: its parameters, and what it keeps."""
        name = type(optimizer).__name__
        with self.lock:
            for group in getattr(optimizer, "param_groups", ()):
                for p in group.get("params", ()):
                    self._update(p, "parameter", t, where)
                    self._update(p.grad, "gradient", t, where)
            for state in list(getattr(optimizer, "_state", {}).values()):
                for x in _arrays_in(tuple(state.values())):
                    self._use(x, t, "optimizer state", "optimizer", name, None, where)

    def _update(self, x: Any, category: str, t: int, where: tuple) -> None:
        held = self._use(x, t, category, "before", None, None, where)
        if held is not None and held.category != category:
            self._set(held, category, t)

    # -- pieces of memory --------------------------------------------------------------------

    def _of(
        self, x: Any, t: int, category: str, phase: str, op: str | None, seq: Any, where: tuple
    ) -> _Held | None:
        """The record of the memory that x shows; made, if it is seen for the first time."""
        array = _owner(x)
        if array is None:
            return None
        key = id(array)
        held = self._held.get(key)
        if held is not None and held() is array:
            return held
        if self._next >= self.most:
            self.lost += 1
            return None
        try:
            held = _Held(array, self._callback)
        except TypeError:  # an array class without weak references
            return None
        number = self._next
        held.number, held.key, held.bytes = number, key, array.nbytes
        held.category, held.saved, held.used, held.used_forward = category, 0, t, t
        self._next = number + 1
        self._held[key] = held
        thread, origin = where
        self.tell(
            ("alloc", number, t, held.bytes, category, phase, op, seq, thread, origin,
             array.shape, array.dtype)
        )  # fmt: skip
        return held

    def _use(self, x: Any, t: int, *as_new: Any) -> _Held | None:
        """The same, where it is read or written now."""
        held = self._of(x, t, *as_new)
        if held is not None:
            held.used = t
        return held

    def gone(self, held: _Held) -> None:
        """The owner's memory is given back now; called by the interpreter, from anywhere."""
        if sys.is_finalizing() or not self._open:
            return
        if self._held.get(held.key) is held:  # no other has its id until this returns
            self._held.pop(held.key, None)
        t = self.freed()
        if t <= held.used:  # it was there as long as it was used
            t = held.used + 1
        self.tell(("release", held.number, t, held.used, held.used_forward))

    def _set(self, held: _Held, category: str, t: int) -> None:
        held.category = category
        self.tell(("category", held.number, t, category))


def _telling(tracker: MemoryTracker) -> Callable[[Any], None]:
    """The interpreter calls it as memory is freed. The tracker keeps it, and not the reverse."""
    known = weakref.ref(tracker)

    def gone(held: Any) -> None:
        tracker = known()
        if tracker is not None:
            tracker.gone(held)

    return gone


_trackers: weakref.WeakSet[MemoryTracker] = weakref.WeakSet()


def _in_forked_child() -> None:
    """Another thread of the parent may have held a lock; here no one would ever give it back."""
    for tracker in list(_trackers):
        tracker.lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


class PeakMemory:
    """The live bytes, now and at their peak, by category, for an aggregate profile."""

    def __init__(self) -> None:
        self.tracker = MemoryTracker(_weakly(self._heed), 10_000_000)
        self.live: dict[str, int] = {}
        self.at_peak: dict[str, int] = {}
        self.total = self.peak = 0
        self._pieces: dict[int, tuple[str, int]] = {}

    def hear(self, event: tuple) -> None:
        """An event of the engine."""
        kind, op, _, t1, node, inputs, outputs, _ = event
        if kind == "forward":
            self.tracker.forward(op, t1, node, inputs, outputs, (0, None))
        else:
            self.tracker.backward(op, t1, node, inputs[0], outputs, (0, None))

    def _heed(self, line: tuple) -> None:
        kind, number = line[:2]
        if kind == "release":
            with self.tracker.lock:  # else threads that free at once would lose some
                self._take(number)
        elif kind == "alloc":
            self._put(number, line[4], line[3])
        elif kind == "category":
            self._put(number, line[3], self._take(number))

    def _take(self, number: int) -> int:
        """Subtract a piece of memory; its bytes."""
        category, nbytes = self._pieces.pop(number, ("other", 0))
        self.live[category] = self.live.get(category, 0) - nbytes
        self.total -= nbytes
        return nbytes

    def _put(self, number: int, category: str, nbytes: int) -> None:
        self._pieces[number] = category, nbytes
        self.live[category] = self.live.get(category, 0) + nbytes
        self.total += nbytes
        if self.total > self.peak:
            self.peak, self.at_peak = self.total, dict(self.live)

    def as_dict(self) -> dict[str, Any]:
        """Bytes: live now, at the peak, and at the peak by category."""
        return {
            "live": self.total,
            "peak": self.peak,
            "at_peak": {name: n for name, n in sorted(self.at_peak.items()) if n},
        }


def _weakly(method: Any) -> Callable[[tuple], None]:
    """The method, without keeping its object: the tracker that calls it belongs to that."""
    method = weakref.WeakMethod(method)

    def tell(line: tuple) -> None:
        bound = method()
        if bound is not None:
            bound(line)

    return tell


def _owner(x: Any) -> Any:
    """The array that owns the memory x shows; None for what is not an array."""
    if type(x) is Tensor:
        x = x._data
    if type(x) is np.ndarray and x.base is None:  # nearly always, and this is most of the work
        return x
    x = raw(x)
    is_number = isinstance(x, int | float | complex)
    return owner(x) if hasattr(x, "nbytes") and hasattr(x, "shape") and not is_number else None


def _category_of(x: Any) -> str:
    """Of an op's argument that was not made by an op in sight."""
    if isinstance(x, Tensor):
        if getattr(x, "is_parameter", False):
            return "parameter"
        if x.node is not None and x.node.__class__ is not Leaf:
            return "temporary"
    return "input"


def _arrays_in(values: Any) -> list:
    """The arrays among what a node has saved, also those in lists."""
    if type(values) is not tuple:
        return []  # freed, or kept elsewhere by a pack hook
    found = []
    for value in values:
        if value.__class__ is np.ndarray:
            found.append(value)
        elif isinstance(value, tuple | list):
            found += [part for part in value[:_MOST_PARTS] if hasattr(part, "nbytes")]
        elif hasattr(value, "nbytes"):
            found.append(value)
    return found
