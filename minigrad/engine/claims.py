"""Which backwards run now, so that two threads never use up one graph between them."""

import threading
from typing import Any

from ..core.errors import GraphInUseError
from ..core.graph import Leaf

_running: list["Claim"] = []
_lock = threading.Lock()


class Claim:
    """One backward that runs: its thread, its places, and whether it frees what it has used."""

    __slots__ = ("thread", "order", "releases")

    def __init__(self, order: list, releases: bool):
        self.thread = threading.get_ident()
        self.order = order
        self.releases = releases

    def conflicts(self, other: "Claim") -> bool:
        """Whether another thread's backward goes through a node of this one, and one frees it."""
        if self.thread == other.thread or not (self.releases or other.releases):
            return False
        return not self._nodes().isdisjoint(other._nodes())

    def _nodes(self) -> set[Any]:
        return {place for place in self.order if place.__class__ is not Leaf}


def claim(order: list, releases: bool) -> Claim:
    """Register a backward before it looks at its nodes. Of two that conflict, the second raises."""
    mine = Claim(order, releases)
    with _lock:
        if any(mine.conflicts(other) for other in _running):
            raise GraphInUseError(
                "another thread is running backward on this graph, and the arrays that the nodes "
                "have saved are freed as they are used. Pass retain_graph=True to both backwards, "
                "or run them one after the other, or compute the forward once in each thread."
            )
        _running.append(mine)
    return mine


def give_up(mine: Claim) -> None:
    """The backward has ended."""
    with _lock:
        _running.remove(mine)
