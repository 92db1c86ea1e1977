"""The random generators that a function can reach, to reset them.

The search covers arguments, closures, defaults, bound objects and their contents. It also covers
the globals and attributes of modules that the code names, in functions that it calls too. Not
looked into are the packages whose functions draw from what they are given: NumPy, SciPy, PyTorch,
Python's own. It does not find a generator inside an extension written in C, or behind a name made
only as the code runs.
"""

import random as python
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..backends.philox import DeviceGenerator
from ..backends.rng_replay import ThreadGenerator
from ..tensor_api.tensor import Tensor

_MOST = 20_000  # objects looked at; a function that reaches more is not looked through further
_LONG = 1000  # items of a container; longer ones hold data
_PLAIN = (
    Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None), CodeType,
    ThreadGenerator,
)  # fmt: skip
_CLOSED = {
    "minigrad", "numpy", "scipy", "cupy", "torch", "jax", "matplotlib", "pandas", "numba", "pytest",
    "hypothesis",
} | sys.stdlib_module_names  # fmt: skip
_OPEN = {"this", "antigravity"}  # more likely a program's own
_HOLDING = {"minigrad", "builtins", "types", "functools", "collections", "argparse"}  # objects


class Generators:
    """Generators, each as a pair of functions that get and set its state."""

    def __init__(self, pairs: Iterable[tuple[Callable, Callable]]):
        self.pairs = list(pairs)

    def states(self) -> list:
        """Their states now."""
        return [get() for get, _ in self.pairs]

    def set(self, states: list) -> None:
        """Put them back into these states."""
        for (_, set_state), state in zip(self.pairs, states, strict=True):
            set_state(state)


def generators_of(*roots: Any) -> Generators:
    """Those that can be reached from these objects, and those that all code can reach."""
    torch = sys.modules.get("torch")
    own: list = [(np.random.get_state, np.random.set_state), (python.getstate, python.setstate)]
    if torch is not None:
        own.append((torch.get_rng_state, torch.set_rng_state))
    return Generators([*own, *_found(roots)])


def _found(roots: tuple) -> Iterator[tuple[Callable, Callable]]:
    waiting, seen = deque(roots), {}
    while waiting and len(seen) < _MOST:
        x = waiting.popleft()
        if isinstance(x, _PLAIN) or id(x) in seen:
            continue
        seen[id(x)] = x  # kept: no other object may get this number
        pair = _access(x)
        if pair is None:
            waiting.extend(_parts(x))
        elif pair[0] is not None:
            yield pair


def _access(x: Any) -> tuple | None:
    """(get, set) of a generator's state; (None, None) of one that is set back anyway."""
    if isinstance(x, np.random.Generator):
        x = x.bit_generator
    if isinstance(x, np.random.BitGenerator):
        return partial(getattr, x, "state"), partial(setattr, x, "state")
    if isinstance(x, DeviceGenerator):
        return x.state, x.set_state
    if x is np.random.rand.__self__ or x is python._inst:  # type: ignore[attr-defined]
        return None, None
    if isinstance(x, python.Random):
        return None if isinstance(x, python.SystemRandom) else (x.getstate, x.setstate)
    if type(x).__name__ in ("RandomState", "Generator") and hasattr(x, "set_state"):
        return x.get_state, x.set_state  # NumPy's and PyTorch's
    return None


def _parts(x: Any) -> Iterable[Any]:
    """What can be reached from an object directly."""
    if isinstance(x, dict):
        return x.values() if len(x) <= _LONG else ()
    if isinstance(x, list | tuple | set | frozenset | deque):
        return x if len(x) <= _LONG else ()
    if isinstance(x, FunctionType):
        return _parts_of_function(x)
    if isinstance(x, MethodType):
        return x.__self__, x.__func__
    if isinstance(x, BuiltinFunctionType):
        return (x.__self__,)
    if isinstance(x, partial):
        return x.func, x.args, x.keywords
    if isinstance(x, staticmethod | classmethod):
        return (x.__func__,)
    if isinstance(x, property):
        return x.fget, x.fset
    if isinstance(x, ModuleType):
        return ()  # its attributes are looked at by name, where code names them
    if isinstance(x, type):
        return () if _is_closed(x) else vars(x).values()
    return _parts_of_object(x)


def _parts_of_object(x: Any) -> Iterator[Any]:
    if _is_closed(type(x)) and type(x).__module__.partition(".")[0] not in _HOLDING:
        return
    try:
        yield from vars(x).values()
    except (TypeError, ReferenceError):  # it has none; its object has gone
        pass
    for kind in type(x).__mro__:
        for name in _slots(kind):
            yield getattr(x, name, None)
        if not _is_closed(kind):
            yield kind
    if isinstance(x, GeneratorType) and x.gi_frame is not None:
        yield from x.gi_frame.f_locals.values()


@lru_cache(1024)
def _slots(kind: type) -> tuple:
    found = vars(kind).get("__slots__", ())
    found = (found,) if isinstance(found, str) else tuple(found)
    return () if _is_closed(kind) and not found else found


def _parts_of_function(fn: FunctionType) -> Iterator[Any]:
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            continue
    yield from fn.__defaults__ or ()
    yield from (fn.__kwdefaults__ or {}).values()
    if _is_closed(fn):
        return
    names = _names(fn.__code__)
    for name in names:
        x = fn.__globals__.get(name)
        yield x
        if isinstance(x, ModuleType):
            yield from _named_in(x, names)


def _named_in(module: ModuleType, names: Iterable[str], depth: int = 3) -> Iterator[Any]:
    """The attributes of a module that code names, as in `settings.rng.normal()`."""
    if module.__name__.partition(".")[0] in _CLOSED - _OPEN:
        return
    for name in names:
        x = vars(module).get(name)
        yield x
        if isinstance(x, ModuleType) and depth:
            yield from _named_in(x, names, depth - 1)


@lru_cache(1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """The names of globals and attributes in a function's code, and in functions within it."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= dict.fromkeys(_names(constant))
    return tuple(names)


def _is_closed(x: Any) -> bool:
    """Whether a class or function is of a package that is not looked into."""
    package = (getattr(x, "__module__", None) or "").partition(".")[0]
    return package in _CLOSED and package not in _OPEN
