"""Modules and parameters in rows and dictionaries, found by their parent like single ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .module import Module
from .parameter import Parameter


class _List(Module):
    """Base of the rows: entries are attributes "0", "1", ... in the order of their places."""

    kind: type = Module

    def __init__(self, entries: Iterable = ()):
        self.extend(entries)

    def _entries(self) -> list:
        return [value for name, value in vars(self).items() if name.isdigit()]

    def append(self, entry: Any) -> Any:
        """Add one entry at the end; returns the list itself."""
        at = len(self)
        if not isinstance(entry, self.kind):
            raise TypeError(
                f"{type(self).__name__} takes {self.kind.__name__.lower()}s; argument {at} is a "
                f"{type(entry).__name__}"
            )
        setattr(self, str(at), entry)
        return self

    def extend(self, entries: Iterable) -> Any:
        """Add several entries at the end; returns the list itself."""
        for entry in entries:
            self.append(entry)
        return self

    def insert(self, index: int, entry: Any) -> None:
        """Put an entry before the one at `index`; those behind it move up by one."""
        entries = self._entries()
        entries.insert(index, entry)
        self._refill(entries)

    def _refill(self, entries: list) -> None:
        for name in [name for name in vars(self) if name.isdigit()]:
            delattr(self, name)
        self.extend(entries)

    def __iter__(self) -> Iterator:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def __getitem__(self, index: int | slice) -> Any:
        chosen = self._entries()[index]
        if not isinstance(index, slice):
            return chosen
        part = type(self)()
        # not setattr: entries keep the names that they have in the model they are part of
        vars(part).update({str(i): entry for i, entry in enumerate(chosen)})
        return part

    def __setitem__(self, index: int, entry: Any) -> None:
        entries = self._entries()
        entries[index] = entry
        self._refill(entries)

    def __delitem__(self, index: int | slice) -> None:
        entries = self._entries()
        del entries[index]
        self._refill(entries)


class Sequential(_List):
    """Modules in a row: each takes the result of the one before. Indexed, sliced, iterated over.

    Sequential(a, b, c), or Sequential({"conv": a, "act": b}) to name them.
    """

    def __init__(self, *modules: Any):
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                setattr(self, name, module)
        else:
            super().__init__(modules)

    def _entries(self) -> list:
        return list(self.children())

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x


class ModuleList(_List):
    """A list of modules that are found, trained and saved; it has no forward of its own."""


class ParameterList(_List):
    """A list of parameters; arrays and tensors that are appended become parameters."""

    kind = Parameter

    def append(self, entry: Any) -> Any:
        return super().append(entry if isinstance(entry, Parameter) else Parameter(entry))

    def extra_repr(self) -> str:
        return ", ".join(f"{p.dtype} {p.shape}" for p in self)


class _Dict(Module):
    """Base of the dictionaries: entries are attributes under their keys, in their order."""

    kind: type = Module

    def __init__(self, entries: Any = ()):
        self.update(entries)

    def update(self, entries: Any) -> None:
        """Set the entries of a dictionary, or of (key, entry) pairs."""
        for key, entry in entries.items() if isinstance(entries, Mapping) else entries:
            self[key] = entry

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(f"{type(self).__name__} has no {key!r}; it has {[*self.keys()]}")
        return vars(self)[key]

    def __setitem__(self, key: str, entry: Any) -> None:
        name = type(self).__name__
        if not isinstance(entry, self.kind):
            raise TypeError(f"{name}[{key!r}] is to be a {self.kind.__name__}, got {entry!r}")
        if not isinstance(key, str) or "." in key or hasattr(type(self), key):
            raise KeyError(f"{name}: {key!r} cannot be a key: choose a string with no '.', "
                           "that is no attribute of Module")  # fmt: skip
        setattr(self, key, entry)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def _dict(self) -> dict[str, Any]:
        return {name: v for name, v in vars(self).items() if isinstance(v, self.kind)}

    def __contains__(self, key: object) -> bool:
        return key in self._dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def __len__(self) -> int:
        return len(self._dict())

    def keys(self) -> Iterable[str]:
        return self._dict().keys()

    def values(self) -> Iterable:
        return self._dict().values()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._dict().items()

    def pop(self, key: str) -> Any:
        """Take an entry out and return it."""
        entry = self[key]
        del self[key]
        return entry


class ModuleDict(_Dict):
    """A dictionary of modules that are found, trained and saved; it has no forward of its own."""


class ParameterDict(_Dict):
    """A dictionary of parameters; arrays and tensors that are set become parameters."""

    kind = Parameter

    def __setitem__(self, key: str, entry: Any) -> None:
        super().__setitem__(key, entry if isinstance(entry, Parameter) else Parameter(entry))

    def extra_repr(self) -> str:
        return ", ".join(f"{key}: {p.dtype} {p.shape}" for key, p in self.items())
