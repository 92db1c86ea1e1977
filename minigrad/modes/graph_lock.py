"""Which backwards are running, so that two threads never consume one graph at once."""

import os
from typing import Any

from ..backends.locks import Lock
from ..backends.threads import identity
from ..engine.graph import Leaf
from ..errors import GraphInUseError

_running: list["GraphLock"] = []
_lock = Lock()


class GraphLock:
    """A running backward: its thread (None: several), its vertices, and whether it frees them.

    alone   it runs in this thread only; then a backward inside its hooks does not conflict
    ended   set before it is taken off the list: what Ctrl-C leaves there locks nothing
    """

    __slots__ = ("thread", "order", "releases", "ended")

    def __init__(self, order: list, releases: bool, alone: bool = True):
        self.thread = identity() if alone else None
        self.order = order
        self.releases = releases
        self.ended = False

    def conflicts(self, other: "GraphLock") -> bool:
        """Whether another thread's backward goes through a node of this one, and one frees it."""
        same = self.thread is not None and self.thread == other.thread
        if same or other.ended or not (self.releases or other.releases):
            return False
        return not self._nodes().isdisjoint(other._nodes())

    def _nodes(self) -> set[Any]:
        return {vertex for vertex in self.order if vertex.__class__ is not Leaf}


def register(mine: GraphLock) -> int:
    """Note a backward before it looks at its nodes. Of two that conflict, the second raises.

    Returns how many run now: what is called inside others is among them.
    """
    with _lock:
        if _running:
            _refuse_conflict(mine)
        _running.append(mine)
        return len(_running)


def _refuse_conflict(mine: GraphLock) -> None:
    """GraphInUseError where another thread runs a backward that conflicts. Under the lock."""
    _running[:] = [other for other in _running if not other.ended]
    for other in _running:
        if mine.conflicts(other):
            shared = mine._nodes() & other._nodes()
            raise GraphInUseError(
                "another thread is running backward on this graph, and the arrays that the nodes "
                "have saved are freed as they are used. Pass retain_graph=True to both backwards, "
                "or run them one after the other, or compute the forward once in each thread. (A "
                "hook of a backward with engine='parallel' counts as another thread.)",
                ops=tuple(sorted({vertex.op.name for vertex in shared if hasattr(vertex, "op")})),
                threads=(mine.thread, other.thread),
            )


def forget(mine: GraphLock) -> None:
    """Take a backward that has ended off the list."""
    with _lock:
        if mine in _running:  # in a forked child those of the parent are gone
            _running.remove(mine)


def _in_child() -> None:
    """After a fork: the backwards of other threads do not go on here."""
    mine = identity()
    _running[:] = [lock for lock in _running if lock.thread == mine]
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )
