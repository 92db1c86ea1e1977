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

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from ..backends.device import array_module
from .caches import report, size_of_value
from .graph import Node, port_of
from .registry import op as registry
from .saving import Deferred
from .tensor import raw


class Rule:
    """A derivative function and the names it asks for. A partial is multiplied by g afterwards."""

    __slots__ = ("fn", "names", "partial")

    def __init__(self, fn: Callable, names: tuple[str, ...], partial: bool = False):
        self.fn = fn
        self.names = names
        self.partial = partial


class Plan:
    """For one op and one pattern of inputs that need gradients: what to save, how to pull back.

    names    what `Node.saved` holds, in order
    pick     takes from [*inputs, y] those that are simply there (None: none); `gather` the rest
    pull     (g, saved) -> one contribution per needed input: the rules, fed and put side by side
    """

    __slots__ = ("op", "slots", "names", "pick", "extras", "shapes", "pull", "joint")

    def __init__(self, op: Any, pattern: int):
        self.op = op
        self.joint = op.joint is not None
        self.slots = [] if op.variadic else [i for i in range(op.arity) if pattern >> i & 1]
        rules = [op.joint] if self.joint else [op.rule_for(op.arrays[i]) for i in self.slots]
        names = dict.fromkeys(name for rule in rules for name in rule.names if name != "g")
        if self.joint:
            names["needs"] = None
        at_hand = {"y": -1}
        if not op.variadic:
            at_hand |= {name: i for i, name in enumerate(op.arrays)}
        direct = [name for name in names if name in at_hand]
        self.extras = [name for name in names if name not in at_hand]
        sizes = {} if op.variadic else {f"{name}_shape": i for i, name in enumerate(op.arrays)}
        self.shapes = [sizes.get(name, -1) for name in self.extras]
        self.names = (*direct, *self.extras)
        self.pick = _picker([at_hand[name] for name in direct])
        self.pull = _written_out(op, rules, self.names)

    def gather(self, arrays: list, params: dict, residuals: list | tuple, pattern: int) -> tuple:
        """The saved values that are not simply an input or the result; arrays is [*inputs, y]."""
        if -1 not in self.shapes:  # shapes alone, as for products and reshapes: the short way
            return tuple([np.shape(arrays[i]) for i in self.shapes])
        op, (*inputs, y) = self.op, arrays
        known: dict[str, Any] = {**op.defaults, **params}
        known |= zip(op.residuals, residuals, strict=True)
        if "needs" in self.extras:
            slots = len(inputs) if op.variadic else op.arity
            known["needs"] = [pattern >> i & 1 == 1 for i in range(slots)]
        if "xp" in self.extras:
            known["xp"] = array_module(raw(y[0] if isinstance(y, tuple) else y))
        if op.variadic:
            known[op.arrays[0]] = tuple(inputs)
            known[f"{op.arrays[0]}_shape"] = [np.shape(x) for x in inputs]
        else:
            for name, x in zip(op.arrays, inputs, strict=False):
                known[f"{name}_shape"] = np.shape(x)
        return tuple([known[name] for name in self.extras])

    def feed(self, values: tuple) -> list:
        """What the rules return for (g, *saved), one contribution per needed input."""
        return self.pull(values[0], values[1:])

    def slots_of(self, node: Node) -> list[int]:
        """Which input of the call each of the node's parents was."""
        if not self.op.variadic:
            return self.slots
        saved: Any = node.saved
        needs: Any = (
            saved.needs if isinstance(saved, Deferred) else saved[self.names.index("needs")]
        )
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
            values.append(value)
        return values


def _measure() -> tuple[int, int]:
    """How many plans the registered ops have made, and their bytes."""
    plans = [plan for op in registry for plan in getattr(op, "plans", {}).values()]
    return len(plans), sum(size_of_value([plan.names, plan]) for plan in plans)


report("plans of ops", _measure)  # an op of n inputs makes at most 2ⁿ − 1, a variadic one 1


def _picker(positions: list[int]) -> Callable[[Any], tuple] | None:
    """A function that takes the values at these positions, as a tuple; None for no positions."""
    if not positions:
        return None
    if len(positions) == 1:
        only = positions[0]
        return lambda values: (values[only],)
    return itemgetter(*positions)


def _written_out(op: Any, rules: list[Rule], names: tuple[str, ...]) -> Callable[[Any, Any], list]:
    """The function `pull` of a plan, as Python would be written for this op alone, and compiled.

    For a * b, whose rules are da = lambda b: b and db = lambda a: a, it is

        def pull(g, saved):
            [v0, v1] = saved
            if g.dtype.kind == "c":
                g = g.conj()
                return [(g * rule0(v0)).conj(), (g * rule1(v1)).conj()]
            return [g * rule0(v0), g * rule1(v1)]

    The rows of the table give p·g; the gradient of a real loss is conj(p)·g = conj(p·conj(g)), so
    each row is read once for real and complex numbers alike. A backward calls `pull` once a node:
    to look the names up there would cost more than most rules.
    """
    value = {"g": "g"} | {name: f"v{i}" for i, name in enumerate(names)}
    known: dict[str, Any] = {"needed": _needed}
    calls = []
    for i, rule in enumerate(rules):
        known[f"rule{i}"] = rule.fn
        call = f"rule{i}({', '.join([value[name] for name in rule.names])})"
        calls.append(f"g * {call}" if rule.partial else call)
    lines = ["def pull(g, saved):", f" [{', '.join([value[name] for name in names])}] = saved"]
    if op.joint is not None:
        lines.append(f" return needed({calls[0]}, {value['needs']})")
    else:
        if op.kind == "elementwise":
            lines.append(' if g.dtype.kind == "c":')
            lines.append("  g = g.conj()")
            lines.append(f"  return [{', '.join([f'({call}).conj()' for call in calls])}]")
        lines.append(f" return [{', '.join(calls)}]")
    exec("\n".join(lines), known)
    return known["pull"]


def _needed(given: Any, needs: list[bool]) -> list:
    """What a joint rule returned, without the places of inputs that need no gradient."""
    return [c for c, need in zip(given, needs, strict=True) if need]
