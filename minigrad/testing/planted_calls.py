"""Wrong rules that one small call does not show: under transforms, between calls, at a size."""

from typing import Any

import numpy as np

from ..core.primitive import Primitive
from .plant import Plant, plant, vectors

_SINE = {"x": lambda g, x: g * np.cos(x)}
_OFF = 1 + 1e-3
_last: list = [None]  # what the plant "last call" keeps
_first: dict[tuple, Any] = {}  # and the plant "first call"


def _with_batch_rule(entry: Primitive) -> Primitive:
    """vmap runs it on the whole batch; the wrong one takes the examples from behind."""
    wrong = "wrong" in entry.name
    entry.batch(lambda op, xs, batched, params: op(xs[0][::-1] if wrong else xs[0]))
    return entry


_cosine = Primitive(np.cos, "a cosine", ["x"])
_cosine.vjp("x")(lambda g, x: -g * np.sin(x))
_cosine.jvp(lambda x_t, x: -x_t * np.sin(x) * _OFF)


def _noting(x):
    _last[0] = x
    return np.sin(x)


def _of_last(g, x):
    return g * np.cos(x if hasattr(g, "node") else _last[0])


def _of_first(g, x):
    values = x.data if hasattr(x, "node") else x
    return g * _first.setdefault(x.shape, np.cos(values))


CALLS: list[Plant] = [
    plant(
        "batch rule", "vmap gives one example the result of another", forward=np.sin,
        wrong=_SINE, right=_SINE, samples=vectors(5), call=_with_batch_rule,
    ),
    plant(
        "forward over reverse", "a rule calls an op whose jvp rule is wrong, its vjp rule right",
        forward=np.sin, wrong={"x": lambda g, x: g * _cosine(x)}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "last call", "the rule uses the argument of the last call, its own or another",
        forward=np.sin, wrong_forward=_noting, wrong={"x": _of_last}, right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "first call", "the rule keeps the partial of the first call of each shape",
        forward=np.sin, wrong={"x": _of_first}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "beyond a size", "wrong from 100,000 elements on, where blocks begin", forward=np.sin,
        kind="elementwise", right=_SINE, samples=vectors(5),
        wrong={"x": lambda g, x: g * np.cos(x) * (_OFF if x.size > 100_000 else 1.0)},
    ),
]  # fmt: skip
