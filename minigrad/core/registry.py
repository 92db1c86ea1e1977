"""The two names that lower rooms may call before the upper rooms exist.

A tensor's operators are calls of ops, and ops make tensors: this is the one cycle that tempts. It
is cut here, in the open: `Tensor.__mul__` calls `op.mul`, and `ops/` fills `op` when it is
imported. In the same way `Tensor.backward` calls `engine.backward`, which `engine/` fills.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any


class Registry:
    """Entries by name, as attributes; a name can be given once.

    What a notebook's cell (the module `__main__`) has defined, the cell may define again.
    """

    def __init__(self, what: str):
        self.__dict__["_what"] = what

    def register(self, name: str, entry: Any) -> None:
        """Add an entry; ValueError for a name that is taken."""
        before = self.__dict__.get(name)
        if before is not None and not (_of_session(before) and _of_session(entry)):
            raise ValueError(
                f"the {self._what} {name!r} is registered already; choose another name"
            )
        self.__dict__[name] = entry

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


def _modules(entry: Any) -> list[str]:
    """Where an op was written: the module of its forward (the general one); of its rules, where
    that is a ufunc.
    """
    forward = getattr(entry, "forward", entry)
    forward = getattr(forward, "general", None) or forward
    rules = [rule.fn for rule in getattr(entry, "rules", {}).values()]
    written = rules if hasattr(forward, "nin") else [forward]
    return [getattr(fn, "__module__", "") for fn in written]


def _of_session(entry: Any) -> bool:
    """Whether it was written in `__main__`."""
    modules = _modules(entry)
    return bool(modules) and all(module == "__main__" for module in modules)


def registering_module(entry: Any) -> str:
    """The module that registers an op when it is imported."""
    return next(iter(_modules(entry)), "minigrad")


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
