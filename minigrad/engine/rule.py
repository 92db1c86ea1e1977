"""A derivative rule, and the two functions of a plan that are made of rules: `save` and `vjp`.

A rule says by its signature what it reads. `save` therefore looks each of these names up when the
op is called, and `vjp` hands them to the rules when a cotangent arrives. Here both are
interpreted: a dict of names, and a look into it.

Seam B. `make_save` and `make_vjp` may be replaced before a plan is made; fast/ puts functions in
their place that write the same out as Python source for each op. They take the same arguments and
return functions of the same results. `protect` may be replaced too: it is given each function of a
rule once, and returns what the engine calls (custom/shown.py shows users' rules read-only views).
`outside`, if set, adds names to what a plan saves, for rules that may read what no graph shows
(custom/rule_hidden.py).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from .errors import RuleError, describe
from .tensor import raw

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
        """What the rule returns for the values of these names."""
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

    The rows of the table give p·g, and the gradient of a real loss is conj(p)·g = conj(p·conj(g)),
    so one row serves real and complex numbers.
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
    """What a joint rule returned, without the entries of inputs that need no gradient."""
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
