"""Plans: the values that a call saves, and how its rules are applied, once per op and pattern.

The signature is the save list. A rule asks by name for what it needs:

- an input's name, for that input; a `*arrays` op's name, for the list of them
- `y`           the result (a tuple where the op has several outputs)
- `g`           the cotangent of the result (a list, None where an output was not used)
- a residual's name, for something else that the forward returned
- `<input>_shape`, for a shape alone
- a static parameter's name
- `xp`          the array module of the result
- `needs`       in a joint rule: which inputs need a gradient
"""

import weakref
from collections.abc import Callable
from typing import Any

from ..backends.caches import report, size_of_value
from . import rule as seam
from .graph import Node, port_of
from .registry import op as registry
from .rule import BEHIND, Rule


class Plan:
    """What to save and how to apply the rules, for one op and one pattern of inputs.

    names    what `Node.saved` holds, in order
    save     (arrays, params, residuals, pattern) -> the saved values, arrays being [*inputs, y];
             None where nothing is saved
    vjp      (g, saved) -> one contribution per needed input: the rules' results, side by side
    blocked_vjp   a BlockedVjp, for elementwise ops; else None
    reached  None; of a restricted plan, for each needed input whether its rule runs
    """

    __slots__ = (
        "op", "slots", "names", "save", "vjp", "blocked_vjp", "joint", "reached", "restrictions",
    )  # fmt: skip

    def __init__(self, op: Any, pattern: int):
        self.op = op
        self.joint = op.joint is not None
        self.reached: tuple[bool, ...] | None = None
        self.restrictions: dict[tuple[bool, ...], Plan] = {}
        self.slots = [] if op.variadic else [i for i in range(op.arity) if pattern >> i & 1]
        inputs = [op.arrays[i] for i in self.slots]
        rules = [op.joint] if self.joint else [op.rule_for(name) for name in inputs]
        shortcut = _shortcut(op, inputs)
        if shortcut is not None:
            shortcut = [inputs.index(name) for name in shortcut[0]], shortcut[1]
        asked = rules if shortcut is None else [*rules, shortcut[1]]
        names = dict.fromkeys(name for rule in asked for name in rule.names if name != "g")
        if self.joint:
            names["needs"] = None
        hiding = seam.reads_outside(op, asked)
        if hiding:
            names |= dict.fromkeys([*op.defaults, BEHIND])
        self.names = tuple(names)
        files = [f"<{name} of {op.name} for {', '.join(inputs)}>" for name in ("save", "vjp")]
        self.save = seam.make_save(op, self.slots, self.names, files[0]) if names else None
        self.vjp, self.blocked_vjp = seam.make_vjp(op, rules, shortcut, self.names, files[1])
        if hiding:
            self.vjp = seam.outside.sealing(self, self.vjp)

    def restricted(self, reached: tuple[bool, ...]) -> "Plan":
        """The plan for the same saved values without the rules of the parents not `reached`.

        Its `vjp` returns None for those. mg.grad uses it for a node of which only some parents
        lead to an input that was asked for.
        """
        found = self.restrictions.get(reached)
        if found is None:
            found = RestrictedPlan(self, reached)
            if not self.op.variadic:  # it may have any number, so none is kept
                self.restrictions[reached] = found
        return found

    def apply_rules(self, values: tuple) -> list:
        """What the rules return for (g, *saved), one contribution per needed input."""
        return self.vjp(values[0], values[1:])

    def slots_of(self, node: Node) -> list[int]:
        """For each of the node's parents, which input of the call it was."""
        if not self.op.variadic:
            return self.slots
        saved: Any = node.saved  # a tuple, or what a Saver has put in its place (modes/saving.py)
        needs: Any = saved[self.names.index("needs")] if type(saved) is tuple else saved.needs
        return [slot for slot, need in enumerate(needs) if need]

    def recorded(self, node: Node, tensor: Callable[[Any, Any], Any]) -> list:
        """The node's saved values as tensors in the graph, for a rule that will be recorded.

        An input is linked to its own producer, the result to this node, so that differentiating the
        rule's result reaches them. Residuals and static values stay constants.
        """
        op = self.op
        producers = dict(zip(self.slots_of(node), node.parents, strict=True))
        values = []
        for name, value in zip(self.names, node.saved, strict=True):  # type: ignore[arg-type]
            if name == "y" and op.outputs:
                value = tuple(tensor(y, port_of(node, i, y)) for i, y in enumerate(value))
            elif name == "y":
                value = tensor(value, node)
            elif op.variadic and name == op.arrays[0]:
                value = [
                    tensor(x, producers[i]) if i in producers else x for i, x in enumerate(value)
                ]
            elif name in op.arrays and op.arrays.index(name) in producers:
                value = tensor(value, producers[op.arrays.index(name)])
            elif name == BEHIND:
                value = seam.outside.recorded(self, node, value, tensor)
            values.append(value)
        return values


class RestrictedPlan(Plan):
    """A plan without some of its rules: see Plan.restricted."""

    __slots__ = ()

    def __init__(self, whole: Plan, reached: tuple[bool, ...]):
        self.op, self.joint, self.slots = whole.op, whole.joint, whole.slots
        self.names, self.save = whole.names, whole.save
        self.reached, self.restrictions = reached, {}
        if self.joint:
            self.vjp, self.blocked_vjp = _restricted_joint_vjp(whole, reached), None
            return
        inputs = [self.op.arrays[i] for i in self.slots]
        rules = [
            self.op.rule_for(name) if wanted else None
            for name, wanted in zip(inputs, reached, strict=True)
        ]
        shortcut = _shortcut(self.op, [n for n, rule in zip(inputs, rules) if rule is not None])
        if shortcut is not None:
            several, rule = shortcut
            known = {"g", *self.names}.issuperset(rule.names)
            shortcut = ([inputs.index(name) for name in several], rule) if known else None
        self.vjp, self.blocked_vjp = seam.make_vjp(self.op, rules, shortcut, self.names)
        if BEHIND in self.names:
            self.vjp = seam.outside.sealing(self, self.vjp)


def _restricted_joint_vjp(whole: Plan, reached: tuple[bool, ...]) -> Callable:
    """`vjp` of a restricted plan for a joint rule, whose `needs` names fewer inputs."""
    at = whole.names.index("needs")

    def vjp(g: Any, saved: Any) -> list:
        values, flags = [*saved], iter(reached)
        values[at] = [need and next(flags) for need in values[at]]
        found = iter(whole.vjp(g, values))
        return [next(found) if wanted else None for wanted in reached]

    return vjp


class Plans(dict):
    """The plans of an op by pattern.

    They are cleared when its forward or a rule changes. So is everything else derived from these:
    the calls generated for it, and the entries in `derived`.
    """

    def __init__(self, op: Any):
        self.op = weakref.ref(op)  # an op made for one call must be freed after it

    def clear(self) -> None:
        super().clear()
        op: Any = self.op()
        op.derived.clear()
        for name in ("apply", "instrumented"):
            op.__dict__.pop(name, None)


def _measure() -> tuple[int, int]:
    """How many plans the registered ops have made, and their bytes."""
    wholes = [plan for op in registry for plan in getattr(op, "plans", {}).values()]
    plans = [plan for whole in wholes for plan in (whole, *whole.restrictions.values())]
    return len(plans), sum(size_of_value([plan.names, plan]) for plan in plans)


report("plans of ops", _measure)  # an op of n inputs makes at most 2ⁿ − 1, a variadic one 1


def _shortcut(op: Any, inputs: list[str]) -> tuple[tuple[str, ...], Rule] | None:
    """(names, rule) of the op's first shortcut that covers a subset of these inputs, or None."""
    return next((found for found in op.shortcuts.items() if {*found[0]} <= {*inputs}), None)
