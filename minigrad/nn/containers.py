"""Modules and parameters in rows and dictionaries, found by their parent like single ones."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..engine.errors import describe
from .module import Module
from .parameter import Parameter
from .state import require_name


class _List(Module):
    """Base of the rows: entries are attributes "0", "1", ... in the order of their places."""

    kind: type = Module

    def __init__(self, entries: Iterable = ()):
        if isinstance(entries, Parameter) or not hasattr(entries, "__iter__"):
            name, kind = type(self).__name__, self.kind.__name__.lower()
            raise TypeError(
                f"{name} takes a list of {kind}s: {name}([a, b]), got {describe(entries)}"
            )
        self.extend(entries)

    def _items(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if name.isdigit()]

    def _entries(self) -> list:
        return [entry for _, entry in self._items()]

    def _at(self, index: int) -> Any:
        entry = vars(self).get(str(index))  # its name is its place
        return self._entries()[index] if entry is None else entry

    def _checked(self, entry: Any, what: Any) -> Any:
        if not isinstance(entry, self.kind):
            row, kind = type(self).__name__, self.kind.__name__.lower()
            hint = ""
            if isinstance(entry, type):
                hint = f"; {entry.__name__} is a class, and {entry.__name__}(...) makes one"
            elif isinstance(entry, list | tuple):
                hint = f"; {row}(*{kind}s) passes those of a list"
            elif callable(entry):
                name = getattr(entry, "__name__", "it")
                hint = (
                    f"; {name} is a function, which a layer such as nn.ReLU() calls, or the "
                    "forward of a class of yours that derives from nn.Module"
                )
            raise TypeError(
                f"{row} takes {kind}s; argument {what} is a {type(entry).__name__}{hint}"
            )
        return entry

    def append(self, entry: Any) -> Any:
        """Add one entry at the end; returns the list itself."""
        return self.extend((entry,))

    def extend(self, entries: Iterable) -> Any:
        """Add several entries at the end; returns the list itself."""
        at = len(self)
        for place, entry in enumerate(list(entries), at):
            entry = self._checked(entry, place)
            at = max(at, place)
            while str(at) in vars(self):  # a name that was given
                at += 1
            setattr(self, str(at), entry)
        return self

    def insert(self, index: int, entry: Any) -> Any:
        """Put an entry before the one at `index`; those behind it move up by one. Returns the list
        itself.
        """
        items = self._items()
        items.insert(index, ("", self._checked(entry, index)))
        self._refill(items)
        return self

    def pop(self, index: int = -1) -> Any:
        """Take an entry out and return it; those behind it move down by one."""
        entry = self[index]
        del self[index]
        return entry

    def _refill(self, items: list[tuple[str, Any]]) -> None:
        for name, _ in self._items():
            delattr(self, name)
        for name, entry in _numbered(items).items():
            setattr(self, name, entry)

    def __iter__(self) -> Iterator:
        return iter(self._entries())

    def __len__(self) -> int:
        return sum(map(str.isdigit, vars(self)))

    def __add__(self, entries: Iterable) -> Any:
        return self._row_of(_numbered(self._items())).extend(entries)

    def __iadd__(self, entries: Iterable) -> Any:
        return self.extend(entries)

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self._at(index)
        return self._row_of(self._names_in_slice(self._items()[index]))

    def _names_in_slice(self, items: list[tuple[str, Any]]) -> dict[str, Any]:
        return _numbered(items)

    def _row_of(self, entries: dict[str, Any]) -> Any:
        """A row of the same kind; its entries keep their names in the model they are part of."""
        row = type(self).__new__(type(self))  # a subclass's __init__ may take other arguments
        vars(row).update(entries, training=self.training)  # not setattr, which would name them anew
        return row

    def __setitem__(self, index: int | slice, entry: Any) -> None:
        items = self._items()
        if not isinstance(index, slice):
            setattr(self, items[index][0], self._checked(entry, index))
            return
        items[index] = [("", self._checked(one, i)) for i, one in enumerate(entry)]
        self._refill(items)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        del items[index]
        self._refill(items)


def _numbered(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Entries by their names; a number, or no name, means the position."""
    return {name if name and not name.isdigit() else str(i): x for i, (name, x) in enumerate(items)}


class Sequential(_List):
    """Modules in a row: each takes the result of the one before. Indexed, sliced, iterated over.

    Sequential(a, b, c), or Sequential({"conv": a, "act": b}) to name them. In a slice the modules
    keep their names, numbers too: their saved states still load.
    """

    def __init__(self, *modules: Any):
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, self._checked(module, repr(name)))
        else:
            super().__init__(modules)

    def _items(self) -> list[tuple[str, Any]]:
        return self._held()

    def __len__(self) -> int:
        return len(self._held())

    def _at(self, index: int) -> Any:
        return self._entries()[index]  # a name may be any, a number in a slice the place before

    def _names_in_slice(self, items: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(items)

    def forward(self, x: Any) -> Any:
        for module in self._entries():
            x = module(x)
        return x

    def __mul__(self, times: int) -> "Sequential":
        return self._row_of(_numbered(self._items())).__imul__(times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> "Sequential":
        if not isinstance(times, int) or times < 1:
            raise ValueError(
                f"{type(self).__name__} * {times!r}: the modules are repeated 1 or more times, and "
                "are the same ones each time"
            )
        return self.extend(self._entries() * (times - 1))


class _Uncalled(Module):
    """A container that is not called: the scopes of its entries begin with its own name."""

    def _enter_scope(self, name: str) -> None:
        super()._enter_scope(name)
        for key, entry in vars(self).items():
            if isinstance(entry, Module):
                self._name_scope(key, entry)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, Module):
            self._name_scope(name, value)

    def _name_scope(self, key: str, entry: Module) -> None:
        called = type(self).forward is not Module.forward  # a subclass may define one
        entry._enter_scope(f"{self._scope}.{key}" if self._scope and not called else key)


class ModuleList(_Uncalled, _List):
    """A list of modules that are found, trained and saved; it has no forward."""


class ParameterList(_List):
    """A list of parameters; arrays and tensors that are appended become parameters."""

    kind = Parameter

    def _checked(self, entry: Any, what: Any) -> Any:
        return entry if isinstance(entry, Parameter) else Parameter(entry)

    def extra_repr(self) -> str:
        return ", ".join(f"{p.dtype} {p.shape}" for p in self)


class _Dict(Module):
    """Base of the dictionaries: entries are attributes under their keys, in their order."""

    kind: type = Module

    def __init__(self, entries: Any = ()):
        self.update(entries)

    def update(self, entries: Any) -> None:
        """Set the entries of a dictionary, or of (key, entry) pairs."""
        for key, entry in entries.items() if isinstance(entries, Mapping | _Dict) else entries:
            self[key] = entry

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(f"{type(self).__name__} has no {key!r}; it has {[*self.keys()]}")
        return vars(self)[key]

    def __setitem__(self, key: str, entry: Any) -> None:
        name = type(self).__name__
        if not isinstance(entry, self.kind):
            raise TypeError(f"{name}[{key!r}] must be a {self.kind.__name__}, got {entry!r}")
        require_name(self, key, "key")
        setattr(self, key, entry)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def _dict(self) -> dict[str, Any]:
        return {name: v for name, v in vars(self).items() if isinstance(v, self.kind)}

    def __contains__(self, key: Any) -> bool:
        return isinstance(vars(self).get(key), self.kind)  # without a list of all

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

    def get(self, key: str, default: Any = None) -> Any:
        """The entry under a key, or the default."""
        return self[key] if key in self else default

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._dict())

    def popitem(self) -> tuple[str, Any]:
        """Take the last entry out; returns (key, entry)."""
        if not len(self):
            raise KeyError(f"popitem: the {type(self).__name__} is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """Take all entries out."""
        for key in self._dict():
            delattr(self, key)

    def pop(self, key: str) -> Any:
        """Take an entry out and return it."""
        entry = self[key]
        del self[key]
        return entry


class ModuleDict(_Uncalled, _Dict):
    """A dictionary of modules that are found, trained and saved; it has no forward."""


class ParameterDict(_Dict):
    """A dictionary of parameters; arrays and tensors that are set become parameters.

    Entries of a plain dictionary are sorted by their keys; an OrderedDict, a ParameterDict and
    pairs keep their order. PyTorch does the same, and saved states of optimizers depend on it.
    """

    kind = Parameter

    def update(self, entries: Any) -> None:
        """Set the entries of a dictionary (sorted, see the class), or of (key, entry) pairs."""
        in_order = not isinstance(entries, Mapping) or isinstance(entries, OrderedDict)
        super().update(entries if in_order else sorted(entries.items(), key=lambda e: str(e[0])))

    def __setitem__(self, key: str, entry: Any) -> None:
        super().__setitem__(key, entry if isinstance(entry, Parameter) else Parameter(entry))

    def setdefault(self, key: str, default: Any = None) -> Parameter:
        """The entry under a key, which is the default where there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def copy(self) -> "ParameterDict":
        """A dictionary of the same parameters."""
        return ParameterDict(self)

    @staticmethod
    def fromkeys(keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A dictionary with the default under each of the keys."""
        return ParameterDict((key, default) for key in keys)

    def __or__(self, entries: Any) -> "ParameterDict":
        return self.copy().__ior__(entries)

    def __ior__(self, entries: Any) -> "ParameterDict":
        self.update(entries)
        return self

    def extra_repr(self) -> str:
        return ", ".join(f"{key}: {p.dtype} {p.shape}" for key, p in self.items())
