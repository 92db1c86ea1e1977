"""Help in the errors of functions, classes and modules: plain forms, which courtesy/ replaces.

As in engine/help.py (seam E), courtesy/ puts better ones in their places by `install`, before any
module that imports them.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def of_call(error: Any, fn: Callable, args: tuple, given: dict, called: str = "") -> Exception:
    """The error of a call fn(*args, **given)."""
    return error


def with_call_context(fn: Any) -> Any:
    """Decorator of functions made of ops: their errors may say which call failed."""
    return fn


def method_of_op(fn: Any) -> Any:
    """with_call_context of a method which, without arguments, is the op of its name."""
    return fn


def without_call_context(fn: Any) -> Any:
    """What `with_call_context` was given, where it has made fn."""
    return fn


def with_class_context(init: Any) -> Any:
    """Decorator of an __init__: its errors may say which class was made."""
    return init


def unfit(owner: str, wanted: inspect.Signature, args: tuple, given: Mapping[str, Any]) -> str:
    """Why owner(*args, **given) does not fit the signature; "" where it fits."""
    try:
        wanted.bind(*args, **given)
    except TypeError as error:
        return f"{owner}: {error}"
    return ""


class SignatureOfInit:
    """A class's __signature__, for inspect and help: before 3.11.4 they look at __new__ first."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:  # a layer is called as its __call__ says
            raise AttributeError("__signature__")
        init = owner.__init__
        if init is object.__init__:
            return inspect.Signature()
        wanted = inspect.signature(init)
        return wanted.replace(parameters=[*wanted.parameters.values()][1:])


class WithClassContext:
    """Base of classes whose own constructors' errors may say which class was made."""


class Checked(WithClassContext):
    """Base of classes whose construction with wrong arguments may list the right ones."""


class Options:
    """The options of a function, to be held against their annotations."""

    def __init__(self, fn: Callable):
        pass

    def check(self, called: str, args: tuple, kwargs: dict[str, Any]) -> None:
        """A look at what is given for them."""


def no_operand(named: Iterable[tuple[str, Any]], optional: Iterable[str], text: bool = True) -> str:
    """A hint for a call that failed on None, a module or text; "" where there is none."""
    return ""


def several_tensors(named: Iterable[tuple[str, Any]]) -> str:
    """A hint for a call that was given a list of tensors; "" where there is none."""
    return ""


def stand_in(kind: type, names: Iterable[str] = ()) -> None:
    """Names of other libraries, as attributes of a class, that say what to write."""


def missing_names_of(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module: the error for a name that it does not have."""

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return __getattr__


MissingName: Any = ()  # the class of what `stand_in` sets
INSTEAD_OF: dict[str, str] = {}  # an option of NumPy's -> what to write, a sentence


def refuse_out(method: str) -> None:
    """The error for ndarray's out=, which a method has for its position in the signature alone."""
    raise TypeError(
        f"{method}: out= would write a tensor's values where no gradient can follow; "
        "write y = ... instead"
    )


def install(**better: Any) -> None:
    """Put these in the places of the names above."""
    globals().update(better)
