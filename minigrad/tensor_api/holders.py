"""Who else can see a tensor's memory: values that nodes have saved alone, or a view of the user's.

A recorded write gives the tensor a new array: arrays that nodes have saved keep their values. A
view that the user holds would keep them too, and should not. CPython counts the references to an
array and does not say whose they are; those of saved values are counted here.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..engine.graph import Port
from ..engine.versions import owner_of


class _Holders:
    """The tensors and arrays that show one memory: object and known references, by id."""

    def __init__(self, owner: Any):
        self.owner = id(owner)  # no further reference, which would be counted
        self.objects: dict[int, Any] = {}
        self.known: dict[int, int] = {}

    def add(self, x: Any) -> None:
        """One reference to x, a value of any kind, where that shows the memory."""
        if not hasattr(x, "requires_grad") and type(x) is not np.ndarray:
            return
        if id(owner_of(array_of(x))) != self.owner:
            return
        while x is not None:
            self.known[id(x)] = self.known.get(id(x), 0) + 1
            if id(x) in self.objects:
                return
            self.objects[id(x)] = x
            x = x._data if hasattr(x, "_data") else _base_of(x)  # pyright: ignore[reportAttributeAccessIssue] (narrowed above)

    def all_known(self) -> bool:
        """Whether nothing else refers to any of them."""
        return all(sys.getrefcount(self.objects[k]) == n + _OWN for k, n in self.known.items())


def saved_alone(x: Any, value: Any) -> bool:
    """Whether only the tensor x and saved values of nodes refer to its memory.

    The nodes are those that led to x, to the value and, in forward mode, to their tangents, as far
    back as x. Nodes that computed something else from x are not found.
    """
    holders = _Holders(owner_of(array_of(x)))
    holders.add(x._data)
    _add_saved(holders, _since(x), [*_vertices(x), *_vertices(value)])
    return holders.all_known()


def _add_saved(holders: _Holders, since: int, roots: Iterable) -> None:
    seen = {vertex for vertex in roots if vertex.number >= since}
    waiting = [*seen]
    while waiting:
        vertex = waiting.pop()
        for value in vertex.saved if type(vertex.saved) is tuple else ():
            for part in value if isinstance(value, tuple | list) else (value,):
                holders.add(part)
        new = {p for p in vertex.parents if p.number >= since} - seen  # a parent may be one twice
        seen |= new
        waiting += new


def array_of(x: Any) -> Any:
    """The array of a tensor, which may be of several levels; of an array itself."""
    while hasattr(x, "_data"):
        x = x._data
    return x


def _base_of(array: Any) -> Any:
    """The array that a view refers to; NumPy may put an object without a shape between."""
    base = getattr(array, "base", None)
    return base if base is None or hasattr(base, "shape") else getattr(base, "base", None)


def _vertices(x: Any) -> Iterator[Any]:
    """The nodes of a value at each of its levels, and of its tangents."""
    while hasattr(x, "_data"):
        if x.node is not None:
            yield x.node
        if x.level and x._grad is not None:
            yield from _vertices(x._grad)
        x = x._data


def _since(x: Any) -> int:
    """The number of the first node that can have saved x: the one that made it; 0 if none did."""
    made = []
    while hasattr(x, "_data"):
        if x.node is not None:
            made.append(x.node.parents[0] if type(x.node) is Port else x.node)
        x = x._data
    return min([node.number for node in made], default=0)


def _count_own() -> int:
    """How many references to an object in `_Holders` the count itself shows."""
    probe = _Holders(None)
    probe.objects[0] = np.empty(0)
    return sys.getrefcount(probe.objects[0])


_OWN = _count_own()
