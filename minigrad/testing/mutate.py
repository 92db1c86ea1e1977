"""Mutants: every rule of every op, made wrong in several ways, must be caught.

The planted rules show that each check can find its fault; mutants show that every op's own samples
reveal it. A mutant whose rule never gave a different number (a gradient that is zero anyway) does
not count.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.plan import Rule
from ..engine.primitive import Primitive
from ..engine.registry import op as registry
from ..tensor_api.tensor import Tensor
from .case import Context
from .checks import CHECKS
from .function import as_array
from .run import check_one, load_samples, op_names
from .spec import specs

_GRADIENT_CHECKS = ("K2", "K3", "K4", "K10", "K11", "K12", "K15", "K16", "K19")


def _one_entry_off(c: Any) -> Any:
    """The largest entry times 1.001."""
    if not c.size:
        return c
    here = np.arange(c.size) == np.argmax(np.abs(as_array(c)))
    return c * np.where(here, 1.001, 1.0).reshape(c.shape)


def _detached(c: Any) -> Any:
    return Tensor(c.data) if isinstance(c, Tensor) else c


MUTATIONS: dict[str, Callable[[Any], Any]] = {
    "negated": lambda c: -c,
    "doubled": lambda c: c * 2,
    "zero": lambda c: c * 0,
    "relative error of 1e-5": lambda c: c * (1 + 1e-5),
    "bias of 1e-6": lambda c: c + 1e-6,
    "one entry off by 0.1 %": _one_entry_off,
    "detached": _detached,
}


@dataclass(frozen=True)
class Mutant:
    """One rule of one op with one mutation, and the first check that failed, or ""."""

    op: str
    rule: str
    mutation: str
    caught_by: str
    differs: bool

    @property
    def survived(self) -> bool:
        return self.differs and not self.caught_by


def mutants(names: list[str] | None = None, seed: int = 0) -> Iterator[Mutant]:
    """Every mutation of every rule of these ops (of all primitives with samples)."""
    load_samples()
    for name in op_names() if names is None else names:
        entry = getattr(registry, name) if name in registry and name in specs else None
        if isinstance(entry, Primitive) and entry.tracked:
            for key in ["joint"] if entry.joint else [*entry.rules]:
                for mutation, change in MUTATIONS.items():
                    with mutated(entry, key, change) as seen:
                        caught = first_failure(name, seed)
                    differs = "differs" in seen
                    if mutation == "detached" and differs and not caught:
                        differs = not locally_constant(name, seed)
                    yield Mutant(name, key, mutation, caught, differs)


def first_failure(name: str, seed: int) -> str:
    """The first check about gradients that fails on this op, or ""."""
    context, spec = Context("fast", seed), specs[name]
    for check in CHECKS:
        if check.id in _GRADIENT_CHECKS and check.id not in spec.skips:
            if check_one(spec, check, context).status == "fail":
                return check.id
    return ""


def locally_constant(name: str, seed: int) -> bool:
    """Whether no partial moves with the inputs: detaching such a partial changes no derivative."""
    context = Context("fast", seed)
    for case in context.doubles(specs[name]):
        function, rng = case.function(), case.rng("nearby")
        vs = [np.ones_like(y) for y in function.value(function.xs)]
        nearby = [x + 1e-6 * rng.standard_normal(x.shape) for x in function.xs]
        pairs = zip(function.vjp(function.xs, vs), function.vjp(nearby, vs), strict=True)
        if not all(np.array_equal(here, there, equal_nan=True) for here, there in pairs):
            return False
    return True


@contextmanager
def mutated(entry: Primitive, key: str, change: Callable[[Any], Any]) -> Iterator[set[str]]:
    """The op with one rule changed; the set gets "differs" once the rule gave another result."""
    right = entry.joint if key == "joint" else entry.rules[key]
    assert right is not None
    seen: set[str] = set()

    def wrong(*args: Any) -> Any:
        return _changed(right.fn(*args), change, seen)

    _put(entry, key, Rule(wrong, right.names, right.partial))
    try:
        yield seen
    finally:
        _put(entry, key, right)


def _put(entry: Primitive, key: str, rule: Rule) -> None:
    if key == "joint":
        entry.joint = rule
    else:
        entry.rules[key] = rule
    entry.plans.clear()  # plans cache the functions of rules


def _changed(c: Any, change: Callable[[Any], Any], seen: set[str]) -> Any:
    """The result of a rule, changed: one contribution, or one for each input."""
    if isinstance(c, tuple | list):
        return [_changed(part, change, seen) for part in c]
    if c is None:
        return None
    other = change(c)
    tracked = isinstance(c, Tensor) and c.requires_grad != other.requires_grad
    if tracked or not np.array_equal(as_array(c), as_array(other), equal_nan=True):
        seen.add("differs")
    return other
