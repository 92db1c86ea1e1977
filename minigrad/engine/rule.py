"""Derivative rules: how a user gives one, which values it reads, and how a plan uses it.

Decorators of `Differentiable` give an op its rules. A rule asks for values by name (plan.py has the
list). A name that the op does not know is an error when the rule is given, not when it runs.

A plan makes two functions of rules. `save` looks each of these names up when the op is called;
`vjp` passes the values to the rules when a cotangent arrives. Here both are interpreted: a dict of
names, and a look into it.

Seam B. `make_save` and `make_vjp` may be replaced before a plan is made; the functions of fast/
write the same out as Python source for each op. They take the same arguments and return functions
of the same results. `protect` may be replaced too: it takes each function of a rule once, and
returns the one that the engine calls (custom/shown.py shows users' rules read-only views).
`outside`, if set, adds names to what a plan saves, for rules that may read what no graph shows
(custom/rule_hidden.py).
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from .errors import RuleError, describe
from .graph import raw


def plain_name(name: Any) -> str:
    """The characters of a name, for source that is generated: a subclass of str may format itself
    as other ones. TypeError for what is no string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, got {name!r:.40}")
    return str.__str__(name)


def argument_names(fn: Callable) -> tuple[str, ...]:
    """The names that a function asks for."""
    return tuple(map(plain_name, inspect.signature(fn).parameters))


def split_signature(fn: Callable, named: str | None) -> tuple[tuple, list[str], dict, bool]:
    """(arrays, optional ones, defaults of the static parameters, variadic) of a forward.

    Positional arguments without a default are arrays, unless `named` says which ones are. A static
    parameter without a default has `inspect.Parameter.empty` for one: a call always gives it.
    """
    parameters = inspect.signature(fn).parameters
    starred = [name for name, p in parameters.items() if p.kind is p.VAR_POSITIONAL]
    if named is not None:
        arrays = named.split()
        if unknown := [name for name in arrays if name not in parameters]:
            raise ValueError(
                f"{getattr(fn, '__name__', fn)}: arrays={named!r} names {unknown[0]!r}, and its "
                f"parameters are {', '.join(parameters)}"
            )
    else:
        plain = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        arrays = starred or [p.name for p in plain if p.default is p.empty]
    optional = [name for name in arrays if parameters[name].default is None]
    defaults = {name: p.default for name, p in parameters.items() if name not in arrays}
    return tuple(arrays), optional, defaults, bool(starred)


def check_partials(name: str, forward: Any, partials: dict[str, Any]) -> None:
    """TypeError unless an elementwise op has one partial, or None, for each of its arguments."""
    arguments = _arguments_of(forward)
    wanted = " and ".join(f"d{argument}=" for argument in arguments)
    wanted = wanted or "dx= for x; da= and db= for a and b"
    if not partials:
        raise TypeError(
            f"{name}: an elementwise op needs a partial derivative for each argument, {wanted}. "
            "Give a function of named values (dx=lambda y: y for exp), or None for a constant"
        )
    for keyword, partial in partials.items():
        if partial is not None and not callable(partial):
            raise TypeError(
                f"{name}: {keyword}={partial!r} is no function; a partial is a function of named "
                f"values, such as lambda y: y, or {keyword}=lambda: {partial!r}"
            )
    if arguments and len(arguments) != len(partials):
        raise TypeError(
            f"{name}: its forward has {len(arguments)} arguments, and {len(partials)} of them has "
            f"a partial ({', '.join(partials)}); give {wanted}, None for a constant"
        )


def _arguments_of(forward: Any) -> list[str]:
    """The arguments of an elementwise forward that a call gives by position; [] if unknown."""
    if count := getattr(forward, "nin", 0):
        return ["x"] if count == 1 else list("abcdefgh"[:count])
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return []
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    return [p.name for p in parameters if p.default is p.empty]


def in_own_names(given: dict[str, Any], others: dict[str, str]) -> dict[str, Any]:
    """The keywords of a call by the function's own names, for which `others` has other ones.

    A value given by both names stays twice, for the function to refuse.
    """
    own = {name: others.get(name, name) for name in given}
    return {name if own[name] in given else own[name]: x for name, x in given.items()}


# -- a rule, and what a plan makes of rules --------------------------------------------------------

BEHIND = "(inputs)"  # among the names that a plan saves: what `outside` asked for


class Rule:
    """A derivative function and the names it asks for. A partial is multiplied by g afterwards."""

    __slots__ = ("fn", "names", "partial", "run")

    def __init__(self, fn: Callable, names: tuple[str, ...], partial: bool = False):
        self.fn = fn
        self.names = names
        self.partial = partial
        self.run = protect(fn)  # what the engine calls

    def apply(self, known: dict[str, Any]) -> Any:
        """The rule's result for the values of these names."""
        return self.run(*[known[name] for name in self.names])


def interpreted_save(op: Any, slots: list[int], names: tuple[str, ...], file: str = "") -> Callable:
    """`save` of a plan: (arrays, params, residuals, pattern) -> the values of `names`.

    arrays    [*inputs, y]
    pattern   bit i is set where input i needs a gradient
    """

    def save(arrays: list, params: dict, residuals: Any, pattern: int) -> tuple:
        *inputs, y = arrays
        known = {**op.defaults, **params, **dict(zip(op.residuals, residuals)), "y": y}
        if op.variadic:
            (name,) = op.arrays
            known |= {name: tuple(inputs), f"{name}_shape": [np.shape(x) for x in inputs]}
            known["needs"] = [pattern >> i & 1 == 1 for i in range(len(inputs))]
        else:
            for name, x in zip(op.arrays, inputs, strict=True):
                known |= {name: x, f"{name}_shape": np.shape(x)}
            known["needs"] = [i in slots for i in range(op.arity)]
        if "xp" in names:
            known["xp"] = array_module(raw(y[0] if isinstance(y, tuple) else y))
        if BEHIND in names:
            known[BEHIND] = outside.values(tuple(inputs))
        return tuple([known[name] for name in names])

    return save


def interpreted_vjp(
    op: Any,
    rules: list[Rule | None],
    shortcut: tuple | None,
    names: tuple[str, ...],
    file: str = "",
) -> tuple[Callable, None]:
    """`vjp` of a plan: (g, saved) -> one contribution for each rule; None for a rule that is None.

    The rows of the table give p·g. The gradient of a real loss is conj(p)·g = conj(p·conj(g)), so
    one row serves real and complex numbers.
    """
    plain = op.kind == "elementwise" and not op.outputs

    def vjp(g: Any, saved: Any) -> list:
        known = dict(zip(names, saved, strict=True))
        if op.joint is not None:
            return needed(rules[0].apply(known | {"g": g}), known["needs"])  # type: ignore[union-attr]
        conjugate = plain and g.dtype.kind == "c"
        known["g"] = g.conj() if conjugate else g
        found: dict[int, Any] = {}
        if shortcut is not None and not conjugate:
            positions, several = shortcut
            found = dict(zip(positions, several.apply(known) or ()))
        for i, rule in enumerate(rules):
            if i not in found:
                c = None if rule is None else rule.apply(known)
                c = np.multiply(known["g"], c) if rule is not None and rule.partial else c
                found[i] = c.conj() if conjugate and c is not None else c
        return [found[i] for i in range(len(rules))]

    return vjp, None


def needed(given: Any, needs: list[bool]) -> list:
    """The result of a joint rule, without the entries of inputs that need no gradient."""
    try:
        return [c for c, need in zip(given, needs, strict=True) if need]
    except (TypeError, ValueError):
        count = f"{len(given)} of them" if isinstance(given, tuple | list) else describe(given)
        raise RuleError(
            "a joint rule (@op.vjp without a name) returns a tuple of one gradient for each input, "
            f"here {len(needs)}; it returned {count}. A rule for one input is @op.vjp(its name)"
        ) from None


def _as_it_is(fn: Callable) -> Callable:
    return fn


make_save: Callable = interpreted_save
make_vjp: Callable = interpreted_vjp
protect: Callable[[Callable], Callable] = _as_it_is
outside: Any = None


def reads_outside(op: Any, rules: list[Rule]) -> bool:
    """Whether some of these rules may read what no graph shows."""
    return outside is not None and outside.asked(op, rules)


# -- an op's rules ---------------------------------------------------------------------------------

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
        """Decorator: the rule for one input by name, or, without a name, one joint rule for all.

        With several names the rule is a shortcut, tried first if each of these inputs needs a
        gradient. It returns all their gradients, or None to fall back to the rule of each.
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
                f"{self.name} is not elementwise, so its derivatives are no factors of the "
                f"cotangent. Give the gradient itself by @{self.name}.vjp({name!r})"
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
