"""Wrong variants of right ops: blocks joined wrongly, loops that differ.

The reference and its rule are right. So are calls of fewer elements than the variant takes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..custom.rule_variants import add_to_rules, remove_from_rules, vjp_variant
from ..custom.variants import Variant, change
from .plant import SINE, Plant, Rules, make, pairs, plant, times, vectors
from .spec import OpSpec

_LEAST = 1 << 16  # elements: more than in K25's arrays of special values
_BLOCK = 1 << 14


def _in_blocks(y: np.ndarray, x: np.ndarray, most: int) -> np.ndarray:
    """sin x a block at a time, into the flat positions of y before `most`."""
    flat, values = y.reshape(-1), x.ravel("K")
    for start in range(0, most, _BLOCK):
        span = slice(start, min(start + _BLOCK, most))
        np.sin(values[span], out=flat[span])
    return y


def _sine(x: np.ndarray) -> np.ndarray | None:
    return _in_blocks(np.empty(x.shape, x.dtype), x, x.size) if x.flags.c_contiguous else None


def _sine_of_whole_blocks(x: np.ndarray) -> np.ndarray:
    return _in_blocks(
        np.zeros(x.shape, x.dtype), np.ascontiguousarray(x), x.size // _BLOCK * _BLOCK
    )


def _sine_in_memory_order(x: np.ndarray) -> np.ndarray:
    return _in_blocks(np.empty(x.shape, x.dtype), x, x.size)


def _largest_with_0(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def _where_positive(x: np.ndarray) -> np.ndarray:
    """The comparison of a loop: NaN is not greater than 0."""
    return np.where(x > 0, x, np.zeros((), x.dtype))


def _times_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A loop over rows that uses the first row of b for each, as if b had one."""
    return a * (b[:1] if a.ndim == b.ndim == 2 and a.shape[1:] == b.shape[1:] else b)


def _sine_and_cosine(x: np.ndarray) -> tuple:
    return np.sin(x), np.cos(x)


def _sine_and_root(x: np.ndarray) -> tuple:
    """The cosine as √(1 − sin²), which is only its size."""
    y = np.sin(x)
    return y, np.sqrt(np.maximum(1 - y * y, 0))


def _variant(
    name: str, what: str, forward: Callable, rules: Rules, wrong: Callable, right: Callable,
    samples: Callable, **options: Any,
) -> Plant:  # fmt: skip
    """A right op, with a wrong variant and with a right one."""

    def spec(kind: str, fn: Callable) -> OpSpec:
        entry = make(f"{name} ({kind})", forward, rules, options)
        change(entry, (Variant(fn, "cpu", least=_LEAST),))

        def reference(*xs: Any) -> Any:
            y = forward(*xs)
            return y[0] if isinstance(y, tuple) else y

        return OpSpec(entry.name, entry, reference, samples, dtypes=("float64",))

    return Plant(name, what, spec("wrong", wrong), spec("right", right))


def _loop_of_both(plan: Any, values: tuple) -> list | None:
    """The gradients of a product by whole rows: a cotangent in another order is read as rows."""
    g, *saved = values
    return [
        (g.ravel("K") * x.ravel("K")).reshape(g.shape) if g.shape == x.shape else c
        for x, c in zip(_factors(plan, saved), plan.apply_rules(values), strict=True)
    ]


def _factors(plan: Any, saved: list) -> list:
    """The factors of g in a product's rules, for the rules in the plan."""
    known = dict(zip(plan.names, saved, strict=True))
    return [known["ba"[slot]] for slot in plan.slots]


def _with_loop_of_rules(given: Plant) -> Plant:
    """The wrong op with this loop for its rules, only while it is checked: it would affect other
    backwards."""
    op: Any = given.wrong.call
    variant = Variant(_loop_of_both, "cpu", least=_LEAST, name="loop of both")

    @contextmanager
    def while_wrong() -> Iterator[None]:
        add_to_rules(op, variant)
        try:
            yield
        finally:
            remove_from_rules(op, variant)

    return replace(given, while_wrong=while_wrong)


def _with_rules_in_place(given: Plant) -> Plant:
    """The wrong op with a rule that fills zeros unless the result is positive; NaN is not."""

    @vjp_variant(given.wrong.call, "x", name="exponential in place")
    def in_place(g: Any, y: Any) -> Any:
        if type(g) is not np.ndarray:
            return None
        return np.multiply(g, y, out=np.zeros_like(y), where=y > 0)

    return given


_ROW = {"kind": "elementwise"}
_PRODUCT: Rules = {"a": lambda g, b: g * b, "b": lambda g, a: g * a}
_EXPONENTIAL: Rules = {"x": lambda g, y: g * y}
VARIANTS: list[Plant] = [
    _variant(
        "last block", "blocks that leave out what follows the last whole one", np.sin, SINE,
        _sine_of_whole_blocks, _sine, vectors(5, 100), **_ROW,
    ),
    _variant(
        "block of another order", "blocks of an array in Fortran order put into one of rows",
        np.sin, SINE, _sine_in_memory_order, _sine, vectors(5, 100), **_ROW,
    ),
    _variant(
        "loop without NaN", "a loop that compares, where the reference gives NaN for NaN",
        _largest_with_0, {"x": lambda g, y: g * (y != 0)}, _where_positive, _largest_with_0,
        vectors(5, 100), **_ROW,
    ),
    _variant(
        "row of a loop", "a loop over rows that takes the first row of the second argument alone",
        times, _PRODUCT, _times_rows, times, pairs((5, 5), ((3, 4), (3, 4))), **_ROW,
    ),
    _variant(
        "residual of a loop", "a right value with a residual of the wrong sign",
        _sine_and_cosine,
        {"x": lambda g, x, c: g * (c if isinstance(x, np.ndarray) else np.cos(x))},
        _sine_and_root, _sine_and_cosine, vectors(5, 100), arrays=("x",), residuals=("c",),
    ),
    _with_loop_of_rules(plant(
        "loop of rules", "a loop for all gradients that reads each array in its order in memory",
        wrong=_PRODUCT, right=_PRODUCT, forward=times, samples=pairs((5, 5), ((3, 4), (3, 4))),
        kind="elementwise",
    )),
    _with_rules_in_place(plant(
        "rule in place", "a rule that leaves zeros where a comparison with NaN is false",
        wrong=_EXPONENTIAL, right=_EXPONENTIAL, forward=np.exp, samples=vectors(5, 100),
        kind="elementwise",
    )),
]  # fmt: skip
