"""One call of a Function, as an op: see custom.py."""

from sys import getrefcount
from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable
from ..engine import modes, versions
from ..engine.errors import InPlaceError, RuleError, about, describe
from ..engine.graph import raw, record, wrap
from ..engine.plan import Rule
from ..engine.primitive import Primitive
from ..engine.rule import RESERVED
from ..modes.recording import inside_forward
from ..tensor_api.tensor import Tensor
from .function_context import Context
from .function_hidden import sample_of
from .function_plan import FunctionPlan, with_plain
from .function_transforms import InTransforms, several
from .hidden import reads_arguments_alone
from .shown import as_tensor


class FunctionCall(InTransforms, Primitive):
    """One call of a Function as an op whose arrays are the call's tensors.

    There is one object per call, since calls may have different arguments and save different
    things. A subclass, made once (`kind_of`), has everything that depends only on the class and on
    which arguments are tensors. A call may run several times (vmap runs it for each example), so
    what a run has saved belongs to its plan.
    """

    # no generated code: the op is called once
    apply = Primitive.general  # type: ignore[assignment]

    # what Primitive.__init__ sets, here the same for all calls
    constants = optional = frozenset()  # type: ignore[assignment]
    residuals: tuple = ()
    kind = when_missing = ""
    variadic = view = False
    outputs = 0
    defaults, rules, shortcuts = {}, {}, {}  # type: ignore[var-annotated]  # nobody adds to these

    # the same for all calls of a kind
    function: Any
    positions: list[int]  # of the tensors among the arguments
    others: list[int]
    argument_names: list[str]
    sets_up: bool  # whether the class has a setup_context

    plainly: bool  # whether backward and jvp can be seen to read ctx alone
    verdicts: dict  # whether they hide what they depend on: see function_hidden.py
    once: bool  # whether its backward is marked once_differentiable
    patterns: dict[int, tuple[list[int], tuple[bool, ...]]]  # see `needed`
    args: list[Any]  # None in place of each tensor

    is_over = False
    contexts: tuple[Context, ...] = ()  # of the runs so far
    plain: dict[int, Any] | None = None  # results that are not tensors, by position

    def __init__(self, args: tuple):
        recording = modes.state.recording
        given, counts, pattern, bit = [], [], 0, 1  # as a fast call has them (function_quick.py)
        for position in self.positions:
            x = args[position]
            counts.append(getrefcount(x._data))  # before anything of this call refers to it
            given.append(x)
            if x.level:
                pattern |= bit * (recording and is_differentiable(raw(x).dtype))
            elif recording and x.node is not None:
                pattern |= bit
            bit += bit
        self.given, self.counts = given, counts
        self.needs = self.needed(pattern)[1]  # as far as a forward can know
        if self.others:
            self.args = [None] * len(args)
            for i in self.others:
                self.args[i] = args[i]
                if isinstance(args[i], list | tuple):
                    self.refuse_tensors(i)

    @classmethod
    def needed(cls, pattern: int) -> tuple[list[int], tuple[bool, ...]]:
        """The numbers of the tensors that need a gradient, and for each argument whether it does.

        Worked out once for each bit pattern.
        """
        found = cls.patterns.get(pattern)
        if found is None:
            slots = [i for i in range(cls.arity) if pattern >> i & 1]
            positions = {cls.positions[slot] for slot in slots}
            found = slots, tuple([position in positions for position in range(len(cls.args))])
            cls.patterns[pattern] = found
        return found

    def refuse_tensors(self, i: int) -> None:
        """TypeError where argument i, a list or tuple, holds tensors that ask for a gradient."""
        name, x = self.argument_names[i], self.args[i]
        if any(getattr(part, "node", None) for part in x):
            raise TypeError(
                f"{self.name}: its argument {name!r} is a {type(x).__name__} of tensors that "
                f"require gradients, which would get none; pass them one by one: "
                f"{self.name}.apply(*{name})"
            )

    def run(self) -> Any:
        """What `apply` returns: the results of a call through the doorway."""
        try:
            return self.finish(self(*self.given))
        finally:
            self.forget()

    def ended(self, ctx: Context, tensors: tuple, arrays: tuple, before: int, y: Any) -> Any:
        """What `apply` returns of a fast call whose forward has returned y."""
        nodes = [x.node for x in self.given]
        y = self.settled(ctx, tensors, arrays, before, y)
        node = record(self, nodes, [*arrays, y], {}, ())
        if self.outputs:
            result = self._wrap_outputs(y, node, Tensor)
        else:
            result = wrap(y, node)
        result = self.finish(result)
        self.forget()
        return result

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
                "tape), since a Function may differ from call to call. Call the Function again"
            )
        tensors = [wrap(x) for x in arrays]
        ctx = Context(self, tensors)
        self.contexts += (ctx,)
        before = versions.last_write
        forward = self._with_setup if self.sets_up else self.function.forward
        y = inside_forward(forward, ctx, *self.filled(tensors))
        return self.settled(ctx, tensors, arrays, before, y)

    def settled(self, ctx: Context, tensors: Any, arrays: tuple, before: int, y: Any) -> Any:
        """The arrays of what forward has returned; ctx holds then what is saved, and no more."""
        if type(y) is Tensor:  # nearly always
            results, plain, ys = [y], {}, [y._data]
        else:
            results, plain = self._parted(y)
            ys = [np.asarray(a) if isinstance(a, np.generic) else a for a in map(raw, results)]
            self.outputs = len(ys) if several(y) else 0
        self._keep(plain)
        if versions.last_write != before:
            self._refuse_unmarked(ctx, tensors, before)
        # where a forward has set ctx.settle too
        if not (Context.settle(ctx, tensors, results, ys) and self.plainly) and True in self.needs:
            ctx._sample = sample_of(arrays, not self.plainly)
        if plain:
            ctx.plain_positions = tuple(plain)
        return tuple(ys) if self.outputs else ys[0]

    def _with_setup(self, ctx: Context, *args: Any) -> Any:
        y = self.function.forward(*args)
        self.function.setup_context(ctx, args, y)
        return y

    def filled(self, tensors: Any) -> list:
        """The arguments of the call with its tensors replaced by these."""
        if not self.others:
            return [*tensors]
        args = [*self.args]
        for position, x in zip(self.positions, tensors, strict=True):
            args[position] = x
        return args

    def _parted(self, y: Any) -> tuple[list, dict[int, Any]]:
        """(the tensors among the results of a forward, {position: value} of the others)."""
        results = list(y) if several(y) else [y]
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
                "for another, as {position: result that is not a tensor}; these are not batched: "
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
            ctx = self.ctx
            if not several and ctx.constant_outputs:
                ys[0].node = None
            for at, changed in ctx.dirty_outputs.items():
                x = self.given[changed]
                x._data, x.node = ys[at]._data, ys[at].node
                ys[at] = x
        return tuple(with_plain(ys, self.plain)) if several else ys[0]

    def forget(self) -> None:
        """Let go of the arrays of this call; nodes keep what they need."""
        for ctx in self.contexts:
            Context.forget(ctx)  # where a forward has set ctx.forget, that error is on its way
        self.given, self.is_over = (), True

    def _wrap_outputs(self, ys: Any, node: Any, kind: type) -> tuple:
        results = super()._wrap_outputs(ys, node, kind)
        for i in self.ctx.constant_outputs:
            results[i].node = None
        return results

    def plan_for(self, pattern: int) -> "FunctionPlan":
        return FunctionPlan(self, pattern)  # not kept: the next run may save other things


def kind_of(function: Any, pattern: tuple[bool, ...]) -> type[FunctionCall]:
    """The class of the calls of a Function with tensors where the pattern has True."""
    positions = [i for i, is_tensor in enumerate(pattern) if is_tensor]
    names = _names_of(function, len(pattern))
    known = {
        "name": function.__name__, "called": function.__name__, "__name__": function.__name__,
        "__doc__": function.__doc__, "function": function, "positions": positions,
        "arity": len(positions),
        "others": [i for i, is_tensor in enumerate(pattern) if not is_tensor],
        "argument_names": names, "arrays": tuple([names[i] for i in positions]),
        "plainly": reads_arguments_alone(function.backward) and reads_arguments_alone(function.jvp)
        if function.defines("jvp") else reads_arguments_alone(function.backward),
        "verdicts": {}, "sets_up": function.defines("setup_context"), "patterns": {},
        "args": [None] * len(pattern),
        "once": getattr(function.backward, "once_differentiable", False),
    }  # fmt: skip
    return type(function.__name__, (FunctionCall,), known)


def _names_of(function: Any, count: int) -> list[str]:
    """Names for this many arguments of a Function's forward, other than those that rules use."""
    names, starred = function._names
    names = [*names[:count], *[f"{starred}[{i}]" for i in range(count - len(names))]]
    return [f"{name}_" if name in RESERVED else name for name in names]


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
