"""NumPy speaks to tensors: np.exp(t) is mg.exp(t), recorded; an unknown function says so.

`numpy_table` maps a NumPy function to what it means here; ops fill it as they are defined.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import numpy_table

# Questions about an array that NumPy asks through functions; a tensor answers them itself.
_QUESTIONS: dict[Callable, Callable] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.isrealobj: lambda x: x.dtype.kind != "c",
}

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`Tensor.__array_ufunc__`: calls of ufuncs, and reduce where a reduction of ours means it."""
    if kwargs.pop("out", None) is not None:
        raise TypeError(
            f"np.{ufunc.__name__}: out= (also `array += tensor`) would write a tensor's values "
            "where no gradient can follow; write y = ... instead"
        )
    if kwargs.pop("where", True) is not True:
        raise TypeError(f"np.{ufunc.__name__}: where= is not recorded; use mg.where(mask, a, b)")
    if method == "__call__":
        entry = numpy_table.get(ufunc)
    elif method == "reduce":
        entry = numpy_table.get(getattr(np, _REDUCTIONS.get(ufunc.__name__, ""), ufunc))
        kwargs.setdefault("axis", 0)
        kwargs.pop("initial", None)
    else:
        entry = None
    if entry is None:
        dotted = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise _unknown(dotted)
    kwargs.pop("casting", None)
    return entry(*inputs, **kwargs)


def array_function(self: Any, function: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
    """`Tensor.__array_function__`: functions such as np.sum, np.concatenate, np.linalg.inv."""
    entry = numpy_table.get(function) or _QUESTIONS.get(function)
    if entry is None:
        module = function.__module__.removeprefix("numpy").lstrip(".")
        raise _unknown(f"{module}.{function.__name__}" if module else function.__name__)
    kwargs = {
        name: value for name, value in kwargs.items() if not (name == "out" and value is None)
    }
    return entry(*args, **kwargs)


def _unknown(name: str) -> TypeError:
    return TypeError(
        f"np.{name} has no derivative rule in minigrad, so it is not applied to a tensor. Use "
        "x.detach().numpy() if no gradient is needed, or add the op with @mg.primitive(numpy="
        f"np.{name})."
    )
