"""User-defined rules at large values: if the value is finite, the gradient must be right too.

A rule that goes through exp overflows where its function does not: for log(1 + eˣ), eˣ / (1 + eˣ)
is ∞/∞ at x = 1,000. Compositions of the engine's ops are exempt: the checks of ops cover their
rules.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..custom.function_call import FunctionCall
from ..engine.graph import Node
from .compare import check_direction, random_pair
from .errors import Entry, GradcheckError, Inconclusive
from .function import Arrays, Function

LARGE = 1000.0  # the largest entry of an argument; eˣ overflows from 710 on
_TAIL = 1e-6  # of a slope of 1


def check_large_values(function: Function, rng: np.random.Generator, what: str) -> None:
    """The gradient of a user-defined rule with entries up to ±1,000; points without a value are
    skipped.

    All arguments are scaled together, then each alone.
    """
    if not _all_of_ones_own(function):
        return
    for told, xs in _points(function):
        try:
            with np.errstate(all="ignore"):
                us, vs = random_pair(function, xs, rng)
                check_direction(function, xs, us, vs, what)
        except Inconclusive:
            continue
        except GradcheckError as error:
            if _is_a_tail(error.entry):
                continue
            raise GradcheckError(f"{error.what}, {told}", error.entry) from error
        except Exception:
            continue  # fn has no value there


def _is_a_tail(entry: Entry | None) -> bool:
    """Whether an entry is off by an amount that a rule may round to 0, as (1 + tanh x)/2 far
    out."""
    if entry is None:
        return False
    return abs(entry.analytic - entry.numeric) < _TAIL * max(1.0, abs(entry.numeric))


def _points(function: Function) -> Iterator[tuple[str, Arrays]]:
    xs = function.xs
    every = range(len(xs))
    choices = [tuple(every), *[(i,) for i in every if len(xs) > 1]]
    for chosen in choices:
        for scale in (LARGE, -LARGE):
            scaled = [_up_to(scale, x) if i in chosen else x for i, x in enumerate(xs)]
            whose = ", ".join(function.names[function.positions[i]] for i in chosen)
            yield f"with {whose} scaled until its largest entry is {scale:,g}", scaled


def _up_to(scale: float, x: np.ndarray) -> np.ndarray:
    largest = np.max(np.abs(x), initial=0.0)
    return x * (scale / largest) if largest else x


def _all_of_ones_own(function: Function) -> bool:
    """Whether a function's graph has nodes, and all of them have user-defined rules."""
    _, ys = function.record(function.xs)
    waiting: list[Any] = [y.node for y in ys]
    found = [node for node in waiting if node.__class__ is Node]
    for node in found:
        found += [p for p in node.parents if p.__class__ is Node and p not in found]
        if not _is_ones_own(node.op):
            return False
    return bool(found)


def _is_ones_own(op: Any) -> bool:
    """Whether an op is a mg.Function, or a primitive whose forward is defined outside minigrad."""
    if isinstance(op, FunctionCall):
        return True
    names = getattr(getattr(op, "forward", None), "__globals__", {})  # a ufunc has none
    return str(names.get("__name__", __name__)).partition(".")[0] != __name__.partition(".")[0]
