"""Two threads never consume one graph at once: of two backwards that would, the second raises."""

import os

from ..engine import modes
from ..engine.backward import BackwardRun, running
from ..engine.graph import Leaf
from ..errors import GraphInUseError


def refuse_conflict(mine: BackwardRun) -> None:
    """GraphInUseError where another thread runs a backward that began before and conflicts."""
    for other in list(running):
        if other is mine:
            return
        if other.ended:  # left there by Ctrl-C
            running.pop(other, None)
        elif shared := _consumed(mine, other):
            raise GraphInUseError(
                "another thread is running backward on this graph, and the arrays that the nodes "
                "have saved are freed as they are used. Pass retain_graph=True to both backwards, "
                "or run them one after the other, or compute the forward once in each thread. (A "
                "hook of a backward with engine='parallel' counts as another thread.)",
                ops=tuple(sorted({vertex.op.name for vertex in shared if hasattr(vertex, "op")})),
                threads=(mine.thread, other.thread),
            )


def _consumed(mine: BackwardRun, other: BackwardRun) -> set:
    """The nodes of both, if they run in two threads and one of them frees what nodes have saved.

    A backward inside the hooks of one that runs in this thread alone is no conflict.
    """
    same = mine.thread is not None and mine.thread == other.thread
    if same or not (mine.release or other.release):
        return set()
    shared = set(mine.order).intersection(other.order)
    return {vertex for vertex in shared if vertex.__class__ is not Leaf}


def _in_child() -> None:
    """After a fork: the backwards of other threads do not go on here."""
    mine = modes.state.thread
    for other in [work for work in running if work.thread != mine]:
        del running[other]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
