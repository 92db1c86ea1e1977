"""The derivative rules of an op: the decorators that give them, and their checks.

A rule asks for what it needs by name (plan.py has the list); a name that the op does not know is an
error when the rule is given, not when it runs.
"""

from collections.abc import Callable
from typing import Any

from .errors import RuleError
from .rule import Rule
from .signature import argument_names

RESERVED = frozenset({"y", "g", "xp", "needs"})  # what rules ask for by name besides arguments


class Differentiable:
    """Base of Primitive: its rules, and the decorators that give them."""

    name: str
    kind: str
    arrays: tuple[str, ...]
    defaults: dict[str, Any]
    residuals: tuple[str, ...]
    rules: dict[str, Rule]
    joint: Rule | None
    shortcuts: dict[tuple, Rule]
    jvp_rule: Rule | None
    batch_rule: Callable | None
    plans: Any

    def vjp(self, *names: str | Callable) -> Callable:
        """Decorator: the rule for one input by name, or, used bare, one joint rule for all.

        With several names it is a shortcut, tried first where each of these inputs needs a
        gradient: it returns all their gradients, or None to fall back to the rule of each.
        """
        if len(names) == 1 and callable(names[0]):
            self.joint = self.checked_rule(names[0])
            return names[0]
        self._require_inputs(*names)

        def add(fn: Callable) -> Callable:
            rules: Any = self.rules if len(names) == 1 else self.shortcuts
            rules[names[0] if len(names) == 1 else names] = self.checked_rule(fn)
            return fn

        return add if names else self.vjp

    def partial(self, name: str) -> Callable:
        """Decorator: the partial derivative of an elementwise op by one input.

        The engine multiplies it by the cotangent, as it does with the dx= of `elementwise`.
        """
        if self.kind != "elementwise":
            raise ValueError(
                f"{self.name} is no elementwise op, so that its derivatives are no factors of the "
                f"cotangent: give the gradient itself by @{self.name}.vjp({name!r})"
            )
        self._require_inputs(name)

        def add(fn: Callable) -> Callable:
            self.rules[name] = self.checked_rule(fn, partial=True)
            return fn

        return add

    def jvp(self, fn: Callable) -> Callable:
        """Decorator: the tangent of the result, from `<input>_t` tangents (None where constant)."""
        self.jvp_rule = Rule(fn, argument_names(fn))
        return fn

    def batch(self, fn: Callable) -> Callable:
        """Decorator: how vmap runs this op once on a batch, fn(op, xs, batched, params) -> y.

        Input i has the batch as its first axis where batched[i]; so must every output. `params` has
        all static parameters, defaults included.
        """
        self.batch_rule = fn
        return fn

    def _require_inputs(self, *names: str | Callable) -> None:
        if unknown := [name for name in names if name not in self.arrays]:
            raise ValueError(f"{self.name} has no input {unknown[0]!r}; it has {[*self.arrays]}")

    def checked_rule(self, fn: Callable, partial: bool = False) -> Rule:
        """A Rule of `fn`; ValueError where it asks for a name that no rule of this op can have."""
        names = argument_names(fn)
        known = {*self.arrays, *self.defaults, *self.residuals, *RESERVED}
        known |= {f"{name}_shape" for name in self.arrays}
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{self.name}: a rule asks for {unknown}, none of {sorted(known)}")
        self.plans.clear()  # made with the rules so far
        return Rule(fn, names, partial and "g" not in names)

    def rule_for(self, name: str) -> Rule:
        """The reverse rule of one input; an op without it says so, never a silent zero."""
        if name not in self.rules:
            raise RuleError(
                f"{self.name} has no derivative rule for its input {name!r}: give it one with "
                f'@{self.name}.vjp("{name}"), or pass that input detached',
                op=self.name, argument=name,
            )  # fmt: skip
        return self.rules[name]
