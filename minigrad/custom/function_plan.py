"""The plan of a Function: the values that one run saves; the call and check of its backward."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine import modes, versions
from ..engine.errors import InPlaceError, RuleError, describe
from ..engine.graph import detached, port_of, raw
from ..engine.primitive import Primitive
from ..engine.registry import op as ops
from ..modes.recording import no_grad
from ..tensor_api.tensor import Tensor
from .function_hidden import hides
from .function_runs import saved_by_runs
from .sealed import sealed, stand_in
from .shown import as_tensor, read_only, returned


class FunctionPlan:
    """The Plan of a Function: the values that one run saves, and the call of its backward.

    hidden   whether the gradients depend on the inputs in ways that are not recorded, so that
             differentiating them again would give wrong numbers and is made an error; None before
             it is asked for the first time (hidden.py)
    behind   whether the last of the saved values is a tuple of inputs of a lower level, which may
             be tracked there
    """

    __slots__ = ("op", "ctx", "slots", "needs", "shapes_in", "results", "hidden", "behind")
    joint, reached, blocked_vjp = True, None, None

    def __init__(self, op: Any, pattern: int):
        self.op, self.ctx = op, op.contexts[-1]
        self.slots, self.needs = op.needed(pattern)
        known = op.once or self.ctx.saves_what_no_graph_shows
        self.hidden = True if known else False if self.ctx._sample is None else None

    def restricted(self, reached: tuple[bool, ...]) -> "FunctionPlan":
        """The same plan: the class's backward computes all gradients, and may skip by `needs`."""
        return self

    def slots_of(self, node: Any) -> list[int]:
        """For each of the node's parents, which tensor of the call it was."""
        return self.slots

    def apply_rules(self, values: tuple) -> list:
        """The contributions for (g, *saved)."""
        return self.vjp(values[0], values[1:])

    @property
    def names(self) -> tuple[str, ...]:
        """What `Node.saved` holds, in order."""
        names = tuple([self._name(position) for position in self.ctx.saved_roles])
        return (*names, "depends on") if self.behind else names

    def _name(self, position: tuple) -> str:
        kind, i = position
        if kind == "output":
            return f"y[{i}]" if self.op.outputs else "y"
        return self.op.arrays[i] if kind == "input" else f"saved_tensors[{i}]"

    def save(self, arrays: list, params: dict, residuals: Any, pattern: int) -> tuple:
        *inputs, y = arrays
        self.shapes_in = [x.shape for x in inputs]
        if self.op.outputs:
            self.results = [(part.shape, raw(part).dtype) for part in y]
        runs = len(self.op.contexts) > 1
        saved = (
            saved_by_runs(self.op, self.ctx, inputs, y) if runs else self.ctx.looked_up(inputs, y)
        )
        self.behind = self.hidden is not False and any(isinstance(x, Tensor) for x in inputs)
        return (
            (*saved, tuple([x for x in inputs if isinstance(x, Tensor)])) if self.behind else saved
        )

    def recorded(self, node: Any, tensor: Callable[[Any, Any], Any]) -> list:
        producers = dict(zip(self.slots, node.parents, strict=True))
        values = list(node.saved)
        for at, (kind, i) in enumerate(self.ctx.saved_roles):
            if kind == "output":
                values[at] = tensor(
                    values[at], port_of(node, i, values[at]) if self.op.outputs else node
                )
            elif kind == "input" and i in producers:
                values[at] = tensor(values[at], producers[i])
        if self.hides():
            lower = values.pop() if self.behind else ()
            values.append((*lower, *[tensor(stand_in(p), p) for p in node.parents]))
        return values

    def hides(self) -> bool:
        """`hidden`, found out if need be."""
        if self.hidden is None:
            self.hidden = hides(self.op, self.ctx)
        return self.hidden

    def vjp(self, g: Any, saved: Any) -> list:
        """The class's backward for g and what was saved: one contribution per needed input."""
        op, saved = self.op, [*saved]
        if self.ctx.constant_outputs and not op.outputs:
            return [None] * len(self.slots)
        # where hidden, gradients are detached, and differentiating them is made an error (sealed)
        behind = saved.pop() if len(saved) > len(self.ctx.saved_roles) else ()
        gs = self._materialized(g) if op.outputs else [g]
        recorded = any(isinstance(v, Tensor) for v in (*gs, *saved))
        cut = (recorded or len(behind) > 0) and self.hides()
        recorded = recorded or cut
        apart = not recorded or self.op.once  # from g too
        ctx = self.ctx.at_use([detached(v) for v in saved] if cut else saved, self.needs)
        seen = [detached(v) for v in gs] if apart else gs
        shown = [as_tensor(read_only(v)) for v in seen]
        before = versions.last_write
        given = self._backward(
            ctx, with_plain(shown, dict.fromkeys(self.ctx.plain_positions)), apart
        )
        if versions.last_write != before:
            self._refuse_written(seen, before)
        contributions = returned(self._checked(given), shown, seen)
        if cut:
            if self.op.once:
                behind = (*behind, *[v for v in gs if isinstance(v, Tensor)])
            return [c if c is None else sealed_of(op.name, c, behind) for c in contributions]
        return contributions if recorded else [raw(c) for c in contributions]

    def _backward(self, ctx: Any, cotangents: list, apart: bool) -> Any:
        if not apart or not modes.state.recording:
            return self.op.function.backward(ctx, *cotangents)
        with no_grad():
            return self.op.function.backward(ctx, *cotangents)

    def _refuse_written(self, gs: list, before: int) -> None:
        """An error where backward has changed a cotangent: possible on a GPU (see read_only)."""
        for g in gs:
            if g is not None and versions.written_after(raw(g), before):
                raise InPlaceError(
                    f"{self.op.name}.backward changed the gradient that it was given, "
                    f"{describe(g)}, in place; other branches of the graph may have the same. "
                    "Begin with g = g.copy()"
                )

    def _materialized(self, gs: list) -> list:
        """Zeros in place of cotangents that did not come, unless the forward said not to."""
        if not self.ctx._materialize:
            return [*gs]
        known = next(raw(g) for g in gs if g is not None)
        return [
            array_module(known).zeros(shape, dtype) if g is None else g
            for g, (shape, dtype) in zip(gs, self.results, strict=True)
        ]

    def _checked(self, given: Any) -> list:
        """The gradients of the inputs that need one, of the right number, kind and shape."""
        op = self.op
        given = list(given) if isinstance(given, tuple | list) else [given]
        count = len(given)
        while len(given) > len(op.args) and given[-1] is None:
            given.pop()
        if len(given) != len(op.args):
            raise RuleError(
                f"{op.name}.backward returned {count} gradients; it must return "
                f"{len(op.args)}, one for each argument of forward "
                f"({', '.join(op.argument_names)}), None for one without a gradient",
                op=op.name,
            )
        for position, c in enumerate(given):
            if c is not None and position not in op.positions:
                raise RuleError(
                    f"{op.name}.backward returned a gradient for {op.argument_names[position]!r}, "
                    "which is not a tensor; return None for it",
                    op=op.name, argument=op.argument_names[position], given_shape=np.shape(c),
                )  # fmt: skip
        return [self._conforming(given[op.positions[slot]], slot) for slot in self.slots]

    def _conforming(self, c: Any, slot: int) -> Any:
        if c is None:
            return None
        c = np.asarray(c) if isinstance(c, int | float | complex | np.generic) else c
        name, shape = self.op.arrays[slot], self.shapes_in[slot]
        given = getattr(c, "shape", None)
        if given == shape:
            return c
        if given is None or not _broadcasts(shape, given):
            raise RuleError(
                f"{self.op.name}.backward returned {describe(c)} as the gradient of {name!r}, "
                f"whose shape is {shape}; a gradient has its argument's shape, or one that the "
                "argument broadcasts to, and is summed then",
                op=self.op.name, argument=name, shape=shape, given_shape=given,
            )  # fmt: skip
        unit = (1,) * (len(given) - len(shape)) + shape
        axes = tuple([i for i, n in enumerate(unit) if n != given[i]])
        return ops.reshape(ops.sum(c, axis=axes, keepdims=True), shape=shape)


def _broadcasts(shape: tuple, to: tuple) -> bool:
    """Whether arrays of this shape broadcast to the other, by NumPy's rules."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def with_plain(tensors: list, plain: dict[int, Any] | None) -> list:
    """All results of a forward, or cotangents for them, with non-tensors back in their places."""
    parts = [*tensors]
    for position, part in sorted((plain or {}).items()):
        parts.insert(position, part)
    return parts


def sealed_of(name: str, c: Any, behind: tuple, rule: str = "backward") -> Tensor:
    """A gradient (or tangent) of a Function that cannot be differentiated again."""
    what = (
        f"{name}.{rule} cannot be differentiated: it is marked once_differentiable, or reads "
        "what depends on the arguments and is neither an argument nor a result of forward (a "
        "floating tensor given to ctx.save_for_backward; an array or number that forward left "
        "on ctx, in a closure or a global), whose own derivative nobody knows. Compute it "
        "again in backward, or return it as a further result; keep a true constant as "
        "ctx.name = value. In forward mode, give the class a static method jvp(ctx, *ts)"
    )
    return sealed(Primitive, f"{name}.{rule}", what, c, behind)
