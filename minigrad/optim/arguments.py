"""The arguments of optimizers: parameters with or without names, options, and their checks."""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..errors import StateError
from ..nn.arguments import at_least_zero
from ..tensor_api.help import unfit, with_class_context
from ..tensor_api.tensor import Tensor

__all__ = [
    "at_least_zero",
    "fractions",
    "loads_whole",
    "number_of",
    "numbers",
    "require_state",
    "takes_implementations",
    "unzipped",
]

_LIBRARY = f"{__name__.partition('.')[0]}."


def unzipped(owner: str, params: Any) -> tuple[list, list[str]]:
    """Parameters and their names; no names where none are given."""
    params = [params] if isinstance(params, Tensor) else list(params)
    pairs = [p for p in params if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str)]
    if not pairs:
        return params, []
    if len(pairs) < len(params):
        raise TypeError(
            f"{owner}: {len(pairs)} of {len(params)} parameters are (name, parameter) pairs; "
            "give a name to all of them or to none"
        )
    return [p for _, p in pairs], [name for name, _ in pairs]


def takes_implementations(init: Callable) -> Callable:
    """An __init__ that passes over PyTorch's choices of an implementation, unless it has them."""
    wanted = inspect.signature(init, follow_wrapped=False)
    own = wanted.parameters
    if init.__module__.startswith(_LIBRARY):
        init = with_class_context(init)
    without_effect = {"foreach", "fused", "capturable", "differentiable"} - own.keys()

    @wraps(init)
    def run(*args: Any, **kwargs: Any) -> None:
        if "differentiable" in without_effect and kwargs.get("differentiable"):
            raise TypeError(
                f"{type(args[0]).__name__}(differentiable=True): a step writes in place; for "
                "gradients through steps write them as p = p - lr * g, with "
                "mg.grad(loss, ps, create_graph=True) and mg.func.functional_call(model, ps, x)"
            )
        kwargs = {k: v for k, v in kwargs.items() if k not in without_effect}
        if said := unfit(type(args[0]).__name__, wanted, args, kwargs):
            raise TypeError(said)
        init(*args, **kwargs)

    return run


def number_of(option: Any) -> Any:
    """A tensor or array of one number, also PyTorch's, as that number; in a tuple each of them."""
    if isinstance(option, tuple):
        return tuple([number_of(part) for part in option])
    is_one = hasattr(option, "item") and math.prod(getattr(option, "shape", (0,))) == 1
    return option.item() if is_one else option


def numbers(owner: str, what: str, given: Any, count: int) -> tuple:
    """An option of several numbers as a tuple; TypeError, by `what`, unless it has `count`."""
    several = isinstance(given, tuple | list) and len(given) == count
    if not several or any(isinstance(part, str) for part in given):
        raise TypeError(f"{owner}: {what}; got {given!r}")
    return tuple(given)


def require_state(owner: str, given: Any, *keys: str) -> None:
    """StateError unless this is a saved state with these keys; `owner` has loaded it."""
    if not isinstance(given, Mapping) or any(key not in given for key in keys):
        found = f"keys {[*given][:4]}" if isinstance(given, Mapping) else describe(given)
        raise StateError(
            f"{owner}.load_state_dict: needs what its state_dict() gave, a dictionary with "
            f"{' and '.join(map(repr, keys))}; got {found}",
            missing=tuple([k for k in keys if not isinstance(given, Mapping) or k not in given]),
        )


def loads_whole(load: Callable) -> Callable:
    """load_state_dict of an optimizer or a schedule, which takes a state whole or not at all.

    If it fails, everything set until then is restored: attributes of its owner, of the schedules in
    it and of their functions, and the groups of the optimizer. An error that a damaged state causes
    below is a StateError of the owner.
    """

    @wraps(load)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = [(entries, dict(entries)) for entries in _entries_of(self)]
        try:
            with np.errstate(divide="raise", invalid="raise"):  # a rate that is no number
                return load(self, *args, **kwargs)
        except BaseException as error:
            for entries, before in kept:
                entries.clear()
                entries.update(before)
            damaged = isinstance(error, Exception) and not isinstance(error, MemoryError)
            name = f"{type(self).__name__}.load_state_dict"
            if damaged and "load_state_dict" not in str(error):
                raise StateError(
                    f"{name}: the state is damaged, or another object's: "
                    f"{type(error).__name__}: {str(error)[:200]}"
                ) from error
            raise

    return run


def _entries_of(owner: Any) -> list[dict]:
    """The dictionaries that a load writes into: attributes, groups."""
    found, groups = [vars(owner)], getattr(owner, "param_groups", None)
    if groups is None:
        groups = getattr(getattr(owner, "optimizer", None), "param_groups", ())
    found += groups
    for name in getattr(owner, "functions", ()):
        value = vars(owner).get(name)
        found += [
            vars(fn)
            for fn in (value if isinstance(value, list) else [value])
            if hasattr(fn, "__dict__")
        ]
    for part in getattr(owner, "schedulers", ()):
        found += _entries_of(part)
    return found


def fractions(owner: str, betas: tuple) -> tuple:
    """The decay rates as a tuple; ValueError unless each is in [0, 1)."""
    betas = numbers(owner, "betas are two decay rates, such as (0.9, 0.999)", betas, 2)
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"{owner}: each of betas must be in [0, 1), got {betas}")
    return betas
