"""Ops given again: a module may define its op anew, as a reload or a notebook's cell does. Modules
that imported the op before have the new one.
"""

import importlib
import sys
import weakref
from types import FunctionType
from typing import Any, NamedTuple

from ..engine import registry as _seam
from ..engine.registry import Registry, numpy_table, op


class Origin(NamedTuple):
    """The origin of an entry: the module that asked for it, the one that wrote the function (which
    a helper may register), and the former's spec, which a reload changes.
    """

    module: str
    author: str
    spec: Any

    def replaces(self, before: "Origin") -> bool:
        """Whether this is a definition anew: of a module that is reloaded, of a notebook's cell.

        While a module is imported, two entries of one name are a mistake.
        """
        importing = getattr(self.spec, "_initializing", False)
        return self[:2] == before[:2] and not (importing and self.spec is before.spec)

    def reloads(self, before: "Origin") -> bool:
        """Whether the same module runs once more as a whole."""
        again = self.spec is not None and self.spec is not before.spec
        return again and self.replaces(before)

    def repeats(self, before: "Origin") -> bool:
        """Whether the module runs once more, as a whole or in cells."""
        cell = self.module == "__main__" and self.replaces(before)
        return cell or self.reloads(before)


def origin_of(written: Any) -> Origin:
    """The origin of what the caller outside the engine and custom/ registers now."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_HERE) and frame.f_back:
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "")
    author = written.__module__ if isinstance(written, FunctionType) else module
    return Origin(module, author or module, frame.f_globals.get("__spec__"))


_HERE = ("minigrad.engine.", "minigrad.custom.", "minigrad.tensor_api.composite")


origins: weakref.WeakKeyDictionary[Registry, dict[str, Origin]] = weakref.WeakKeyDictionary()
replaced: dict[str, list[weakref.ref]] = {}  # name -> earlier ops of this name


def admit(registry: Registry, name: str, entry: Any) -> None:
    """Note who registers an entry of this name, which may replace that of the same module;
    ValueError for a name that another one has taken.
    """
    known = origins.setdefault(registry, {})
    origin, before = origin_of(getattr(entry, "forward", entry)), registry.__dict__.get(name)
    if before is not None:
        if not origin.replaces(known[name]):
            registry.refuse(name)
        _forget_numpys(before)
        if origin.reloads(known[name]):
            _renew(name, before, entry)
    known[name] = origin


def _renew(name: str, before: Any, entry: Any) -> None:
    """Let those who imported the op from the module before its reload have the new one: all
    objects of this name share its attributes.
    """
    if hasattr(before, "rules") and type(before) is type(entry):
        earlier = replaced.setdefault(name, [])
        earlier.append(weakref.ref(before))
        for known in [found for ref in earlier if (found := ref()) is not None]:
            known.__dict__ = entry.__dict__


def _forget_numpys(entry: Any) -> None:
    """NumPy's functions do not mean this entry any more."""
    for function in [fn for fn, meant in numpy_table.items() if meant is entry]:
        del numpy_table[function]


def registering_module(name: str) -> str:
    """The module that registers this op when it is imported."""
    return origins[op][name].author


def find_op(name: str, module: str) -> Any:
    """The op of this name, for a pickled op. `module`, which registers it, is
    imported where it is missing. LookupError if it is missing still.
    """
    if name not in op:
        importlib.import_module(module)
    if name not in op:
        raise LookupError(
            f"the pickle refers to the op {name!r}, and importing {module} registers no such op"
        )
    return op.__dict__[name]


_seam.admit = admit
