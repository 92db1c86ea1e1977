"""Functions made of ops, which NumPy's functions may mean on tensors as they may an op."""

import functools
from collections.abc import Callable
from typing import Any

from ..backends import device
from ..backends.dtypes import plain_floats
from ..engine import modes
from ..engine.graph import gpu_array
from ..engine.registry import numpy_table
from ..engine.registry import op as registry
from .help import with_call_context


def on_its_gpu(fn: Callable) -> Callable:
    """Decorator: where several GPUs are in use, all of fn runs on that of its first array.

    For functions that call NumPy on plain arrays; an op finds its GPU by itself.
    """

    @functools.wraps(fn)
    def placed(*args: Any, **kwargs: Any) -> Any:
        if not device.several:
            return fn(*args, **kwargs)
        with device.at(gpu_array((*args, *kwargs.values()))):
            return fn(*args, **kwargs)

    return placed


def _followed(fn: Callable) -> Callable:
    """fn; inside a compiled function its run makes the call (replay/stretches.py)."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if modes.active and (run := modes.state.pending) is not None:
            return run.inside(fn, fn, *args, **kwargs)
        return fn(*args, **kwargs)

    return call


def composite(
    fn: Callable | None = None, *, numpy: Callable | tuple = (), name: str = "", doc: str = ""
) -> Any:
    """Register a function made of other ops, which needs no rule: std, var, glu ...

    name and doc are those of a function that a call makes, one of several with the same body.
    """
    if fn is None:
        return lambda function: composite(function, numpy=numpy, name=name, doc=doc)
    if name:
        fn.__name__, fn.__qualname__, fn.__doc__ = name, name, doc
    fn = _followed(plain_floats(fn))
    registry.register(fn.__name__, fn)
    for function in numpy if isinstance(numpy, tuple) else (numpy,):
        numpy_table[function] = fn
    return with_call_context(fn)  # calls inside the library go by the registry, to fn itself
