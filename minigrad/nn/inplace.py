"""PyTorch's `inplace=` of activations and dropout: accepted, and without effect.

There it asks for x's memory to be used again. Here a result never overwrites a value that a
backward may still need. x stays as it is, and the result has the same numbers.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..engine.registry import op


def takes_inplace(fn: Callable) -> Callable:
    """fn with a last argument `inplace=False`, which changes nothing."""
    parameters = list(inspect.signature(fn).parameters.values())
    count = len(parameters)

    @wraps(fn)
    def run(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        args = args[:count] if len(args) == count + 1 else args  # more are fn's error
        return fn(*args, **kwargs)

    last = inspect.Parameter(
        "inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation=bool
    )
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*parameters, last], return_annotation=Any
    )
    run.__doc__ = f"{(fn.__doc__ or '').rstrip()}\n\n    inplace has no effect.\n    "
    return _public(run, fn.__name__)


def dropout_with_inplace(name: str, trains: bool = True) -> Callable:
    """The op of this name with PyTorch's order of arguments; `generator` is taken by name.

    trains: the default of `training`, which is False for alpha_dropout and its kin.
    """

    def run(
        x: Any, p: float = 0.5, training: bool = trains, inplace: bool = False, *,
        generator: np.random.Generator | None = None,
    ) -> Any:  # fmt: skip
        return getattr(op, name)(x, p, training, generator)

    run.__doc__ = f"mg.{name}; inplace has no effect."
    return _public(run, name)


def _public(run: Callable, name: str) -> Callable:
    """The function as nn.functional has it, which gives it PyTorch's names of arguments."""
    run.__name__ = run.__qualname__ = name
    run.__module__ = __name__.rpartition(".")[0] + ".functional"
    return run
