"""jvp: forward mode. A tangent travels with each value, through the same rules.

Elementwise ops multiply it by their partials, linear ops are applied to it, multilinear ops once
for each argument. An op with only a reverse rule gets its jvp from the vjp of its vjp. The map g ↦
Jᵀg is linear, and its transpose is t ↦ Jt.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable
from ..custom.shown import guarded
from ..engine import modes
from ..engine.errors import RuleError, about, describe
from ..engine.graph import detached, wrap
from ..engine.registry import op as ops
from ..errors import TransformError
from ..tensor_api import derivatives
from ..tensor_api.create import as_tensor
from ..tensor_api.numpy_protocol import warn_of_storing
from ..tensor_api.tensor import NO_PLAIN_ARRAY, Tensor
from . import tree
from .levels import (
    LevelTensor,
    NoLeaf,
    as_result,
    kept,
    lifted,
    lowered,
    new_level,
    require_function,
    value_of,
)
from .residuals import with_residuals
from .reverse import split_aux, warn_of_numbers

__all__ = ["jvp"]


class Dual(NoLeaf, Tensor):
    """A value and its tangent, both of a lower level; a tangent None is zero.

    Under no_grad results have none: what is constant to reverse mode is constant here.
    """

    __slots__ = ()
    has_value_below = True
    tangent = Tensor._grad  # the place of a gradient, which a dual number has not, holds it

    def detach(self) -> "Dual":
        """The value with tangent zero, a constant to the levels below too."""
        return dual(detached(self.data), None, type(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Refused where a tangent would be lost, as a tracked tensor's history is."""
        if self.tangent is not None and modes.state.recording:
            raise TypeError(
                "NumPy asks for a plain array, which would drop this tensor's tangent in silence. "
                + NO_PLAIN_ARRAY
            )
        return super().__array__(dtype, copy)

    def __float__(self) -> float:
        if self.tangent is not None and modes.state.recording:
            warn_of_storing(sys._getframe(1))
        return super().__float__()

    @classmethod
    def run_at_level(cls, mode: Any, op: Any, args: tuple, params: dict) -> None:
        """Run the op on the values and carry the tangents along."""
        cls.require_life(op)
        xs = [x.data if type(x) is cls else x for x in args]
        ts = [
            x.tangent if type(x) is cls and op.tracked >> i & 1 else None
            for i, x in enumerate(args)
        ]
        if not mode.recording or all(t is None for t in ts):
            y, ty = op(*xs, **params), None
        else:
            y, ty = _push(op, xs, ts, params)
        if isinstance(y, tuple):
            ty = ty or [None] * len(y)
            mode.result = tuple(dual(a, t, cls) for a, t in zip(y, ty, strict=True))
        else:
            mode.result = dual(y, ty, cls)


def dual(x: Any, t: Any, kind: type) -> Dual:
    """x with tangent t, both of levels below this one."""
    y = wrap(x, None, kind)
    y.tangent = t  # type: ignore[attr-defined]
    return y  # type: ignore[return-value]


def _push(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """(y, ty) of one op."""
    if op.kind == "linear":
        y = op(*xs, **params)
        # constants (an index) stay as they are: the op is linear in the rest
        pushed = [
            _or_zero(t, x) if op.tracked >> i & 1 else x
            for i, (t, x) in enumerate(zip(ts, xs, strict=True))
        ]
        return y, op(*pushed, **params)
    if op.kind == "multilinear":
        terms = [
            op(*[*xs[:i], t, *xs[i + 1 :]], **params) for i, t in enumerate(ts) if t is not None
        ]
        return op(*xs, **params), _sum(terms)
    if op.kind == "elementwise" and not op.outputs:
        return _push_elementwise(op, xs, ts, params)
    if op.jvp_rule is not None:
        return _push_by_rule(op, xs, ts, params)
    return _push_by_double_vjp(op, xs, ts, params)


def _push_elementwise(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty = Σ pᵢ tᵢ, with the partials of the calculus table."""
    y, *residuals = with_residuals(op, xs, params) if op.residuals else (op(*xs, **params),)
    known = {**op.defaults, **params, **dict(zip(op.arrays, xs, strict=True)), "y": y}
    known |= zip(op.residuals, residuals, strict=True)
    terms = []
    for name, t in zip(op.arrays, ts, strict=True):
        if t is not None:
            rule = op.rule_for(name)
            value = guarded(rule.fn)(*[t if asked == "g" else known[asked] for asked in rule.names])
            terms.append(t * value if rule.partial else value)
    ty = _sum(terms)
    if ty.shape != y.shape:
        ty = ops.broadcast_to(ty, shape=y.shape)
    return y, ops.astype(ty, dtype=y.dtype, copy=False)


def _push_by_rule(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty from the op's own jvp rule; it names inputs, y, parameters and `<input>_t` tangents."""
    y = op(*xs, **params)
    known = {**op.defaults, **params, **dict(zip(op.arrays, xs, strict=False)), "y": y}
    known |= {f"{name}_t": t for name, t in zip(op.arrays, ts, strict=False)}
    for name in op.arrays[len(xs) :]:  # optional inputs that were left out
        known[name] = known[f"{name}_t"] = None
    ty = guarded(op.jvp_rule.fn)(*[known[asked] for asked in op.jvp_rule.names])
    for i, (a, t) in enumerate(zip(y, ty) if isinstance(y, tuple) and ty else [(y, ty)]):
        if t is not None and getattr(t, "shape", None) != a.shape:
            which = f"result {i} of shape" if isinstance(y, tuple) else "a result of shape"
            raise RuleError(
                f"the jvp rule of {op.name} returned {describe(t)} as the tangent of {which} "
                f"{a.shape}; it returns exactly its result's shape, or None for zero",
                op=op.name, **about(a, t),
            )  # fmt: skip
    return y, ty


def _push_by_double_vjp(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty = d/dg ⟨vjp(g), t⟩: the vjp is linear in g, so any g does; ours is zero."""
    with new_level(LevelTensor) as kind:
        inputs = [lifted(as_tensor(x), kind) if t is not None else x for x, t in zip(xs, ts)]
        wanted = [x.requires_grad_() for x, t in zip(inputs, ts) if t is not None]
        ys = op(*inputs, **params)
        outputs = ys if isinstance(ys, tuple) else (ys,)
        push = transposed_vjp(outputs, wanted)
        pushed = push([t for t in ts if t is not None], again=False)
    if isinstance(ys, tuple):
        return tuple(y.data for y in ys), pushed
    return ys.data, pushed[0]


def transposed_vjp(ys: Any, xs: list) -> Callable:
    """t ↦ Jt for results and variables of one reverse level, inside that level.

    The vjp g ↦ Jᵀg is recorded once, at g = 0; it is linear, so its own vjp is t ↦ Jt, whatever g
    was. push(ts, again) gives a tangent for each y, None where y does not depend on the xs; again
    says that it will be called another time. Where a level above records this one, residuals that
    have no derivative (a mask) are among the ys.
    """
    kept = [i for i, y in enumerate(ys) if y.node is not None and is_differentiable(y.dtype)]
    outputs = [ys[i] for i in kept]
    gs = [wrap(np.zeros_like(y.data), None, type(y)).requires_grad_() for y in outputs]
    gradients: Any = (None,) * len(xs)
    if outputs and xs:
        gradients = derivatives.grad(outputs, xs, gs, create_graph=True, allow_unused=True)
    used = [i for i, c in enumerate(gradients) if c is not None and c.node is not None]

    def push(ts: list, again: bool) -> list:
        pushed: list = [None] * len(ys)
        if used:
            roots, seeds = [gradients[i] for i in used], [ts[i] for i in used]
            found = derivatives.grad(roots, gs, seeds, retain_graph=again, allow_unused=True)
            for i, t in zip(kept, found, strict=True):
                pushed[i] = t
        return pushed

    return push


def _or_zero(t: Any, x: Any) -> Any:
    return np.zeros_like(x) if t is None and x is not None else t


def _sum(terms: list) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def jvp(fn: Callable, primals: tuple, tangents: tuple, has_aux: bool = False) -> tuple:
    """(y, ty): y = fn(*primals) and ty = J · tangents, in one forward pass.

    Primals, tangents and y may be trees; the tangents have the primals' form and shapes. With
    has_aux, fn returns (y, aux), and jvp returns (y, ty, aux).

        >>> import minigrad as mg
        >>> mg.func.jvp(lambda x: x * x, (mg.tensor([2.0, 3.0]),), (mg.tensor([1.0, 0.0]),))
        (tensor([4., 9.]), tensor([4., 0.]))
    """
    y, ty, aux = pushed("jvp", fn, primals, tangents, has_aux)
    return (y, ty, aux) if has_aux else (y, ty)


def pushed(what: str, fn: Callable, primals: tuple, tangents: tuple, has_aux: bool) -> tuple:
    """(y, ty, aux): a jvp, its arguments checked in the name of what users have called."""
    require_function(what, fn)
    primals = one_each(what, "primals", primals)
    tangents = one_each(what, "tangents", tangents)
    if len(primals) != len(tangents):
        raise TransformError(f"{what}: {len(primals)} primals but {len(tangents)} tangents")
    xs, ts = paired(what, primals, tangents)
    return pushed_through(what, fn, tree.rebuild(primals, xs), ts, has_aux)


def one_each(name: str, what: str, values: Any) -> tuple:
    """The entries for the arguments; a tensor alone would be taken for a tuple of its rows."""
    if not isinstance(values, tuple | list):
        raise TransformError(
            f"{name}: {what} is a tuple with one entry for each argument, (x,) for x"
        )
    return tuple(values)


def paired(what: str, primals: tuple, tangents: tuple) -> tuple[list, list]:
    """The leaves of both as tensors; tangents in their primals' dtype."""
    xs: list = [value_of(what, x) for x in tree.leaves(primals)]
    ts: list = [value_of(what, t) for t in tree.matched(primals, tangents, what)]
    for i, (x, t) in enumerate(zip(xs, ts, strict=True)):
        if x.shape != t.shape:
            raise TransformError(
                f"{what}: tangents[{i}] has shape {t.shape}, its primal {x.shape}; they must agree",
                **about(x, t),
            )
        if not is_differentiable(x.dtype) or (t.dtype.kind == "c" and x.dtype.kind != "c"):
            raise TransformError(
                f"{what}: tangents[{i}], {describe(t)}, is no direction to move its primal in, "
                f"{describe(x)}; give a primal of a floating dtype (complex for a complex tangent)",
                **about(x, t),
            )
        if t.dtype != x.dtype:
            ts[i] = ops.astype(t, dtype=x.dtype)
    return xs, ts


def pushed_through(what: str, fn: Callable, primals: tuple, ts: list, has_aux: bool) -> tuple:
    """(y, ty, aux) of fn on trees of tensors whose leaves have these tangents (None for zero)."""
    with new_level(Dual) as kind:
        xs = tree.leaves(primals)
        duals = [
            dual(kept(x), None if t is None else kept(t), kind) for x, t in zip(xs, ts, strict=True)
        ]
        returned, aux = split_aux(what, fn(*tree.rebuild(primals, duals)), has_aux)
        warn_of_numbers(what, returned)
        found = [_split(what, y, kind) for y in tree.leaves(returned)]
        aux = tree.tree_map(lambda a: lowered(a, kind), aux)
    values, pushed = ([pair[i] for pair in found] for i in (0, 1))
    return tree.rebuild(returned, values), tree.rebuild(returned, pushed), aux


def _split(what: str, y: Any, kind: type) -> tuple:
    """(value, tangent) of a result; a result that does not depend on the inputs has tangent 0."""
    if type(y) is not kind:
        y = value_of(what, y)
        return y, as_result(np.zeros_like(y))
    t = np.zeros_like(y.data) if y.tangent is None else y.tangent
    return as_result(y.data), as_result(t)
