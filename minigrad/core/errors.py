"""Errors that teach: each names the op, the argument, the shapes and dtypes, and the next step."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Self, TypeVar

import numpy as np

from ..backends.device import DeviceError, OperandError, as_operand, device_of
from .spelling import INSTEAD_OF, argument_here

Fn = TypeVar("Fn", bound=Callable)


# The end of the error where a plain array would drop a derivative in silence.
NO_PLAIN_ARRAY = (
    "Say x.detach() for the values. mg.stack([...]) makes a tensor of tensors, mg.hstack([...]) "
    "what np.r_[...] would and mg.column_stack([...]) what np.c_[...] would."
)


class MinigradError(Exception):
    """Base of the errors that only this engine raises."""


class GraphReleasedError(MinigradError, RuntimeError):
    """A second backward reached a node whose saved arrays were already freed."""


class RuleError(MinigradError, RuntimeError):
    """A derivative rule is missing, or it returned something of the wrong shape or kind."""


class SeedError(MinigradError, ValueError):
    """The cotangent that starts a backward is missing or does not fit its root."""


class InPlaceError(MinigradError, RuntimeError):
    """Memory that a backward needs was changed in place, or a change cannot be recorded."""


class HookError(MinigradError, RuntimeError):
    """A hook was put where none can run, or it returned something that is not a gradient there."""


class GraphInUseError(MinigradError, RuntimeError):
    """Two threads ran backward on one graph at once, and one of them frees what it has used."""


class AnomalyError(MinigradError, RuntimeError):
    """An op made a NaN or an Inf under detect_anomaly.

    op     the op's name
    phase  "forward" or "backward"
    value  "NaN" or "Inf"
    stack  where the forward call was made: (file, line, function), innermost user frame first
    """

    def __init__(
        self, message: str, op: str = "", phase: str = "", value: str = "", stack: Sequence = ()
    ):  # a pickled one comes back by its message alone, and then gets its attributes
        super().__init__(message)
        self.op, self.phase, self.value, self.stack = op, phase, value, list(stack)


class ImplementationError(MinigradError, NotImplementedError):
    """An op has no forward for the device of its arrays."""


class DeterminismError(MinigradError, RuntimeError):
    """An op that may not repeat bit for bit ran while deterministic algorithms are asked for."""


class SessionMismatch(MinigradError, RuntimeError):
    """An op was given tensors of two sessions."""


class CheckpointError(MinigradError, RuntimeError):
    """A checkpointed function did something else when it was computed again for the backward."""


class TapeError(MinigradError, RuntimeError):
    """A tape was asked for what it has not recorded, or cannot replay."""


class TransformError(MinigradError, RuntimeError):
    """A function transform (jvp, vmap, grad) was used in a way it cannot honour."""


class ConvergenceError(MinigradError, RuntimeError):
    """A solver did not reach its tolerance, or the system that a derivative solves is singular."""

    explained = True  # it names the call itself


class StateError(MinigradError, ValueError, RuntimeError):
    """The dictionary given to load_state_dict is not that of this module or optimizer."""


class FormatError(MinigradError, ValueError):
    """A file is damaged, too large, or written by a newer version.

    The message may quote the file: it is cut, and has no characters that a terminal would obey.
    """

    MOST = 600  # characters

    def __init__(self, message: str = ""):
        text = "".join(c if c.isprintable() else "?" for c in message[: self.MOST])
        super().__init__(text + "…" * (len(message) > self.MOST))


def describe(value: Any) -> str:
    """One value as an error shows it: `float32 (3, 4)` for arrays and tensors, its repr else."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype} {shape}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _argument_names(op: Any, args: tuple) -> Sequence[str]:
    return [f"{op.arrays[0]}[{i}]" for i in range(len(args))] if op.variadic else op.arrays


def call_text(op: Any, args: tuple, params: dict) -> str:
    """The call in the user's terms: `mul(a: float32 (3,), b: float32 (4,))`."""
    names = _argument_names(op, args)
    parts = [f"{name}: {describe(x)}" for name, x in zip(names, args, strict=False)]
    parts += [f"{name}={describe(value)}" for name, value in params.items()]
    return f"{op.called}({', '.join(parts)})"


def _arrays_in(args: tuple) -> list:
    """The arrays of a call's arguments; those inside tensors too."""
    arrays = []
    for x in args:
        while hasattr(x, "node"):  # ours: the .data of PyTorch's tensors are tensors without end
            x = x.data
        if hasattr(x, "dtype") and not isinstance(x, np.generic):
            arrays.append(x)
    return arrays


def _our_name(error: Exception, fn: Callable) -> str:
    """A hint for a TypeError about an unknown keyword: fn's own name for it, or all its names."""
    _, unexpected, rest = str(error).partition("unexpected keyword argument '")
    if not unexpected:
        return ""
    name = rest.partition("'")[0]
    if name == "out":
        return "; out= would write where no gradient can follow: write y = ... instead"
    ours = argument_here(name, fn)
    if ours:
        return f"; here it is {ours}"
    names = [name for name in inspect.signature(fn).parameters if name not in ("self", "_")]
    instead = f". {INSTEAD_OF[name]}" if name in INSTEAD_OF else ""
    return f"; its arguments are {', '.join(names)}{instead}"


def _no_operand(op: Any, args: tuple) -> str:
    """A hint for a call that failed on text, None or a module; "" where there is none."""
    for name, x in zip(_argument_names(op, args), args, strict=False):
        if isinstance(x, str | bytes):
            return f"; {name} is text, and an op computes with tensors, arrays and numbers"
        if x is None and name not in op.optional:
            return (
                f"; {name} is None, as a .grad is before a backward has reached its leaf, and what "
                "a function without `return` gives"
            )
        if hasattr(x, "parameters") and callable(x):
            return f"; {name} is a module itself: call it, and pass what it returns"
    return ""


_OF_TWO = {"max": "maximum", "min": "minimum", "amax": "maximum", "amin": "minimum"}


def _no_axis(error: Exception, op: Any, params: dict) -> str:
    """A hint for axis=[1, 2], which NumPy refuses, and for a second array where an axis stands."""
    axis = params.get("axis")
    if not isinstance(error, TypeError):
        return ""
    if isinstance(axis, list):
        return f"; where an op takes several axes, they are a tuple: axis={tuple(axis)!r}"
    if getattr(axis, "shape", ()) and op.name in _OF_TWO:
        return f"; of two arrays, element by element, it is mg.{_OF_TWO[op.name]}(a, b)"
    return ""


def _unlike_lengths(error: Exception, args: tuple) -> str:
    """A hint for shapes that do not broadcast: the axis, and the rule."""
    if not str(error).startswith("operands could not be broadcast together"):
        return ""
    shapes = [np.shape(x)[::-1] for x in _arrays_in(args)]
    for k in range(max(map(len, shapes), default=0)):
        lengths = [*dict.fromkeys(shape[k] for shape in shapes if k < len(shape))]
        if len({*lengths} - {1}) > 1:
            named = " and ".join(map(str, lengths))
            return (
                f"; axes are compared from the last one on, and axis {-1 - k} is {named} long: "
                "lengths must be equal, or 1. x[:, None] adds an axis of length 1"
            )
    return ""


def _no_loop(error: Exception, args: tuple) -> str:
    """A hint where a ufunc has no loop for the dtypes, or NumPy no dtype for both of them."""
    said = str(error)
    if "could not be promoted" in said:
        return ". Cast one of them first, as in x.astype(mg.float32)"
    if "not supported for the input types" not in said and "did not contain a loop" not in said:
        return ""
    kinds = {x.dtype.kind for x in _arrays_in(args)}
    if "c" in kinds:
        return ". It takes real numbers: apply it to x.real and x.imag, or to abs(x)"
    if "V" in kinds:
        return ". It has no form for bfloat16: x.astype(mg.float32) has one"
    if any(x.dtype.itemsize > 8 for x in _arrays_in(args)):
        return ". It has no form for long doubles: x.astype(mg.float64) has one"
    return ". It takes integers here: x.astype(int) makes some" if "f" in kinds else ""


def _number_on_host(error: Exception, args: tuple) -> str:
    """A hint where CuPy was given a number in the place of an array."""
    devices = {device_of(x) for x in _arrays_in(args)} - {"cpu"}
    numbers = [x for x in args if isinstance(x, np.generic | int | float | complex)]
    if not devices or not numbers or not isinstance(error, TypeError | AttributeError):
        return ""
    return f". {numbers[0]!r:.30} is no array: give mg.tensor(…, device={min(devices)!r})"


def taught(error: TypeError, fn: Callable, args: tuple, given: dict) -> TypeError:
    """The error of the call fn(*args, **given); a better one where fn lacks one of the keywords, or
    takes more or fewer arguments.
    """
    wanted = inspect.signature(fn)
    parameters = wanted.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = {name for name, p in parameters.items() if p.kind is not p.VAR_POSITIONAL}
    unknown = [name for name in given if name not in named]
    if takes_any or getattr(error, "explained", False):
        return error
    if not unknown:  # Python's own words, which an op's method puts its class's name before
        said = "positional argument" in str(error) and unfit(fn.__name__, wanted, args, given)
        return TypeError(said) if said else error
    error = TypeError(f"{fn.__name__}() got an unexpected keyword argument {unknown[0]!r}")
    return TypeError(f"{_call_of(fn, args, given)}: {error}{_our_name(error, fn)}")


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


class Checked:
    """Base of classes whose construction with wrong arguments lists the right ones."""

    __signature__ = SignatureOfInit()

    def __new__(cls, /, *args: Any, **kwargs: Any) -> Self:
        if args or kwargs:  # a copy is made without any
            wanted = inspect.signature(cls.__init__, follow_wrapped=False)
            if said := unfit(cls.__name__, wanted, (None, *args), kwargs):
                raise TypeError(said)
        return super().__new__(cls)


def _call_of(fn: Callable, args: tuple, given: dict) -> str:
    """The call fn(*args, **given), as call_text shows that of an op."""
    names = ["x" if name == "self" else name for name in inspect.signature(fn).parameters]
    parts = [f"{name}: {describe(x)}" for name, x in zip(names, args, strict=False)]
    parts += [f"{name}={describe(value)}" for name, value in given.items()]
    return f"{fn.__name__}({', '.join(parts)})"


def teaching(fn: Fn) -> Fn:
    """Decorator: errors about an unknown keyword or an axis show the call, as those of ops do."""

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except np.exceptions.AxisError as error:
            if getattr(error, "explained", False):
                raise
            error = np.exceptions.AxisError(f"{_call_of(fn, args, kwargs)}: {error}")
            error.explained = True  # type: ignore[attr-defined]
            raise error from None
        except TypeError as error:
            raise taught(error, fn, args, kwargs) from error.__cause__

    return called  # type: ignore[return-value]


def refuse_out(method: str, out: Any) -> None:
    """An error for ndarray's out=, which a method has in its place in the signature alone."""
    if out is not None:
        raise TypeError(
            f"{method}: out= would write a tensor's values where no gradient can follow; "
            "write y = ... instead"
        )


_REBUILT = (
    np.exceptions.AxisError, np.linalg.LinAlgError, IndexError, ZeroDivisionError, OperandError,
    TypeError, ValueError,
)  # fmt: skip


def refuse_left_behind(op: Any, args: tuple) -> None:
    """An error for an argument that belongs to a vmap or jvp that has ended, or to another thread.

    Outside transforms such a tensor passes the doorway like any other, but its data is a tensor of
    a lower level, on which a forward for arrays fails or computes nonsense.
    """
    for x in args:
        if getattr(x, "level", 0):
            x.require_life(op)


def explain(error: Exception, op: Any, args: tuple, params: dict) -> Exception:
    """The same kind of error with the call before its message, so that `except` still fits.

    Of ops inside ops only the innermost, which failed, is explained. A new error gets the old one
    as its cause here: `raise explain(error) from error` would make an unchanged error its own
    cause, and that cycle would keep the arrays of all frames below it alive.
    """
    refuse_left_behind(op, args)
    if getattr(error, "explained", False):
        return error
    given = error
    said, hint = str(error), _our_name(error, op) or _no_operand(op, args)
    hint = hint or _no_axis(error, op, params) or _unlike_lengths(error, args)
    hint = hint or _no_loop(error, args) or _number_on_host(error, args)
    if hint:
        said = said.partition(". Did you mean ")[0]  # Python's guess, from 3.13 on: the hint has it
    _, unexpected, name = said.partition("() got an unexpected keyword argument ")
    if unexpected:  # Python names the function inside the op
        said = f"{op.name}{unexpected}{name}"
    message = f"{call_text(op, args, params)}: {said}{hint}"
    devices = {device_of(x) for x in _arrays_in(args)}
    if isinstance(error, TypeError) and "NotImplemented" in str(error) and devices - {"cpu"}:
        message = (
            f"{call_text(op, args, params)}: CuPy has no such function; compute it on the host, "
            "with x.to('cpu')"
        )
    if len(devices) > 1:
        message = (
            f"{call_text(op, args, params)}: the arguments lie on different devices, "
            f"{' and '.join(sorted(devices))}; move one with x.to(device)"
        )
        error = DeviceError(message)
    elif kind := next((kind for kind in _REBUILT if isinstance(error, kind)), None):
        error = kind(message)
    else:
        error.add_note(f"in {call_text(op, args, params)}{hint}")
    if error is not given:
        error.__cause__ = given
    error.explained = True  # type: ignore[attr-defined]
    return error


def operand(x: Any, op: Any, args: tuple, params: dict) -> Any:
    """An argument that is not a tensor, as a plain array of numbers."""
    try:
        return as_operand(x)
    except OperandError as error:
        raise explain(error, op, args, params) from None
