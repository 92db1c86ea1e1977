"""What one call must save and how its rules are fed: worked out once per op and input pattern.

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
    """For one op and one pattern of inputs that need gradients: what to save, how to pull back.

    names    what `Node.saved` holds, in order
    save     (arrays, params, residuals, pattern) -> the saved values, arrays being [*inputs, y];
             None where nothing is saved
    pull     (g, saved) -> one contribution per needed input: the rules, fed and put side by side
    pull_large   a LargePull, for elementwise ops; else None
    reached  None; of a part, for each needed input whether its rule runs
    """

    __slots__ = ("op", "slots", "names", "save", "pull", "pull_large", "joint", "reached", "parts")

    def __init__(self, op: Any, pattern: int):
        self.op = op
        self.joint = op.joint is not None
        self.reached: tuple[bool, ...] | None = None
        self.parts: dict[tuple[bool, ...], Plan] = {}
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
        files = [f"<{name} of {op.name} for {', '.join(inputs)}>" for name in ("save", "pull")]
        self.save = seam.make_save(op, self.slots, self.names, files[0]) if names else None
        self.pull, self.pull_large = seam.make_vjp(op, rules, shortcut, self.names, files[1])
        if hiding:
            self.pull = seam.outside.watched(self, self.pull)

    def part(self, reached: tuple[bool, ...]) -> "Plan":
        """The plan for the same saved values without the rules of the parents not `reached`.

        Its `pull` returns None for those. mg.grad uses it for a node of which only some parents
        lead to an input that was asked for.
        """
        found = self.parts.get(reached)
        if found is None:
            found = Part(self, reached)
            if not self.op.variadic:  # it may have any number of parts, so none is kept
                self.parts[reached] = found
        return found

    def feed(self, values: tuple) -> list:
        """What the rules return for (g, *saved), one contribution per needed input."""
        return self.pull(values[0], values[1:])

    def slots_of(self, node: Node) -> list[int]:
        """For each of the node's parents, which input of the call it was."""
        if not self.op.variadic:
            return self.slots
        saved: Any = node.saved  # a tuple, or what a Saver has put in its place (modes/saving.py)
        needs: Any = saved[self.names.index("needs")] if type(saved) is tuple else saved.needs
        return [slot for slot, need in enumerate(needs) if need]

    def linked(self, node: Node, tensor: Callable[[Any, Any], Any]) -> list:
        """The node's saved values as tensors in the graph, for a rule that will be recorded.

        An input is linked to its own producer, the result to this node, so that differentiating
        the rule's result reaches them. Residuals and static values stay constants.
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
                value = seam.outside.linked(self, node, value, tensor)
            values.append(value)
        return values


class Part(Plan):
    """A plan without some of its rules: see Plan.part."""

    __slots__ = ()

    def __init__(self, whole: Plan, reached: tuple[bool, ...]):
        self.op, self.joint, self.slots = whole.op, whole.joint, whole.slots
        self.names, self.save = whole.names, whole.save
        self.reached, self.parts = reached, {}
        if self.joint:
            self.pull, self.pull_large = _joint_part(whole, reached), None
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
        self.pull, self.pull_large = seam.make_vjp(self.op, rules, shortcut, self.names)
        if BEHIND in self.names:
            self.pull = seam.outside.watched(self, self.pull)


def _joint_part(whole: Plan, reached: tuple[bool, ...]) -> Callable:
    """`pull` of a part for an op with a joint rule: the rule is told that fewer are needed."""
    at = whole.names.index("needs")

    def pull(g: Any, saved: Any) -> list:
        values, flags = [*saved], iter(reached)
        values[at] = [need and next(flags) for need in values[at]]
        found = iter(whole.pull(g, values))
        return [next(found) if wanted else None for wanted in reached]

    return pull


class Plans(dict):
    """The plans of an op by pattern.

    Cleared when its forward or a rule changes, and with them everything else that was derived from
    these: the calls that were made for it, and what others keep in `derived`.
    """

    def __init__(self, op: Any):
        self.op = weakref.ref(op)  # an op made for one call must be freed after it

    def clear(self) -> None:
        super().clear()
        op: Any = self.op()
        op.derived.clear()
        for name in ("apply", "watched"):
            op.__dict__.pop(name, None)


def _measure() -> tuple[int, int]:
    """How many plans the registered ops have made, and their bytes."""
    wholes = [plan for op in registry for plan in getattr(op, "plans", {}).values()]
    plans = [plan for whole in wholes for plan in (whole, *whole.parts.values())]
    return len(plans), sum(size_of_value([plan.names, plan]) for plan in plans)


report("plans of ops", _measure)  # an op of n inputs makes at most 2ⁿ − 1, a variadic one 1


def _shortcut(op: Any, inputs: list[str]) -> tuple[tuple[str, ...], Rule] | None:
    """(names, rule) of the op's first shortcut that covers a subset of these inputs, or None."""
    return next((found for found in op.shortcuts.items() if {*found[0]} <= {*inputs}), None)
