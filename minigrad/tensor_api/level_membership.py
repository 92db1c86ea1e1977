"""Tensors that a write has made part of a function transform, until that transform ends.

`b[...] = v` with a v of level n makes b a tensor of level n (inplace.py). If b was made inside the
transform, it is gone when the level ends. If it comes from outside, it outlives the level, and the
next transform at that depth would take it for its own. func/levels.py decides what it becomes.
"""

import weakref
from typing import Any, NamedTuple

from ..backends.threads import Local


class Before(NamedTuple):
    """The state of a tensor before it joined a level."""

    kind: type
    data: Any
    node: Any
    grad: Any

    def restore(self, x: Any) -> None:
        """Make x what it was."""
        x.__class__ = self.kind
        x._data, x.node, x._grad = self.data, self.node, self.grad


class _Joined(Local):
    def __init__(self) -> None:
        self.levels: dict[int, dict[int, tuple[weakref.ref, Before]]] = {}


_joined = _Joined()


def note(x: Any, level: int, before: Before | None = None) -> None:
    """Record that x is about to join this level; its former state is kept while x is alive."""
    here, key = _joined.levels.setdefault(level, {}), id(x)
    if key not in here:
        gone = weakref.ref(x, lambda _: here.pop(key, None))
        here[key] = gone, before or Before(type(x), x._data, x.node, x._grad)


def has(x: Any, level: int) -> bool:
    """Whether x has joined this level."""
    return id(x) in _joined.levels.get(level, ())


def alive(level: int) -> list[tuple[Any, Before]]:
    """The tensors that have joined this level and are still referred to, with what they were."""
    entries = [*_joined.levels.get(level, {}).values()]
    return [(x, before) for ref, before in entries if (x := ref()) is not None]


def forget(level: int) -> None:
    """Drop the records of a level that has ended."""
    _joined.levels.pop(level, {}).clear()  # emptied: the callbacks in it refer back to it
