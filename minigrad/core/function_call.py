"""One call of a Function, as an op of its own: see custom.py."""

from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable
from . import modes, versions
from .errors import InPlaceError, RuleError, about, describe
from .function_context import Context, refuse_taken
from .function_plan import FunctionPlan, as_tensor, batch_in_front, with_plain
from .inplace import seen_by_x_alone
from .plan import Rule
from .primitive import Primitive
from .rules import RESERVED
from .tensor import Tensor, raw, wrap


class FunctionCall(Primitive):
    """One call of a Function as an op whose arrays are the call's tensors.

    There is one object per call, since calls may have different arguments and save different
    things. It may still run several times (vmap runs it for each example), so what a run has saved
    belongs to its plan.
    """

    # no generated code: the op is called once
    apply = Primitive.general  # type: ignore[assignment]

    # what Primitive.__init__ sets, here the same for all calls
    constants = optional = frozenset()  # type: ignore[assignment]
    residuals: tuple = ()
    kind = when_missing = ""
    variadic = view = False
    jvp_rule = batch_rule = None
    outputs = 0
    defaults, rules, shortcuts = {}, {}, {}  # type: ignore[var-annotated]  # nobody adds to these

    def __init__(self, function: Any, args: tuple):
        self.name = self.__name__ = self.called = function.__name__
        self.__doc__ = function.__doc__
        self.function = function
        self.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        self.args = [None if isinstance(x, Tensor) else x for x in args]
        self.given: list[Any] = [args[i] for i in self.places]
        self.argument_names = names = _names_of(function, len(args))
        for name, x in zip(names, args, strict=True):
            if isinstance(x, (list, tuple)) and any(getattr(part, "node", None) for part in x):
                raise TypeError(
                    f"{self.name}: its argument {name!r} is a {type(x).__name__} of tensors that "
                    f"require gradients, which would get none; pass them one by one: "
                    f"{self.name}.apply(*{name})"
                )
        self.arrays = tuple([names[i] for i in self.places])
        self.arity = len(self.places)
        self.tracked = 0
        for i, x in enumerate(self.given):
            if is_differentiable(raw(x).dtype):
                self.tracked |= 1 << i
        self.is_over = False
        self.needs = self._needs()
        self.contexts: list[Context] = []  # of the runs so far
        self.plain: dict[int, Any] | None = None  # results that are not tensors, by place
        self.alone = [x.level == 0 and seen_by_x_alone(x) for x in self.given]
        if function.defines("jvp"):
            names = (*self.arrays, "y", *[f"{name}_t" for name in self.arrays])
            self.jvp_rule = Rule(self._push, names)
        if function.defines("vmap"):
            innermost = max(self.given, key=lambda x: x.level, default=None)
            if getattr(innermost, "hides_axis", False):
                # below another transform the forward has to run: that one needs what it saves
                self.batch_rule, self.batched = self._run_batch, type(innermost)

    @property
    def joint(self) -> Rule:  # type: ignore[override]
        """For listings; FunctionPlan runs it."""
        return Rule(self.function.backward, ("ctx", "g"))

    # -- forward -----------------------------------------------------------------------------

    def forward(self, *arrays: Any) -> Any:  # type: ignore[override]
        """Run the class's forward on plain arrays, and record what it asks to be saved."""
        if self.is_over:
            raise RuntimeError(
                f"this call of {self.name} is over and cannot run again by itself (in a compiled "
                "tape): what a Function does may differ from call to call. Call it anew"
            )
        function, tensors = self.function, [wrap(x) for x in arrays]
        args = self.filled(tensors)
        ctx = Context(self.name, self.needs, tensors, list(zip(self.given, self.alone)))
        self.contexts.append(ctx)
        before = versions.last_write
        with modes.inside_forward:
            if function.defines("setup_context"):
                y = function.forward(*args)
                function.setup_context(ctx, tuple(args), y)
            else:
                y = function.forward(ctx, *args)
        refuse_taken(ctx)
        results, plain = self._parted(y)
        self._keep(plain)
        ctx.plain_places = tuple(plain)
        ys = [np.asarray(a) if isinstance(a, np.generic) else a for a in map(raw, results)]
        self.outputs = len(ys) if _several(y) else 0
        if versions.last_write != before:
            self._refuse_unmarked(ctx, tensors, before)
        ctx.settle(tensors, results, ys)
        return tuple(ys) if self.outputs else ys[0]

    def filled(self, tensors: Any) -> list:
        """The arguments of the call with these tensors instead of its own."""
        args = [*self.args]
        for place, x in zip(self.places, tensors, strict=True):
            args[place] = x
        return args

    def _needs(self) -> list[bool]:
        """Which arguments may need a gradient, as far as a forward can know."""
        recording = modes.state.recording
        needs = [False] * len(self.args)
        for i, (place, x) in enumerate(zip(self.places, self.given, strict=True)):
            needs[place] = bool(
                recording and self.tracked >> i & 1 and (x.level or x.requires_grad)
            )
        return needs

    def _parted(self, y: Any) -> tuple[list, dict[int, Any]]:
        """(the tensors among the results of a forward, {position: value} of the others)."""
        results = list(y) if _several(y) else [y]
        plain = {i: part for i, part in enumerate(results) if not hasattr(raw(part), "dtype")}
        for i, part in plain.items():
            if _holds_tensors(part):
                raise TypeError(
                    f"{self.name}.forward returned a {type(part).__name__} that holds tensors as "
                    f"result {i}; they would get no gradient: return them one by one"
                )
        if len(plain) == len(results):
            raise TypeError(
                f"{self.name}.forward returned {describe(y)}, in which no result is a tensor: "
                "nothing could be differentiated. A number is one as mg.tensor(number)"
            )
        return [part for i, part in enumerate(results) if i not in plain], plain

    def _keep(self, plain: dict[int, Any]) -> None:
        """Keep the results that are not tensors; runs for several examples must give the same."""
        if self.plain is None:
            self.plain = plain
        elif not _equal(plain, self.plain):
            raise RuleError(
                f"{self.name}.forward returned {plain} for one example of vmap and {self.plain} "
                "for another, as {place: result that is not a tensor}; these are not batched: "
                "return tensors, or the same for every example",
                op=self.name,
            )

    def _refuse_unmarked(self, ctx: Context, tensors: list, before: int) -> None:
        for name, x in zip(self.arrays, tensors, strict=True):
            if x._data.size and not ctx.is_dirty(x) and versions.written_after(x._data, before):
                raise InPlaceError(
                    f"{self.name}.forward changed its argument {name!r}, {describe(x)}, in place "
                    f"without saying so: call ctx.mark_dirty({name}) and return it, or change a "
                    "copy",
                    op=self.name, argument=name, **about(x),
                )  # fmt: skip

    @property
    def ctx(self) -> Context:
        """The context of the last run."""
        return self.contexts[-1]

    def finish(self, results: Any) -> Any:
        """What `apply` returns; for an argument changed in place, the caller's own tensor."""
        several = isinstance(results, tuple)
        ys = [as_tensor(y) for y in (results if several else (results,))]
        if self.contexts:  # not where the class's vmap ran in place of the forward
            if not several and self.ctx.constant_outputs:
                ys[0].node = None
            for at, changed in self.ctx.dirty_outputs.items():
                x = self.given[changed]
                x._data, x.node = ys[at]._data, ys[at].node
                ys[at] = x
        return tuple(with_plain(ys, self.plain)) if several else ys[0]

    def forget(self) -> None:
        """Let go of the arrays of this call; nodes keep what they need."""
        for ctx in self.contexts:
            Context.forget(ctx)  # where a forward has set ctx.forget, that error is on its way
        self.given, self.is_over = [], True
        self.jvp_rule = self.batch_rule = None

    def _wrap_outputs(self, ys: Any, node: Any, kind: type) -> tuple:
        results = super()._wrap_outputs(ys, node, kind)
        for i in self.ctx.constant_outputs:
            results[i].node = None
        return results

    def plan_for(self, pattern: int) -> "FunctionPlan":
        return FunctionPlan(self, pattern)  # not kept: the next run may save other things

    # -- forward mode and vmap ---------------------------------------------------------------

    def _push(self, *values: Any) -> Any:
        """The tangents of the results, by the class's jvp."""
        xs, y, ts = values[: self.arity], values[self.arity], values[self.arity + 1 :]
        ctx = self.ctx.at_use(self.ctx.looked_up(xs, y), self.needs, forward=True)
        tangents: list[Any] = [None] * len(self.args)
        for i, (place, x, t) in enumerate(zip(self.places, xs, ts, strict=True)):
            constant = t is None and self.tracked >> i & 1 and ctx._materialize
            tangents[place] = as_tensor(np.zeros_like(x) if constant else t)
        pushed = self.function.jvp(ctx, *tangents)  # type: ignore[attr-defined]
        several = isinstance(y, tuple)
        pushed = list(pushed) if several and _several(pushed) else [pushed]
        ys, plain = y if several else (y,), self.ctx.plain_places
        if len(pushed) != len(ys) + len(plain):
            raise RuleError(
                f"{self.name}.jvp returned {len(pushed)} tangents for {len(ys) + len(plain)} "
                "results; it must return one for each, None for what is not a tensor",
                op=self.name,
            )
        pushed = [t for i, t in enumerate(pushed) if i not in plain]
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
        return pushed if several else pushed[0]

    def _run_batch(self, op: Any, xs: list, batched: list[bool], params: dict) -> Any:
        """The class's own vmap, its results with the batch axis in front."""
        size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
        in_dims: list[int | None] = [None] * len(self.args)
        for place, b in zip(self.places, batched, strict=True):
            in_dims[place] = 0 if b else None
        info = VmapInfo(size, modes.state.randomness, self.batched)
        returned = self.function.vmap(info, tuple(in_dims), *self.filled(map(as_tensor, xs)))  # type: ignore[attr-defined]
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuleError(
                f"{self.name}.vmap must return (results, out_dims), it returned "
                f"{describe(returned)}",
                op=self.name,
            )
        y, out_dims = returned
        if not _several(y):
            return self._in_front(y, out_dims, size)
        dims = out_dims if _several(out_dims) else [out_dims] * len(y)
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
                f"axis that counts the {size} examples, or None for what is the same for all",
                op=self.name, given_shape=y.shape, given_dtype=y.dtype,
            )  # fmt: skip
        return batch_in_front(y, axis, size)


class VmapInfo:
    """What a Function's vmap is told.

    batch_size   how many examples there are
    randomness   what the vmap says of draws: "error", "different" or "same"
    """

    def __init__(self, batch_size: int, draws: Any, kind: type):
        while draws.kind is not kind:  # of a vmap around the one that runs, or inside it
            draws = draws.outer
        self.batch_size, self.randomness = batch_size, draws.policy


def _names_of(function: Any, count: int) -> list[str]:
    """Names for this many arguments of a Function's forward, other than those that rules use."""
    names, starred = function._names
    names = [*names[:count], *[f"{starred}[{i}]" for i in range(count - len(names))]]
    return [f"{name}_" if name in RESERVED else name for name in names]


def _several(y: Any) -> bool:
    return isinstance(y, tuple | list)


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError):  # arrays in a container
        return False


def _holds_tensors(value: Any, depth: int = 3) -> bool:
    """Whether a list, tuple, dict or set holds a tensor, searched to this depth."""
    if not isinstance(value, list | tuple | dict | set) or not depth:
        return isinstance(value, Tensor)
    parts = value.values() if isinstance(value, dict) else value
    return any(_holds_tensors(part, depth - 1) for part in parts)
