"""A function's reads from outside itself: a recorded program holds for these values.

A number, a string or a function that a closure or a global name holds becomes part of the recorded
program. If one differs at a later call, the function is another one and needs another program. Its
gradient is recorded later, so each program belongs to a copy of the function that keeps the values.
"""

import weakref
from collections.abc import Callable, Hashable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_DEEPEST = 3  # functions that call functions, containers in containers
_LARGEST = 64  # entries of a container that a call compares


class Unknown(Exception):
    """The function reads something that cannot be compared cheaply, or may need a gradient."""


class Outside:
    """The closure of a function, and the globals that it and its inner functions name."""

    def __init__(self, fn: Any):
        code = getattr(fn, "__code__", None)
        self.cells = getattr(fn, "__closure__", None) or ()
        self.globals = getattr(fn, "__globals__", {})
        self.names = sorted(_names_in(code)) if code is not None else []

    def values(self, depth: int = 0) -> tuple[Hashable, ...]:
        """Their present values for comparison: equal for two calls with equal reads."""
        held = [self.globals[name] for name in self.names if name in self.globals]
        return tuple([_frozen(value, depth) for value in (*held, *_contents(self.cells))])

    def keeping(self, fn: Any, depth: int = 0) -> Callable:
        """A copy of the function that keeps their present values."""
        if not isinstance(fn, FunctionType):
            return fn
        names = {"__builtins__", "__name__", "__package__", *self.names} & self.globals.keys()
        held = {name: _kept(self.globals[name], depth) for name in names}
        filled = len([*_contents(self.cells)]) == len(self.cells)
        cells = tuple([CellType(_kept(x, depth)) for x in _contents(self.cells)])
        closure = cells if filled else self.cells
        copy = FunctionType(fn.__code__, held, fn.__name__, fn.__defaults__, closure or None)
        copy.__kwdefaults__ = fn.__kwdefaults__
        return copy


class _Same:
    """An object as a key that is equal to itself alone, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


_of_functions: Any = weakref.WeakKeyDictionary()


def _names_in(code: CodeType) -> set[str]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*[_names_in(part) for part in inner])


def _contents(cells: tuple) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue


def _of_a_user(value: Any) -> bool:
    library = ("minigrad.", "numpy")
    return isinstance(value, FunctionType) and not (value.__module__ or "").startswith(library)


def _outside_of(fn: Any) -> Outside:
    if fn not in _of_functions:
        _of_functions[fn] = Outside(fn)
    return _of_functions[fn]


def _unwrapped(fn: Any) -> Any:
    return getattr(fn, "__wrapped__", fn)  # if the function itself is fused


def _frozen(value: Any, depth: int) -> Hashable:
    if isinstance(value, _PLAIN):
        return type(value), repr(value)  # 1, 1.0 and True are equal, 0.0 and −0.0 too
    if isinstance(value, ModuleType):
        return _Same(value)
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        raise Unknown  # a tensor of one number, which may change, and may need a gradient
    if depth < _DEEPEST and _of_a_user(value):
        return _Same(value), *_outside_of(_unwrapped(value)).values(depth + 1)
    if depth < _DEEPEST and isinstance(value, tuple | list | dict):
        if len(value) > _LARGEST:
            raise Unknown
        parts = [*value.items()] if isinstance(value, dict) else value
        return type(value), *[_frozen(part, depth + 1) for part in parts]
    return _Same(value)


def _kept(value: Any, depth: int) -> Any:
    """The reads of a copy of the function: copies of mutable values, as deep as _frozen looks."""
    if depth == _DEEPEST:
        return value
    if _of_a_user(value):
        return _outside_of(_unwrapped(value)).keeping(_unwrapped(value), depth + 1)
    if type(value) is dict:
        return {key: _kept(part, depth + 1) for key, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)([_kept(part, depth + 1) for part in value])
    return value
