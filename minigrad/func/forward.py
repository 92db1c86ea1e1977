"""jvp: forward mode. A tangent travels with each value, through the same rules.

Elementwise ops multiply it by their partials, linear ops are applied to it, multilinear ops once
for each argument. What has only a reverse rule gets its jvp from the vjp of its vjp: the map
g ↦ Jᵀg is linear, and its own transpose is t ↦ Jt.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.create import as_tensor
from ..core.errors import TransformError
from ..core.registry import op as ops
from ..core.tensor import Tensor, wrap
from ..engine import api
from .levels import LevelTensor, as_result, lifted, new_level

__all__ = ["jvp"]


class Dual(Tensor):
    """A value and its tangent, both of a lower level; a tangent None is zero."""

    __slots__ = ("tangent",)

    def detach(self) -> "Dual":
        """The value with tangent zero."""
        return dual(self.data, None, type(self))

    @classmethod
    def run_at_level(cls, watch: Any, op: Any, args: tuple, params: dict) -> None:
        """Run the op on the values and carry the tangents along."""
        xs = [x.data if type(x) is cls else x for x in args]
        ts = [
            x.tangent if type(x) is cls and op.tracked >> i & 1 else None
            for i, x in enumerate(args)
        ]
        if all(t is None for t in ts):
            y, ty = op(*xs, **params), None
        else:
            y, ty = _push(op, xs, ts, params)
        if isinstance(y, tuple):
            ty = ty or [None] * len(y)
            watch.result = tuple(dual(a, t, cls) for a, t in zip(y, ty, strict=True))
        else:
            watch.result = dual(y, ty, cls)


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
    if op.kind == "elementwise":
        return _push_elementwise(op, xs, ts, params)
    if op.jvp_rule is not None:
        return _push_by_rule(op, xs, ts, params)
    return _push_by_double_vjp(op, xs, ts, params)


def _push_elementwise(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty = Σ pᵢ tᵢ, with the partials of the calculus table."""
    y = op(*xs, **params)
    known = {**op.defaults, **params, **dict(zip(op.arrays, xs, strict=True)), "y": y}
    terms = []
    for name, t in zip(op.arrays, ts, strict=True):
        if t is not None:
            rule = op.rule_for(name)
            value = rule.fn(*[t if asked == "g" else known[asked] for asked in rule.names])
            terms.append(t * value if rule.partial else value)
    ty = _sum(terms)
    if ty.shape != y.shape:
        ty = ops.broadcast_to(ty, shape=y.shape)
    return y, ty if ty.dtype == y.dtype else ops.astype(ty, dtype=y.dtype)


def _push_by_rule(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty from the op's own jvp rule; it names inputs, y, parameters and `<input>_t` tangents."""
    y = op(*xs, **params)
    known = {**op.defaults, **params, **dict(zip(op.arrays, xs, strict=False)), "y": y}
    known |= {f"{name}_t": t for name, t in zip(op.arrays, ts, strict=False)}
    for name in op.arrays[len(xs) :]:  # optional inputs that were left out
        known[name] = known[f"{name}_t"] = None
    return y, op.jvp_rule.fn(*[known[asked] for asked in op.jvp_rule.names])


def _push_by_double_vjp(op: Any, xs: list, ts: list, params: dict) -> tuple:
    """ty = d/dg ⟨vjp(g), t⟩: the vjp is linear in g, so any g does; ours is zero."""
    with new_level(LevelTensor) as kind:
        inputs = [lifted(as_tensor(x), kind) if t is not None else x for x, t in zip(xs, ts)]
        wanted = [x.requires_grad_() for x, t in zip(inputs, ts) if t is not None]
        ys = op(*inputs, **params)
        outputs = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.node is not None]
        gs = [wrap(np.zeros_like(y.data), None, kind).requires_grad_() for y in outputs]
        pulled = api.grad(outputs, wanted, gs, create_graph=True, allow_unused=True)
        pairs = [(c, t) for c, t in zip(pulled, [t for t in ts if t is not None]) if c is not None]
        pairs = [(c, t) for c, t in pairs if c.node is not None]
        pushed = api.grad([c for c, _ in pairs], gs, [t for _, t in pairs], allow_unused=True)
    found = dict(zip(map(id, outputs), pushed, strict=True))
    if isinstance(ys, tuple):
        return tuple(y.data for y in ys), [found.get(id(y)) for y in ys]
    return ys.data, found.get(id(ys))


def _or_zero(t: Any, x: Any) -> Any:
    return np.zeros_like(x) if t is None and x is not None else t


def _sum(terms: list) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def jvp(fn: Callable, primals: tuple, tangents: tuple, has_aux: bool = False) -> tuple:
    """(y, ty): y = fn(*primals) and ty = J · tangents, in one forward pass.

    Each tangent has its primal's shape. fn returns a tensor or a tuple of tensors; with has_aux,
    (that, aux), and jvp returns (y, ty, aux).
    """
    if len(primals) != len(tangents):
        raise TransformError(f"jvp: {len(primals)} primals but {len(tangents)} tangents")
    xs, ts = [as_tensor(x) for x in primals], [as_tensor(t) for t in tangents]
    for i, (x, t) in enumerate(zip(xs, ts, strict=True)):
        if x.shape != t.shape:
            raise TransformError(
                f"jvp: tangents[{i}] has shape {t.shape}, its primal {x.shape}; they must agree"
            )
    with new_level(Dual) as kind:
        returned = fn(*[dual(x, t, kind) for x, t in zip(xs, ts, strict=True)])
        returned, aux = returned if has_aux else (returned, None)
        several = isinstance(returned, tuple | list)
        pairs = [_split(y, kind) for y in (returned if several else [returned])]
        values = tuple(y for y, _ in pairs) if several else pairs[0][0]
        pushed = tuple(t for _, t in pairs) if several else pairs[0][1]
    return (values, pushed, aux) if has_aux else (values, pushed)


def _split(y: Any, kind: type) -> tuple:
    """(value, tangent) of a result; a result that does not depend on the inputs has tangent 0."""
    if type(y) is not kind:
        y = as_result(y)
        return y, y * 0
    t = np.zeros_like(y.data) if y.tangent is None else y.tangent
    return as_result(y.data), as_result(t)
