"""Names of PyTorch that are spelled differently here: the error for one says what to write."""

import inspect
import opcode
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..engine.registry import numpy_table
from .foreign_tables import ARGUMENTS, FUNCTIONS, IN_PLACE, NAMES, OF_ARRAYS, OF_MODULES


def argument_here(name: str, fn: Callable | inspect.Signature) -> str:
    """fn's own name, as `axis=`, for an argument of this name in PyTorch (or NumPy); "" if none."""
    if hint := FUNCTIONS.get((getattr(fn, "__name__", ""), name)):
        return hint
    own = (fn if isinstance(fn, inspect.Signature) else inspect.signature(fn)).parameters
    here = next((here for here in (name, *ARGUMENTS.get(name, ())) if here in own), "")
    starred = here and own[here].kind is inspect.Parameter.VAR_POSITIONAL
    if not here:
        return ""
    return f"{here}, by position" if starred else f"{here}="


def no_such_name(owner: str, name: str, room: Any = None) -> AttributeError:
    """The AttributeError for a missing name; it says what to write, where that is known.

    Where it is not, Python suggests a similarly spelt name of `room` in the traceback.
    """
    tables = (NAMES, OF_MODULES) if owner == "a tensor" else (OF_MODULES, NAMES)
    hint = next((t[name] for t in tables if name in t), None) or _name_here(name)
    if hint is None and owner == "a tensor" and name in OF_ARRAYS:
        hint = f"x.detach().numpy().{name}, of its array"
    of_tensors = owner in ("a tensor", "minigrad")
    if hint is None and of_tensors and name.endswith("_") and not name.startswith("_"):
        hint = f"the new value of {name[:-1]}, or an operator such as x += v"
    elif hint is None and name.endswith("_") and callable(vars(room or object).get(name[:-1])):
        hint = f"x = {name[:-1]}(x)"
    elif hint is None and room is not None:
        hint = _of_same_letters(name, room)
    tail = f"; here it is {hint}" if hint else ""
    error = AttributeError(f"{owner} has no attribute {name!r}{tail}", name=name)
    if not hint:
        error.obj = room
    return error


def _of_same_letters(name: str, room: Any) -> str | None:
    """The name in this module that differs in capitals and underscores alone: Relu is ReLU."""
    letters = _letters(name)
    names = getattr(room, "__all__", None) or [n for n in vars(room) if n[0] != "_"]
    return next((here for here in names if _letters(here) == letters), None)


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def missing_names_of(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module: the error for a name that it does not have."""

    def __getattr__(name: str) -> Any:
        if name[:2] == "__":  # Python itself asks for these
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        error = no_such_name(module, name, sys.modules[module])
        if error.obj is None and _is_import(sys._getframe(1)):
            # `from module import name` would replace our message by its own
            raise ImportError(str(error), name=module) from None
        raise error

    return __getattr__


def _is_import(frame: Any) -> bool:
    """Whether the frame is executing a `from ... import`."""
    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap.get("IMPORT_FROM")


class MissingName:
    """A descriptor at a name that PyTorch's tensors have and ours do not: reading it says what to
    write.

    A `__getattr__` would need no list of names. But up to Python 3.11 a class that has one loses
    the interpreter's fast attribute access, and an op reads six attributes.
    """

    def __init__(self, name: str):
        self.name = name

    @staticmethod
    def stand_in(kind: type, names: Iterable[str] = (*NAMES, *IN_PLACE, *OF_ARRAYS)) -> None:
        """Put one at each of these names that the class does not have."""
        for name in names:
            if not hasattr(kind, name):
                setattr(kind, name, MissingName(name))

    def __get__(self, x: Any, kind: Any = None) -> Any:
        raise no_such_name("a tensor", self.name)


_NAMESPACES = (
    "linalg", "special", "func", "nn.functional", "nn", "optim", "fft", "data", "amp", "nn.utils",
    "nn.utils.parametrize", "nn.utils.rnn", "nn.init", "optim.lr_scheduler", "optim.swa_utils",
    "distributed",
)  # fmt: skip


def _name_here(name: str) -> str | None:
    """Where else in the library this name exists, as text; None if nowhere."""
    import minigrad  # the finished library: this runs only for an error

    if name in vars(minigrad):
        return f"mg.{name}"
    for namespace in _NAMESPACES:
        room = minigrad
        for part in namespace.split("."):
            room = getattr(room, part)
        if name in getattr(room, "__all__", ()):
            return f"mg.{namespace}.{name}"
    function = getattr(np, name, None)
    known = callable(function) and function in numpy_table
    return f"np.{name}, which takes tensors" if known else None
