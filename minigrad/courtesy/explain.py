"""Errors that teach: each names the op, the argument, the shapes and dtypes, and the next step."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import MethodType
from typing import Any, Self, TypeVar

import numpy as np

from ..backends.device import DeviceError, ErrorAbout, OperandError, device_of
from ..engine import registry
from ..engine.errors import MinigradError, call_text, describe, named_arguments, refuse_left_behind
from ..tensor_api.help import SignatureOfInit
from .foreign_names import argument_here
from .hints import arrays_in, hint_of_op, no_operand, our_name
from .options import Options

Fn = TypeVar("Fn", bound=Callable)


def signature_error(
    error: TypeError, fn: Callable, args: tuple, given: dict, called: str = ""
) -> TypeError:
    """The error of the call fn(*args, **given); a better one where fn lacks one of the keywords, or
    takes more or fewer arguments. called: the users' name for fn, if it differs.
    """
    called = called or fn.__name__
    wanted = inspect.signature(fn)
    parameters = wanted.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL}
    unknown = [name for name in given if name not in named]
    if takes_any or getattr(error, "explained", False):
        return error
    if not unknown:  # Python's own words, which an op's method puts its class's name before
        said = "positional argument" in str(error) and unfit(called, wanted, args, given)
        return TypeError(said) if said else error
    error = TypeError(f"{called}() got an unexpected keyword argument {unknown[0]!r}")
    return TypeError(f"{_call_of(fn, args, given, called)}: {error}{our_name(error, fn)}")


def unfit(owner: str, wanted: inspect.Signature, args: tuple, given: Mapping[str, Any]) -> str:
    """Why owner(*args, **given) does not fit the signature, and a hint; "" where it fits."""
    try:
        wanted.bind(*args, **given)
        return ""
    except TypeError as error:
        reason = str(error)
    names = [name for name in wanted.parameters if name != "self"]
    hint = f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
    by_name = [name for name, p in wanted.parameters.items() if p.kind is p.KEYWORD_ONLY]
    if by_name and reason.startswith("too many positional"):
        hint = f"{hint} ({', '.join(by_name)} by name)"
    takes_any = any(p.kind is p.VAR_KEYWORD for p in wanted.parameters.values())
    unknown = [] if takes_any else [name for name in given if name not in names]
    if unknown:  # the reason, where an argument is missing too
        reason = f"got an unexpected keyword argument {unknown[0]!r}"
        here = argument_here(unknown[0], wanted)
        hint = f"here it is {here}" if here else hint
    return f"{owner}: {reason}; {hint}"


class WithClassContext:
    """Base of classes whose own constructors' errors say which class was made."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls) and cls.__module__.startswith(_LIBRARY):
            cls.__init__ = with_class_context(cls.__init__)  # type: ignore[method-assign]


class Checked(WithClassContext):
    """Base of classes whose construction with wrong arguments lists the right ones."""

    __signature__ = SignatureOfInit()

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Self:
        if args or kwargs:  # a copy is made without any
            wanted = inspect.signature(cls.__init__, follow_wrapped=False)
            if said := unfit(cls.__name__, wanted, (None, *args), kwargs):
                raise TypeError(said)
        return super().__new__(cls)


def _call_of(fn: Callable, args: tuple, given: dict, called: str) -> str:
    """The call fn(*args, **given), as call_text shows that of an op."""
    names = ["x" if name == "self" else name for name in inspect.signature(fn).parameters]
    parts = [f"{name}: {describe(x)}" for name, x in zip(names, args, strict=False)]
    parts += [f"{name}={describe(value)}" for name, value in given.items()]
    return f"{called}({', '.join(parts)})"


_REBUILT = (
    np.exceptions.AxisError, np.linalg.LinAlgError, IndexError, ZeroDivisionError, OverflowError,
    OperandError, AttributeError, TypeError, ValueError,
)  # fmt: skip


def _rebuilt(error: Exception, call: str, said: str, hint: str) -> Exception:
    """The same kind of error with the call before its message: `except` still fits.

    A class of a user's may need more than a message: such an error gets a note instead.
    """
    given = type(error)
    known = given in _REBUILT or given.__module__.startswith("numpy")
    kind = next((kind for kind in _REBUILT if known and issubclass(given, kind)), None)
    if kind is None:
        error.add_note(f"in {call}{hint}")
        error.explained = True  # type: ignore[attr-defined]
        return error
    new = kind(f"{call}: {said}{hint}")
    if isinstance(error, ErrorAbout):
        vars(new).update(vars(error))
    new.explained = True  # type: ignore[attr-defined]
    return new


def _in_place_of(caught: Any, error: Any) -> Exception:
    """The error to raise where `caught` was caught: a traceback shows it once, with all frames.

    The original stays as `__context__`. Python sets that, and does not show it after `__cause__`
    was set.
    """
    if error is not caught:
        error.__cause__ = caught.__cause__
    # `raise` puts this frame on top again
    return error.with_traceback(caught.__traceback__ and caught.__traceback__.tb_next)


def with_call_context(fn: Fn, is_op: bool = False) -> Fn:
    """Decorator: an error that does not say which call it is of shows it, as those of ops do.

    is_op: fn without arguments is the op of its name. It is called then, for its errors show it.
    """
    options, name = Options(fn), fn.__name__

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_op and len(args) == 1 and not kwargs:
            return getattr(registry.op, name).apply(*args)
        try:
            y = fn(*args, **kwargs)
        except Exception as error:
            raise of_call(error, fn, args, kwargs)  # noqa: B904 (it knows its cause)
        if kwargs or len(args) > options.first:
            options.check(name, args, kwargs)
        return y

    called.without_call_context = fn  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def method_of_op(fn: Fn) -> Fn:
    """Decorator of a method which, without arguments, is the op of its name: with_call_context."""
    return with_call_context(fn, is_op=True)


def with_class_context(init: Fn) -> Fn:
    """An __init__ whose errors say which class was made, and whose options are held against their
    annotations."""
    options = Options(init)

    @wraps(init)
    def made(self: Any, /, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        try:
            init(self, *args, **kwargs)
        except Exception as error:
            raise of_call(error, MethodType(init, self), args, kwargs, name)  # noqa: B904
        if kwargs or len(args) >= options.first:
            options.check(name, (self, *args), kwargs)

    made.__signature__ = inspect.signature(init, follow_wrapped=False)  # type: ignore[attr-defined]
    return made  # type: ignore[return-value]


def without_call_context(fn: Any) -> Any:
    """What `with_call_context` was given, where it has made fn."""
    inner = getattr(fn, "__wrapped__", None)  # other decorators copy attributes
    return inner if inner is not None and inner is getattr(fn, "without_call_context", None) else fn


# How our own messages begin, "median: ..." or "median(x: float64 (3,)): ...", and Python's "float()
# argument must be" does not.
_SAYS_WHOSE = re.compile(r"[\w.]+(: |\((?!\)))")


def of_call(error: Any, fn: Callable, args: tuple, given: dict, called: str = "") -> Exception:
    """What to raise where fn(*args, **given) failed: the error, with this call as its context.

    called: the users' name for fn, if it differs
    """
    return _in_place_of(error, _of_call(error, fn, args, given, called or fn.__name__))


def _of_call(error: Any, fn: Callable, args: tuple, given: dict, called: str) -> Exception:
    better = (
        signature_error(error, fn, args, given, called) if isinstance(error, TypeError) else error
    )
    if better is not error:
        return better
    said, ours = str(error), isinstance(error, MinigradError)
    if inside := getattr(error, "inside", ()):  # an op that fn is made of: fn is what was called
        return _as_of_call(error, inside, fn, args, given, called)
    if ours or getattr(error, "explained", False) or not isinstance(error, _REBUILT):
        return error
    whose = _SAYS_WHOSE.match(said)
    other = whose and _of_another(whose[0], called)
    if (whose and not other) or said.startswith(f"{called} "):
        if not isinstance(error, np.exceptions.AxisError):  # NumPy's "source: axis 9 is ..."
            return error
    said = said.removeprefix(other or "")
    needed = [name for name, p in inspect.signature(fn).parameters.items() if p.default is p.empty]
    hint = no_operand(zip(needed, args, strict=False), optional=(), text=False)
    call = _call_of(fn, args, given, called)
    in_context = _rebuilt(error, call, said, hint)
    if in_context is not error:
        in_context.inside = (error, said, hint, called, call)  # type: ignore[attr-defined]
    return in_context


def _of_another(start: str, called: str) -> str:
    """The start "median: " of a message, where users know a function of that name and it is not
    the one that they called."""
    name, colon, _ = start.rpartition(": ")
    name, own = name.rpartition(".")[2] if colon else "", called.rpartition(".")[2]
    known = _is_known_to_users(name) or name in registry.op
    return start if name and _plain(name) != _plain(own) and known else ""


def _plain(name: str) -> str:
    """A name in its plain form: the layer CELU is celu."""
    return name.replace("_", "").lower()


def _as_of_call(
    error: Any, inside: tuple, fn: Callable, args: tuple, given: dict, called: str
) -> Exception:
    """The error of an op inside fn, with fn's call as its context.

    It stays as it is where fn and the op have one name, and where fn was given a function, which
    may be what failed.
    """
    cause, said, hint, name, call = inside
    if _plain(name) == _plain(called) or any(map(_is_function, (*args, *given.values()))):
        return error
    if _is_known_to_users(name):
        hint = f"{hint} (in {call})"
    in_context = _rebuilt(cause, _call_of(fn, args, given, called), said, hint)
    in_context.inside = (cause, said, hint, called, call)  # type: ignore[attr-defined]
    return in_context


def _is_function(x: Any) -> bool:
    return callable(x) and not isinstance(x, type)


def explain(error: Exception, op: Any, args: tuple, params: dict) -> Exception:
    """The same kind of error with the call before its message, for the call to raise.

    Of ops inside ops only the innermost, which failed, is explained.
    """
    refuse_left_behind(op, args)
    if getattr(error, "explained", False):
        return _in_place_of(error, error)
    return _in_place_of(error, _explained(error, op, args, params))


def _explained(error: Exception, op: Any, args: tuple, params: dict) -> Exception:
    call, said = call_text(op, args, params), str(error)
    if isinstance(error, ValueError) and "inhomogeneous" in said:  # NumPy's, of lists
        said = "the nested lists have different lengths; an array is rectangular, so pad the "
        said += "short ones"
    hint = hint_of_op(error, op, named_arguments(op, args), args, params)
    if hint:
        said = said.partition(". Did you mean ")[0]  # Python's guess, from 3.13 on: the hint has it
        said = said.removesuffix(".")
    _, unexpected, name = said.partition("() got an unexpected keyword argument ")
    if unexpected:  # Python names the function inside the op
        said = f"{op.name}{unexpected}{name}"
    devices = {device_of(x) for x in arrays_in(args)}
    if len(devices) > 1:
        listed = " and ".join(sorted(devices))
        new = DeviceError(
            f"{call}: the arguments lie on different devices, {listed}; move one with x.to(device)",
            devices=tuple(sorted(devices)),
        )
        new.explained = True  # type: ignore[attr-defined]
        return new
    if isinstance(error, TypeError) and "NotImplemented" in said and devices - {"cpu"}:
        said, hint = "CuPy has no such function; compute it on the host, with x.to('cpu')", ""
    in_context = _rebuilt(error, call, said, hint)
    if in_context is not error:
        in_context.inside = (error, said, hint, op.called, call)  # type: ignore[attr-defined]
    return in_context


_LIBRARY = f"{__name__.partition('.')[0]}."
_ROOMS = ("", ".nn", ".nn.functional", ".linalg", ".fft", ".special")


def _is_known_to_users(name: str) -> bool:
    """Whether users find an op by this name, and not only the functions that are made of it."""
    package = __name__.partition(".")[0]
    rooms = [sys.modules.get(package + room) for room in _ROOMS]
    return any(name in vars(room) for room in rooms if room)
