"""Hints in errors, after NumPy's or Python's words: the mistake behind it, and the next step."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.device import device_of
from .foreign_names import argument_here
from .foreign_tables import INSTEAD_OF


def hint_of_op(error: Exception, op: Any, named: list, args: tuple, params: dict) -> str:
    """The hint for a call of an op; "" where there is none. named: its arrays, with their names."""
    return (
        our_name(error, op)
        or no_operand(named, op.optional)
        or several_tensors(named)
        or _no_axis(error, op, params)
        or _unlike_lengths(error, args)
        or _no_index(error)
        or _no_loop(error, op, args)
        or _number_on_host(error, args)
    )


def arrays_in(args: tuple) -> list:
    """The arrays of a call's arguments; those inside tensors too."""
    arrays = []
    for x in args:
        while hasattr(x, "node"):  # ours: the .data of PyTorch's tensors are tensors without end
            x = x.data
        if hasattr(x, "dtype") and not isinstance(x, np.generic):
            arrays.append(x)
    return arrays


def our_name(error: Exception, fn: Callable) -> str:
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


def no_operand(named: Iterable[tuple[str, Any]], optional: Iterable[str], text: bool = True) -> str:
    """A hint for a call that failed on None, a module or (text) text; "" where there is none."""
    for name, x in named:
        if text and isinstance(x, str | bytes):
            return f"; {name} is text, and an op computes with tensors, arrays and numbers"
        if x is None and name not in optional:
            return (
                f"; {name} is None, as a .grad is before a backward has reached its leaf, and what "
                "a function without `return` gives"
            )
        if hasattr(x, "parameters") and callable(x):
            return f"; {name} is a module itself: call it, and pass what it returns"
    return ""


def several_tensors(named: Iterable[tuple[str, Any]]) -> str:
    """A hint for (output, state), which recurrent layers and attention return, passed on whole."""
    for name, x in named:
        if isinstance(x, list | tuple) and any(hasattr(part, "node") for part in x):
            kind = type(x).__name__
            return f"; {name} is a {kind} that holds tensors: pass one of them, as in {name}[0]"
    return ""


_OF_TWO = {"max": "maximum", "min": "minimum", "amax": "maximum", "amin": "minimum"}


def _no_axis(error: Exception, op: Any, params: dict) -> str:
    """A hint for axis=[1, 2], which NumPy refuses, and for a second array where an axis stands."""
    axis = params.get("axis")
    if not isinstance(error, TypeError):
        return ""
    if isinstance(axis, list):
        return f"; where an op takes several axes, they are a tuple: axis={tuple(axis)!r}"
    is_no_axis = (
        getattr(axis, "shape", ()) or getattr(axis, "dtype", np.dtype(int)).kind not in "iu"
    )
    if is_no_axis and op.name in _OF_TWO:
        return f"; of two arrays, element by element, it is mg.{_OF_TWO[op.name]}(a, b)"
    return ""


def _unlike_lengths(error: Exception, args: tuple) -> str:
    """A hint for shapes that do not broadcast: the axis, and the rule."""
    if not str(error).startswith("operands could not be broadcast together"):
        return ""
    shapes = [np.shape(x)[::-1] for x in arrays_in(args)]
    for k in range(max(map(len, shapes), default=0)):
        lengths = [*dict.fromkeys(shape[k] for shape in shapes if k < len(shape))]
        if len({*lengths} - {1}) > 1:
            named = " and ".join(map(str, lengths))
            return (
                f"; axes are compared from the last one on, and axis {-1 - k} is {named} long: "
                "lengths must be equal, or 1. x[:, None] adds an axis of length 1"
            )
    return ""


def _no_index(error: Exception) -> str:
    """A hint for an array of floats as an index: a mask of ones and zeros, or row numbers."""
    if not str(error).startswith("arrays used as indices must be of integer"):
        return ""
    return "; of floats a mask is made by `mask != 0`, and row numbers by index.astype(mg.int64)"


_SIGNS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


def _no_loop(error: Exception, op: Any, args: tuple) -> str:
    """A hint where a ufunc has no loop for the dtypes, or NumPy no dtype for both of them."""
    said = str(error)
    if "could not be promoted" in said:
        return ". Cast one of them first, as in x.astype(mg.float32)"
    if "not supported for the input types" not in said and "did not contain a loop" not in said:
        return ""
    kinds = {x.dtype.kind for x in arrays_in(args)}
    if "c" in kinds:
        return ". It takes real numbers: apply it to x.real and x.imag, or to abs(x)"
    if "V" in kinds:
        return ". It has no form for bfloat16: x.astype(mg.float32) has one"
    if any(x.dtype.itemsize > 8 for x in arrays_in(args)):
        return ". It has no form for long doubles: x.astype(mg.float64) has one"
    if "f" not in kinds:
        return ""
    if op.name in _SIGNS:
        sign = _SIGNS[op.name]
        return f". `{sign}` joins masks and integers, and binds first: write (x > 0) {sign} (x < 3)"
    return ". It takes integers here: x.astype(int) makes some"


def _number_on_host(error: Exception, args: tuple) -> str:
    """A hint where CuPy was given a number in the place of an array."""
    devices = {device_of(x) for x in arrays_in(args)} - {"cpu"}
    numbers = [x for x in args if isinstance(x, np.generic | int | float | complex)]
    if not devices or not numbers or not isinstance(error, TypeError | AttributeError):
        return ""
    return f". {numbers[0]!r:.30} is no array: give mg.tensor(…, device={min(devices)!r})"
