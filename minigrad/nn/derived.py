"""Attributes of a module that are computed from its other tensors whenever they are read.

A computed attribute is a property, and properties belong to classes. So the module's class is
replaced by a subclass of the same name that has the properties. Other modules of the class are left
alone; copies and pickles are of that class too.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ..backends.caches import cached as kept
from ..backends.leaving import contextmanager, ended_by
from ..backends.threads import Local
from ..engine.modes import state
from ..tensor_api.tensor import Tensor
from .module import Module


class Derivation:
    """A rule for module.<name>, computed from tensors of the module with longer names than that."""

    made: tuple[str, ...] = ()  # what these, and buffers, have after the name
    _tensor_name = ""

    def assign(self, module: Module, value: Any) -> None:
        name = self._tensor_name
        made = ", ".join(name + end for end in self.made)
        raise AttributeError(
            f"{type(module).__name__}.{name} is computed from {made}; write into these, or take "
            "away first what computes it"
        )


class _Values(Local):
    """The values computed inside `cached()`, by module, name and whether they are recorded."""

    blocks: tuple = ()  # those that this thread is in
    found: dict[tuple[int, str, bool], Any]


_values = _Values()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each attribute once in the block, however often it is read; in this thread.

    Changes of its tensors within the block show only after its end.
    """
    mine = object()

    def end() -> None:
        _values.blocks = tuple([block for block in _values.blocks if block is not mine])
        if not _values.blocks:
            _values.found = {}

    with ended_by(end):
        if not _values.blocks:
            _values.found = {}
        _values.blocks = (*_values.blocks, mine)
        yield


def derive(module: Module, name: str, rule: Callable[[Module], Tensor]) -> None:
    """Let module.<name> be rule(module) from now on. An assignment is given to rule.assign."""
    rules = {**rules_of(module), name: rule}
    vars(module).pop(name, None)
    module._forget_buffer(name)
    module.__class__ = _computing(class_before(module), tuple(rules))
    vars(module)["_computed"] = rules


def underive(module: Module, name: str) -> None:
    """Forget the rule: the module has no attribute of this name then."""
    rules = {key: rule for key, rule in rules_of(module).items() if key != name}
    base = class_before(module)
    module.__class__ = _computing(base, tuple(rules)) if rules else base
    if rules:
        vars(module)["_computed"] = rules
    else:
        del vars(module)["_computed"]
    _forget(module, name)


def _forget(module: Module, name: str) -> None:
    """The value of this name computed inside `cached()`, with or without a history."""
    if _values.blocks:
        for recorded in (False, True):
            _values.found.pop((id(module), name, recorded), None)


def rules_of(module: Any) -> dict[str, Any]:
    """The rules of a module's computed attributes, by name."""
    return vars(module).get("_computed", {})


def class_before(module: Any) -> type:
    """The class that a module had before any of its attributes was computed."""
    return getattr(type(module), "_class_before", type(module))


@kept("classes with computed attributes", max_entries=256)
def _computing(base: type, names: tuple[str, ...]) -> type:
    """A class that derives from base, in which these attributes are computed."""
    body: dict[str, Any] = {name: _property(name) for name in names}
    told = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    body |= told | {"_class_before": base, "__reduce__": _reduce}
    return type(base)(base.__name__, (base,), body)


def _property(name: str) -> property:
    def read(module: Any) -> Any:
        rule = rules_of(module)[name]
        if not _values.blocks:
            return rule(module)
        key = id(module), name, state.recording
        if key not in _values.found:
            _values.found[key] = rule(module), module  # held: no other object may get its id
        return _values.found[key][0]

    def write(module: Any, value: Any) -> None:
        rules_of(module)[name].assign(module, value)
        _forget(module, name)

    return property(read, write)


def _reduce(module: Any) -> tuple:
    """Copies and pickles: the class is made anew from its base, which can be imported."""
    return _remade, (class_before(module), tuple(rules_of(module))), module.__getstate__()


def _remade(base: Any, names: tuple[str, ...]) -> Any:
    return object.__new__(_computing(base, names))
