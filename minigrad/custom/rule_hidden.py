"""Rules of users' ops that may read what no graph shows, an array in a closure, say: see hidden.py.

Their plans save the values that the rules ask for and those that a trial and the error need: the
inputs that belong to a transform, and copies of small ones.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.device import to_host
from ..engine import rule as seam
from ..engine.graph import raw
from ..tensor_api.tensor import Tensor
from .hidden import SMALL, Run, hides, holds_numbers, read_outside, reads_arguments_alone, some
from .sealed import sealed, stand_in
from .shown import guarded, is_own


def may_hide(op: Any, rules: Iterable) -> bool:
    """Whether some rule of a user's may read something else than it is given."""
    if op.kind in ("linear", "multilinear") or op.variadic or "generator" in op.defaults:
        return False
    return any(not is_own(rule.fn) and not reads_arguments_alone(rule.fn) for rule in rules)


def behind_of(xs: tuple) -> tuple:
    """Of each input the tensor of a transform, or the copy of a small array; else None."""
    return tuple(
        [
            x if isinstance(x, Tensor)
            else x.copy() if getattr(x, "nbytes", SMALL + 1) <= SMALL
            else None
            for x in xs
        ]
    )  # fmt: skip


def recorded(plan: Any, node: Any, behind: tuple, tensor: Callable[[Any, Any], Any]) -> tuple:
    """The same with the node's parents as their producers."""
    values = [*behind]
    for slot, parent in zip(plan.slots, node.parents, strict=True):
        values[slot] = tensor(stand_in(parent) if values[slot] is None else values[slot], parent)
    return tuple(values)


def sealing(plan: Any, vjp: Callable) -> Callable:
    """`vjp` of such a plan: recorded gradients that hide something cannot be differentiated."""
    verdicts: dict[tuple, bool] = {}

    def run(g: Any, saved: Any) -> list:
        values = [*saved]
        behind = tuple([x for x in values[-1] if isinstance(x, Tensor)])
        hidden = behind and _hides(plan, vjp, values, verdicts)
        contributions = vjp(g, values)  # afterwards: it may take away what it has read
        if not hidden:
            return contributions
        name = plan.op.name
        what = (
            f"{name}: its rule cannot be differentiated: it reads what depends on the inputs and "
            "is neither an input nor the result (an array or number in a closure or a global), "
            "whose own derivative nobody knows. Have the rule ask for inputs and y by their names, "
            "and compute it from these"
        )
        return [
            c if c is None else sealed(type(plan.op), f"{name}.rule", what, c, behind)
            for c in contributions
        ]

    return run


def _hides(plan: Any, vjp: Callable, values: list, verdicts: dict) -> bool:
    known = dict(zip(plan.names, values, strict=True))
    params = {name: known[name] for name in plan.op.defaults}
    key = tuple([x if isinstance(x, str | int | float | None) else None for x in params.values()])
    if key not in verdicts:
        rules = [plan.op.joint] if plan.joint else plan.op.rules.values()
        if not any(holds_numbers(part) for rule in rules for part in read_outside(rule.fn)):
            return False
        xs = [raw(known.get(name, x)) for name, x in zip(plan.op.arrays, values[-1], strict=True)]
        # None, or a stand-in without strides: not kept, since it was too large
        if any(x is None or np.size(x) > 1 and not any(x.strides) for x in xs):
            return False
        verdicts[key] = hides(lambda xs: _RuleRun(plan, vjp, params, xs), [xs])
    return verdicts[key]


class _RuleRun(Run):
    """A run of the op's forward, and its rules."""

    def __init__(self, plan: Any, vjp: Callable, params: dict, xs: list):
        op, self.vjp = plan.op, vjp
        y, residuals = op.forward(*xs, **params), ()
        if op.residuals:
            y, *residuals = y
        self.ys = [np.asarray(part) for part in y] if op.outputs else [np.asarray(y)]
        y = tuple(self.ys) if op.outputs else self.ys[0]
        pattern = sum(1 << slot for slot in plan.slots)
        self.values = plan.save([*xs, y], params, residuals, pattern)
        self.visible = [name == "y" or name in op.arrays for name in plan.names]
        self.outputs = op.outputs

    def gradients(self, values: Any) -> list:
        gs = [some(y) for y in self.ys]
        given = self.vjp(gs if self.outputs else gs[0], values)
        return [None if c is None else to_host(raw(c)) for c in given]


class _Outside:
    """The interface for a plan: see engine/rule.py."""

    asked, values = staticmethod(may_hide), staticmethod(behind_of)
    recorded, sealing = staticmethod(recorded), staticmethod(sealing)


seam.outside, seam.protect = _Outside, guarded
