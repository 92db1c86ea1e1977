"""Sessions: groups of leaves (held weakly) whose tensors may not be mixed with another group's.

    session = mg.Session()
    w = session.tensor([1.0, 2.0], requires_grad=True)
    with session:                         # leaves that are made inside join it
        model = mg.nn.Linear(4, 2)
    session.clear_grads()

A result belongs to the session of its inputs. That is not stored: it is found from its node's
parents, and remembered by node, weakly. While fewer than two sessions are alive nothing is checked.
"""

import itertools
import weakref
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from ..backends.caches import Cache, cache_stats
from ..backends.device import device_of, resolve
from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..engine import modes
from ..engine.errors import call_text, describe
from ..engine.graph import Leaf
from ..engine.registry import engine
from ..errors import SessionMismatch
from ..tensor_api.create import tensor
from ..tensor_api.tensor import Tensor

__all__ = ["Session", "clear_grads"]

checked = False  # whether ops look for mixed sessions: two or more are alive
_alive: set[int] = set()  # ids of the open sessions
_owners: dict[int, tuple[weakref.ref, weakref.ref]] = {}  # id of a member -> (it, its session)
_of_nodes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # node -> its session's ref
_lock = Lock()
_next_id = itertools.count(1).__next__


class Session:
    """Groups leaves by weak reference: they are freed when nothing else holds them.

    device   where `tensor` puts its data, and where every member must be
    id       a number that no other session of the process has

    An op on tensors of two sessions is a SessionMismatch, whether they are members or results of
    members; tensors of no session mix with any.
    """

    def __init__(self, device: str = "cpu"):
        resolve(device)  # an unknown or missing device is an error here
        self.device = device
        self.id = _next_id()
        self._members: dict[int, weakref.ref] = {}
        self._caches: list[Cache] = []
        self._outer = modes.Outer()
        self._close = weakref.finalize(self, _leave, self.id)
        self._close.atexit = False
        _enter(self.id)

    # -- members -----------------------------------------------------------------------------

    def tensor(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
        """mg.tensor(data) on this session's device, as a member."""
        return self.track(tensor(data, dtype, self.device, requires_grad))

    def track(self, x: Tensor) -> Tensor:
        """Take x in, and return it. It is a leaf, on this device, and of no other session."""
        if not isinstance(x, Tensor) or not x.is_leaf or x.level:
            raise TypeError(
                f"{self!r}.track takes leaves, got {describe(x)}; results follow their inputs"
            )
        if device_of(x.data).partition(":")[0] != self.device.partition(":")[0]:
            raise ValueError(f"{self!r}.track: the tensor is on {x.device}; use x.to(...) first")
        key = id(x)
        with _lock:
            self._refuse_closed()
            owner = _session_of_member(x)
            if owner is not None and owner is not self:
                raise SessionMismatch(
                    f"track: {describe(x)} belongs to {owner!r} already and cannot join {self!r}",
                    sessions=(owner, self), ids=(owner.id, self.id), op="track",
                )  # fmt: skip
            if owner is None:
                members = self._members

                def gone(ref: weakref.ref) -> None:
                    members.pop(key, None)
                    _owners.pop(key, None)

                ref = weakref.ref(x, gone)
                members[key] = ref
                _owners[key] = ref, weakref.ref(self)
                if x.node is not None:  # results may outlive the leaf
                    _of_nodes[x.node] = weakref.ref(self)
        return x

    def leaves(self) -> list[Tensor]:
        """The members that are alive, in the order in which they joined."""
        return [x for ref in list(self._members.values()) if (x := ref()) is not None]

    @property
    def is_open(self) -> bool:
        """False once close() was called."""
        return self._close.alive

    def _refuse_closed(self) -> None:
        if not self.is_open:
            raise RuntimeError(f"{self!r} is closed; make another with mg.Session()")

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, x: Any) -> bool:
        return isinstance(x, Tensor) and _session_of(x) is self

    def __bool__(self) -> bool:
        return True  # also without members

    def __copy__(self) -> "Session":
        return self

    def __deepcopy__(self, memo: dict) -> "Session":
        return self  # of what holds it; its members are leaves that exist, and no copies of them

    def __repr__(self) -> str:
        return f"<Session {self.id} on {self.device}, {len(self)} leaves>"

    # -- creation inside ---------------------------------------------------------------------

    def __enter__(self) -> "Session":
        self._refuse_closed()
        self._outer.enter({"session": self})
        return self

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        self._outer.leave()

    # -- what it does for its members --------------------------------------------------------

    def clear_grads(self) -> None:
        """Set `.grad` of every member to None."""
        clear_grads(self.leaves())

    def cache(
        self, name: str, max_entries: int | None = None, max_bytes: int | None = None
    ) -> Cache:
        """A bounded cache that lives as long as this session."""
        made = Cache(f"session {self.id}: {name}", max_entries, max_bytes)
        self._caches.append(made)
        return made

    def cache_stats(self) -> dict[str, dict[str, int | None]]:
        """The caches of this session and those that all share, as mg.cache_stats."""
        own = {cache.name for cache in self._caches}
        return {
            name: stats
            for name, stats in cache_stats().items()
            if name in own or not name.startswith("session ")
        }

    def clear_caches(self) -> None:
        """Empty the caches of this session alone; mg.clear_caches() empties all."""
        for cache in self._caches:
            cache.clear()

    def synchronize(self) -> None:
        """Wait until the device has done all its work; nothing to wait for on the CPU."""
        xp = resolve(self.device)
        if hasattr(xp, "cuda"):
            xp.cuda.Device(int(self.device.partition(":")[2] or 0)).synchronize()

    def close(self) -> None:
        """End the session: its members belong to none, and are no longer checked."""
        with _lock:
            for key in self._members:
                _owners.pop(key, None)
            self._members.clear()
        self._close()


def clear_grads(tensors: Tensor | Iterable[Tensor]) -> None:
    """Set `.grad` of each tensor to None. A module's are mg.clear_grads(model.parameters())."""
    if hasattr(tensors, "parameters") and callable(tensors):
        raise TypeError(f"clear_grads: {describe(tensors)} is a module; pass model.parameters()")
    if not hasattr(tensors, "__iter__"):
        raise TypeError(f"clear_grads takes tensors, got {describe(tensors)}")
    for x in [tensors] if isinstance(tensors, Tensor) else tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"clear_grads takes tensors, got {describe(x)}")
        x.grad = None


def refuse_mixed(op: Any, args: tuple, params: dict) -> None:
    """SessionMismatch if the tensors among args belong to two sessions."""
    first: Any = None
    for i, x in enumerate(args):
        session = _session_of(x) if isinstance(x, Tensor) else None
        if session is None:
            continue
        if first is None:
            first = i, session
        elif session is not first[1]:
            one, other = _name(op, first[0]), _name(op, i)
            raise SessionMismatch(
                f"{call_text(op, args, params)} mixes two sessions: argument {one!r} belongs to "
                f"{first[1]!r}, argument {other!r} to {session!r}. Detach one of them "
                "(x.detach()), or make both in one session",
                sessions=(first[1], session), ids=(first[1].id, session.id), op=op.name,
                arguments=(one, other),
            )  # fmt: skip


def _name(op: Any, i: int) -> str:
    return f"{op.arrays[0]}[{i}]" if op.variadic else op.arrays[i]


def _session_of(x: Tensor) -> Session | None:
    """The session of a member, or of what was computed from members."""
    while x.level and isinstance(x.data, Tensor):  # a value inside transforms, down to its tensor
        x = x.data
    found = _session_of_member(x)
    if found is not None or x.node is None:
        return found
    return _if_open(_from_node(x.node))


engine.register("session_of", _session_of)


def _session_of_member(x: Tensor) -> Session | None:
    known = _owners.get(id(x))
    return _if_open(known[1]) if known is not None and known[0]() is x else None


def _if_open(ref: weakref.ref | None) -> Session | None:
    session = None if ref is None else ref()
    return session if session is not None and session.is_open else None


def _from_node(node: Any) -> weakref.ref | None:
    """The session of a node: of the first parent that has one. Found once, and then remembered.

    Consumers are asked after producers, so the walk mostly ends one step down; it is a loop for
    graphs that are older than the sessions.
    """
    waiting = [node]
    while waiting:
        vertex = waiting[-1]
        unknown = [] if _is_known(vertex) else [p for p in vertex.parents if not _is_known(p)]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        if not _is_known(vertex):
            found = [ref for p in vertex.parents if _if_open(ref := _known(p)) is not None]
            _of_nodes[vertex] = found[0] if found else None
    return _known(node)


def _is_known(vertex: Any) -> bool:
    return vertex.__class__ is Leaf or vertex in _of_nodes


def _known(vertex: Any) -> weakref.ref | None:
    """The record of a node; for a leaf, its tensor's text while that is alive."""
    tensor = vertex.tensor() if vertex.__class__ is Leaf else None
    owner = _owners.get(id(tensor)) if tensor is not None else None
    return _of_nodes.get(vertex) if owner is None else owner[1]


def _enter(number: int) -> None:
    with _lock:
        _alive.add(number)
        _set_checked(len(_alive) > 1)


def _leave(number: int) -> None:
    with _lock:
        _alive.discard(number)
        _set_checked(len(_alive) > 1)


def _set_checked(wanted: bool) -> None:
    global checked
    if wanted and not checked:  # Ctrl-C in between leaves a reason too many, not one too few
        modes.add_check(1)
        checked = True
    elif checked and not wanted:
        checked = False
        modes.add_check(-1)
