"""The two names that lower rooms may call before the upper rooms exist.

A tensor's operators are calls of ops, and ops make tensors: this is the one cycle that tempts. It
is cut here, in the open: `Tensor.__mul__` calls `op.mul`, and `ops/` fills `op` when it is
imported. In the same way `Tensor.backward` calls `engine.backward`, which tensor_api/ fills.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any


class Registry:
    """Entries by name, as attributes; a name can be given once."""

    def __init__(self, what: str):
        self.__dict__["_what"] = what

    def register(self, name: str, entry: Any) -> None:
        """Add an entry; ValueError for a name that is taken."""
        admit(self, name, entry)
        self.__dict__[name] = entry

    def refuse(self, name: str) -> None:
        """The error for a name that is taken."""
        raise ValueError(f"the {self._what} {name!r} is registered already; choose another name")

    if TYPE_CHECKING:  # real, it would slow every look-up, as it would a tensor's (foreign_names)

        def __getattr__(self, name: str) -> Any: ...

    def __contains__(self, name: str) -> bool:
        return not name.startswith("_") and name in self.__dict__

    def __iter__(self) -> Iterator[Any]:
        """The entries in the order in which they were registered.

        Those there are now: another thread may register one during the loop.
        """
        # a copy is one step, in which no other thread adds one; list(d.items()) makes tuples, which
        # may bring the collector, and with it any thread
        entries = self.__dict__.copy()
        return iter([entry for name, entry in entries.items() if not name.startswith("_")])


def _if_new(registry: Registry, name: str, entry: Any) -> None:
    if name in registry:
        registry.refuse(name)


# Called before an entry is added; custom/reload.py lets a module that is reloaded replace its own.
admit: Callable[[Registry, str, Any], None] = _if_new

op = Registry("op")  # primitives: op.mul, op.exp ...
engine = Registry("engine function")  # engine.backward

# NumPy's functions and their ops on tensors: np.exp -> mg.exp. Filled by ops/, read by the
# protocol.
numpy_table: dict[Callable, Callable] = {}
# What a reduction of NumPy's means with where=, initial= or mean=, which its op does not take.
chosen_table: dict[Callable, Callable] = {}
# What a ufunc of scipy.special means, by its name: SciPy need not be imported to fill this.
scipy_table: dict[str, Callable] = {}
