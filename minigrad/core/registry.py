"""The two names that lower rooms may call before the upper rooms exist.

A tensor's operators are calls of ops, and ops make tensors: this is the one cycle that tempts. It
is cut here, in the open: `Tensor.__mul__` calls `op.mul`, and `ops/` fills `op` when it is
imported. In the same way `Tensor.backward` calls `engine.backward`, which `engine/` fills.
"""

from collections.abc import Callable, Iterator
from typing import Any


class Registry:
    """Entries by name, as attributes; a name can be given once."""

    def __init__(self, what: str):
        self.__dict__["_what"] = what

    def register(self, name: str, entry: Any) -> None:
        if name in self.__dict__:
            raise ValueError(
                f"the {self._what} {name!r} is registered already; choose another name"
            )
        self.__dict__[name] = entry

    def __getattr__(self, name: str) -> Any:  # only reached for a name that is not there
        raise AttributeError(f"there is no {self._what} named {name!r}")

    def __contains__(self, name: str) -> bool:
        return not name.startswith("_") and name in self.__dict__

    def __iter__(self) -> Iterator[Any]:
        """The entries in the order in which they were registered."""
        return iter([entry for name, entry in self.__dict__.items() if not name.startswith("_")])


op = Registry("op")  # primitives: op.mul, op.exp ...
engine = Registry("engine function")  # engine.backward

# What a NumPy function means on tensors: np.exp -> mg.exp. Filled by ops/, read by the protocol.
numpy_table: dict[Callable, Callable] = {}
