"""A planted wrong rule: an op made twice, once right and once wrong.

Plants test the harness. A plant counts as caught when some check fails on the wrong op while every
check passes on the right one. The right op has the same forward and samples, so the samples alone
cannot be the cause. No planted op enters the registry.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward import unbroadcast
from ..engine.primitive import Primitive
from .spec import OpSpec, Point, Sample

Rules = dict[str, Callable]


@dataclass(frozen=True)
class Plant:
    """A wrong op, its right twin, and a description of the fault.

    while_wrong   a context in which the wrong op is checked (for a fault of the engine itself)
    """

    name: str
    what: str
    wrong: OpSpec
    right: OpSpec
    while_wrong: Callable[[], AbstractContextManager] = nullcontext


def make(name: str, forward: Callable, rules: Rules, options: dict[str, Any]) -> Primitive:
    """An op outside the registry; `joint` among the rules is one rule for all its `arrays`."""
    arrays = options.get("arrays") or tuple(rules)
    rest = {key: value for key, value in options.items() if key != "arrays"}
    entry = Primitive(forward, name, arrays, **rest)
    for array, rule in rules.items():
        if array == "joint":
            entry.vjp(rule)
        else:
            entry.vjp(array)(rule)
    return entry


def plant(
    name: str,
    what: str,
    *,
    wrong: Rules,
    right: Rules,
    forward: Callable,
    wrong_forward: Callable | None = None,
    samples: Callable,
    reference: Callable | None = None,
    points: Iterable[Point] = (),
    while_wrong: Callable[[], AbstractContextManager] = nullcontext,
    dtypes: tuple[str, ...] = ("float64",),
    mp: Callable | None = None,
    errors: tuple = (),
    call: Callable[[Primitive], Callable] | None = None,
    large: Callable | None = None,
    zero_gradient: bool = False,
    nan_alone: str = "",
    **options: Any,
) -> Plant:
    """A Plant from rules by name of input; `call` adapts the op to flat array arguments."""

    def spec(kind: str, function: Callable, rules: Rules) -> OpSpec:
        entry = make(f"{name} ({kind})", function, rules, options)
        return OpSpec(
            entry.name, call(entry) if call else entry, reference or forward, samples,
            errors, tuple(points), dtypes, mp, large=large, zero_gradient=zero_gradient,
            nan_alone=nan_alone,
        )  # fmt: skip

    return Plant(
        name, what, spec("wrong", wrong_forward or forward, wrong), spec("right", forward, right),
        while_wrong,
    )  # fmt: skip


def vectors(*sizes: Any, scale: float = 1.0) -> Callable:
    """Samples of one argument: N(0, 1) values times `scale`, in these shapes."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for size in sizes:
            yield Sample(f"shape {size}", ((numbers(rng, dtype, size) * scale).astype(dtype),))

    return samples


def pairs(*shapes: tuple) -> Callable:
    """Samples of two arguments, in these pairs of shapes."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for a, b in shapes:
            args = numbers(rng, dtype, a), numbers(rng, dtype, b)
            yield Sample(f"shapes {a} and {b}", args)

    return samples


def numbers(rng: np.random.Generator, dtype: Any, shape: Any) -> np.ndarray:
    """Values of size about one, none within 0.1 of zero."""
    x = rng.uniform(0.1, 2, shape) * rng.choice([-1, 1], shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(0.1, 2, shape)
    return np.asarray(x, dtype=dtype)


def both(x: Any) -> tuple:
    """Sine and cosine: an op with two results."""
    return np.sin(x), np.cos(x)


def both_dx(g: tuple, x: Any) -> Any:
    """Its rule; an unused result has the cotangent None."""
    s, c = (np.zeros(x.shape) if t is None else t for t in (g[0], g[1]))
    return s * np.cos(x) - c * np.sin(x)


# -- the sine and the product, the base of many plants -----------------------------------

SINE: Rules = {"x": lambda g, x: g * np.cos(x)}
OFF = 1 + 1e-3


def sine_off(wrong: Callable) -> Rules:
    """The sine's rule, off by 0.1 % where wrong(g, x) says so of arrays."""

    def rule(g, x):
        found = isinstance(g, np.ndarray) and isinstance(x, np.ndarray) and wrong(g, x)
        return g * np.cos(x) * (OFF if found else 1.0)

    return {"x": rule}


def times(a: Any, b: Any) -> Any:
    """The product."""
    return a * b


PRODUCT: Rules = {
    "a": lambda g, b, a_shape: unbroadcast(g * b, a_shape),
    "b": lambda g, a, b_shape: unbroadcast(g * a, b_shape),
}
