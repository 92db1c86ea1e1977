"""The two names that lower rooms may call before the upper rooms exist.

A tensor's operators are calls of ops, and ops make tensors: this is the one cycle that tempts. It
is cut here, in the open: `Tensor.__mul__` calls `op.mul`, and `ops/` fills `op` when it is
imported. In the same way `Tensor.backward` calls `engine.backward`, which `engine/` fills.
"""

import importlib
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple


class Origin(NamedTuple):
    """Who registered an entry: the module that asked for it, the one that wrote the function (which
    a helper may register), and the spec of the former, which is another after a reload.
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


_HERE = ("minigrad.engine.", "minigrad.custom.")


class Registry:
    """Entries by name, as attributes; a name can be given once.

    What a module has defined it may define again, as a reload or a notebook's cell does.
    """

    def __init__(self, what: str):
        self.__dict__["_what"] = what
        self.__dict__["_origins"] = {}
        self.__dict__["_replaced"] = {}  # name -> weak references to earlier ops of this name

    def register(self, name: str, entry: Any) -> None:
        """Add an entry, or replace the one that the same module has registered before; ValueError
        for a name that another one has taken.
        """
        origin, before = origin_of(getattr(entry, "forward", entry)), self.__dict__.get(name)
        if before is not None:
            if not origin.replaces(self._origins[name]):
                raise ValueError(
                    f"the {self._what} {name!r} is registered already; choose another name"
                )
            _forget_numpys(before)
            if origin.reloads(self._origins[name]):
                self._renew(name, before, entry)
        self._origins[name] = origin
        self.__dict__[name] = entry

    def _renew(self, name: str, before: Any, entry: Any) -> None:
        """Let those who imported the op from the module before its reload have the new one: all
        objects of this name share its attributes.
        """
        if hasattr(before, "rules") and type(before) is type(entry):
            earlier = self._replaced.setdefault(name, [])
            earlier.append(weakref.ref(before))
            for known in [found for ref in earlier if (found := ref()) is not None]:
                known.__dict__ = entry.__dict__

    if TYPE_CHECKING:  # real, it would slow every look-up, as it would a tensor's (spelling.py)

        def __getattr__(self, name: str) -> Any: ...

    def __contains__(self, name: str) -> bool:
        return not name.startswith("_") and name in self.__dict__

    def __iter__(self) -> Iterator[Any]:
        """The entries in the order in which they were registered.

        Those there are now: another thread may register one during the loop.
        """
        entries = list(self.__dict__.items())  # one step, in which no other thread adds one
        return iter([entry for name, entry in entries if not name.startswith("_")])


def _forget_numpys(entry: Any) -> None:
    """NumPy's functions do not mean this entry any more."""
    for function in [fn for fn, meant in numpy_table.items() if meant is entry]:
        del numpy_table[function]


def registering_module(name: str) -> str:
    """The module that registers this op when it is imported."""
    return op._origins[name].author


def find_op(name: str, module: str) -> Any:
    """The op of this name: what a pickled op is made of again. `module`, which registers it, is
    imported where it is missing. LookupError if it is missing still.
    """
    if name not in op:
        importlib.import_module(module)
    if name not in op:
        raise LookupError(
            f"the pickle refers to the op {name!r}, and importing {module} registers no such op"
        )
    return op.__dict__[name]


op = Registry("op")  # primitives: op.mul, op.exp ...
engine = Registry("engine function")  # engine.backward

# What a NumPy function means on tensors: np.exp -> mg.exp. Filled by ops/, read by the protocol.
numpy_table: dict[Callable, Callable] = {}
# What a reduction of NumPy's means with where=, initial= or mean=, which its op does not take.
chosen_table: dict[Callable, Callable] = {}
# What a ufunc of scipy.special means, by its name: SciPy need not be imported to fill this.
scipy_table: dict[str, Callable] = {}
