"""A call of a Function inside transforms: its class's jvp and vmap."""

from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable
from ..engine import modes
from ..engine.errors import RuleError, about, describe
from ..engine.graph import raw
from ..engine.plan import Rule
from ..tensor_api.tensor import Tensor
from .function_hidden import hides
from .function_plan import sealed_of
from .function_runs import saved_by_runs
from .sealed import batch_in_front
from .shown import as_tensor, read_only


class InTransforms:
    """Base of FunctionCall: what forward mode and vmap ask of it."""

    name: str
    arity: int
    function: Any
    arrays: tuple[str, ...]
    positions: list[int]
    args: list[Any]
    given: Any
    needs: tuple[bool, ...]
    ctx: Any
    filled: Any
    _parted: Any
    _keep: Any

    @property
    def tracked(self) -> int:  # type: ignore[override]
        """Bit i is set where tensor i may carry a gradient."""
        bits = [is_differentiable(raw(x).dtype) << i for i, x in enumerate(self.given)]
        return sum(bits) if self.given else -1

    @property
    def jvp_rule(self) -> Rule | None:  # type: ignore[override]
        """The class's jvp, where it has one."""
        if not self.function.defines("jvp"):
            return None
        return Rule(self._push, (*self.arrays, "y", *[f"{name}_t" for name in self.arrays]))

    @property
    def batch_rule(self) -> Any:  # type: ignore[override]
        """The class's vmap, where it has one and vmap is the innermost transform.

        Below another transform the forward has to run: that one needs what it saves.
        """
        innermost = max(self.given, key=lambda x: x.level, default=None)
        vmapped = getattr(innermost, "hides_axis", False)
        return self._run_batch if vmapped and self.function.defines("vmap") else None

    def _push(self, *values: Any) -> Any:
        """The tangents of the results, by the class's jvp."""
        xs, y, ts = values[: self.arity], values[self.arity], values[self.arity + 1 :]
        saved = saved_by_runs(self, self.ctx, xs, y)
        ctx = self.ctx.at_use(saved, self.needs, forward=True)
        tangents: list[Any] = [None] * len(self.args)
        for position, x, t in zip(self.positions, xs, ts, strict=True):
            constant = t is None and is_differentiable(raw(x).dtype) and ctx._materialize
            tangents[position] = as_tensor(np.zeros_like(x) if constant else read_only(t))
        pushed = self.function.jvp(ctx, *tangents)
        is_tuple = isinstance(y, tuple)
        pushed = list(pushed) if several(pushed) else [pushed]
        ys, plain = y if is_tuple else (y,), self.ctx.plain_positions
        if len(pushed) != len(ys) + len(plain):
            raise RuleError(
                f"{self.name}.jvp returned {len(pushed)} tangents for {len(ys) + len(plain)} "
                "results; it must return one for each, None for a result that is no tensor",
                op=self.name,
            )
        pushed = [t for i, t in enumerate(pushed) if i not in plain]
        behind = tuple([v for v in (*xs, *ts) if isinstance(v, Tensor)])
        if behind and (ctx.saves_what_no_graph_shows or hides(self, self.ctx, "jvp")):
            pushed = [t if t is None else sealed_of(self.name, t, behind, "jvp") for t in pushed]
        for i, (t, part) in enumerate(zip(pushed, ys, strict=True)):
            if t is not None and i in ctx.constant_outputs:
                raise RuleError(
                    f"{self.name}.jvp returned a tangent for a result that is a constant "
                    f"({describe(part)}: of integers, or given to "
                    "ctx.mark_non_differentiable); return None for it",
                    op=self.name, **about(part, t),
                )  # fmt: skip
            if t is not None and t.shape != part.shape:
                raise RuleError(
                    f"{self.name}.jvp returned a tangent of shape {t.shape} for a result of shape "
                    f"{part.shape}; they must agree",
                    op=self.name, **about(part, t),
                )  # fmt: skip
        return pushed if is_tuple else pushed[0]

    def _run_batch(self, op: Any, xs: list, batched: list[bool], params: dict) -> Any:
        """The class's own vmap, its results with the batch axis in front."""
        size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
        in_dims: list[int | None] = [None] * len(self.args)
        for position, b in zip(self.positions, batched, strict=True):
            in_dims[position] = 0 if b else None
        kind = type(max(self.given, key=lambda x: x.level))
        info = VmapInfo(size, modes.state.randomness, kind)
        returned = self.function.vmap(info, tuple(in_dims), *self.filled(map(as_tensor, xs)))
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuleError(
                f"{self.name}.vmap must return (results, out_dims), it returned "
                f"{describe(returned)}",
                op=self.name,
            )
        y, out_dims = returned
        if not several(y):
            return self._in_front(y, out_dims, size)
        dims = out_dims if several(out_dims) else [out_dims] * len(y)
        if len(dims) != len(y):
            raise RuleError(
                f"{self.name}.vmap returned {len(y)} results and out_dims={out_dims!r}, which must "
                "be one for each, or one for all",
                op=self.name,
            )
        results, plain = self._parted(y)
        self._keep(plain)
        y, dims = results, [d for i, d in enumerate(dims) if i not in plain]
        return tuple([self._in_front(a, d, size) for a, d in zip(y, dims, strict=True)])

    def _in_front(self, y: Any, axis: Any, size: int) -> Any:
        """A result of the class's vmap with its batch axis in front, checked."""
        if not hasattr(raw(y), "dtype"):
            said = f"{self.name}.vmap must return tensors, it returned {describe(y)}"
            raise RuleError(said, op=self.name)
        if axis is not None and not (
            isinstance(axis, int) and -y.ndim <= axis < y.ndim and y.shape[axis] == size
        ):
            raise RuleError(
                f"{self.name}.vmap returned {describe(y)} with out_dims {axis!r}; it must be the "
                f"axis that counts the {size} examples, or None for a shared result",
                op=self.name, given_shape=y.shape, given_dtype=y.dtype,
            )  # fmt: skip
        return batch_in_front(y, axis, size)


def several(y: Any) -> bool:
    """Whether a forward, jvp or vmap has returned several results."""
    return isinstance(y, tuple | list)


class VmapInfo:
    """The information for a Function's vmap.

    batch_size   how many examples there are
    randomness   what the vmap says of draws: "error", "different" or "same"
    """

    def __init__(self, batch_size: int, draws: Any, kind: type):
        while draws.kind is not kind:  # of a vmap around the one that runs, or inside it
            draws = draws.outer
        self.batch_size, self.randomness = batch_size, draws.policy
