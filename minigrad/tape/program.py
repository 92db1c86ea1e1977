"""A compiled tape: the recorded forward and its backward, replayed on other inputs.

compile_program runs the recorded forward once more on traced arrays (trace.py). Then it runs the
engine's own walk, backward.run, with the rules on traced arrays. The result is one flat list of
NumPy calls, whose results get memory in buffers.py. A call of the program copies the inputs into
their buffers and makes those calls; no node, tensor or graph exists while it runs.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..backends import device, random
from ..backends.dtypes import weak_scalars
from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..custom.function_call import FunctionCall
from ..engine import backward, graph
from ..engine.backward import BackwardRun
from ..engine.errors import about, describe
from ..engine.graph import raw
from ..errors import TapeError
from ..modes import hook_runner
from ..tensor_api import derivatives
from ..tensor_api.tensor import Tensor
from .buffers import Runner, owned
from .record import Entry, Outside, Record, Value
from .trace import Source, Trace, Traced, Untraceable, may_share, parts_of

__all__ = ["Program"]


class Program:
    """A recorded computation as a function of arrays: `value, gradients = program(x, w)`.

    It takes one array (or tensor) for each of the `inputs` of tape.compile, of the recorded shape
    and dtype. It returns arrays: the value of the output (a tuple of several), or with `wrt` the
    pair (value, gradients). They have the form in which `outputs` and `wrt` were given. They have
    the bits of the eager run on these inputs, if these have the memory layout of the recorded ones.

    The tape does not have Python's steps between the ops: the branch that was taken is taken again,
    and numbers read from tensors stay the same. Other leaves and constants are read at the time of
    the call. Random ops draw new numbers. Calls from several threads run one after the other.
    """

    def __init__(
        self, runner: Runner, inputs: list[Outside], leaves: list[Outside], form: Callable
    ):
        self._runner = runner
        self._inputs = inputs
        self._leaves = leaves
        self._form = form
        self._lock = Lock()

    def __call__(self, *inputs: Any) -> Any:
        arrays = [raw(x) for x in inputs]
        self._check(arrays)
        with self._lock:
            return self._form(self._runner.run(arrays))

    def _check(self, arrays: list) -> None:
        if len(arrays) != len(self._inputs):
            raise TapeError(f"this program takes {len(self._inputs)} inputs, got {len(arrays)}")
        for i, (x, known) in enumerate(zip(arrays, self._inputs, strict=True)):
            if getattr(x, "shape", None) != known.shape or x.dtype != known.dtype:
                raise TapeError(
                    f"inputs[{i}] is {describe(x)}, it was {describe(known.array)} when the tape "
                    "was recorded; a program runs on the shapes and dtypes that it was recorded "
                    "with. Record another tape for others.",
                    **about(known, x),
                )
        for leaf in self._leaves:
            if leaf.tensor is not None and leaf.tensor.data is not leaf.array:
                raise TapeError(
                    f"the leaf {describe(leaf.array)} was given another array since the recording "
                    "(x.data = ...). Change it in place, or name it among `inputs`."
                )

    def __len__(self) -> int:
        """The number of its calls, each of a NumPy function or of a run of functions in blocks."""
        return len(self._runner)

    @property
    def nbytes(self) -> int:
        """Bytes of its buffers."""
        return self._runner.nbytes

    def __repr__(self) -> str:
        return f"<Program of {len(self):,} calls, {self.nbytes:,} bytes of buffers>"

    def listing(self, limit: int = 60) -> str:
        """Its calls, one in each line. There `b3` is a buffer, `t7` a new array, `i0` an input, and
        `s5` exists only for one block at a time.
        """
        return self._runner.listing(limit)

    __str__ = listing


def compile_program(
    tape: Record,
    outputs: Any,
    inputs: Sequence[Any],
    wrt: Any,
    grad_outputs: Any,
    allow_unused: bool,
    copy: bool,
) -> Program:
    """See Tape.compile."""
    roots = derivatives.listed(outputs)
    listed = derivatives.listed(inputs) if isinstance(inputs, Tensor) else list(inputs)
    given = [_outside(tape, x, i) for i, x in enumerate(listed)]
    _refuse_writes(tape)
    compiler = Compiler(tape, roots, given)
    wanted = (
        None if wrt is None else [derivatives.vertex_of(x, "wrt") for x in derivatives.listed(wrt)]
    )
    ends = [compiler.known[tape.find(root)] for root in roots]
    if wanted is not None:
        ends += compiler.backward(roots, wanted, grad_outputs, allow_unused)
    one, one_wrt = isinstance(outputs, Tensor), isinstance(wrt, Tensor)

    def form(arrays: list) -> Any:
        values, gs = tuple(arrays[: len(roots)]), tuple(arrays[len(roots) :])
        value = values[0] if one else values
        return value if wrt is None else (value, gs[0] if one_wrt else gs)

    runner = Runner(compiler.trace, [compiler.known.get(x) for x in given], ends, copy)
    compiler.trace.forget()
    leaves = [x for x in compiler.known if isinstance(x, Outside) and x not in given]
    return Program(runner, given, leaves, form)


def _outside(tape: Record, x: Any, i: int) -> Outside:
    found = tape.find(x)
    if not isinstance(found, Outside):
        what = "was made on the tape" if found is not None else "was not used on the tape"
        raise TapeError(
            f"compile: inputs[{i}], {describe(x)}, {what}; inputs are leaves and constants that "
            "the recorded ops took from outside"
        )
    return found


class Compiler:
    """One compilation: the trace, and the traced array of each Value and Outside of the tape."""

    def __init__(self, tape: Record, roots: list, given: list[Outside]):
        self.tape = tape
        self.trace = Trace()
        self.known: dict[Any, Traced] = {}
        self.residuals: dict[Entry, tuple] = {}
        entries, outside = _needed(tape, roots)
        _refuse_functions(entries)
        _refuse_views(outside, given)
        for x in dict.fromkeys([*given, *outside]):
            array = owned(x.array) if x in given else x.array
            self.known[x] = self.trace.value(array, True)
        for entry in entries:
            with _generators_kept(entry):
                self.forward(entry)

    def argument(self, x: Any) -> Any:
        return self.known[x] if isinstance(x, Value | Outside) else x

    def param(self, x: Any) -> Any:
        """A static parameter; arrays in it that the tape has made are computed again."""
        found = self.tape.find(x) if hasattr(x, "strides") or isinstance(x, Tensor) else None
        if found is None:
            return x
        return self.known[found] if found in self.known else raw(x)

    def forward(self, entry: Entry) -> None:
        """The steps of one recorded call."""
        op, mark = entry.op, len(self.trace.steps)
        args = self._operands(entry)
        names, count = list(entry.params), len(args)
        function = op.forward

        def run(*values: Any) -> Any:
            params = dict(zip(names, values[count:], strict=True))
            return function(*values[:count], **params)

        def check(y: Any, values: list) -> None:
            _require_computed(values, y[0] if op.residuals else y)

        params = [_deep(value, self.param) for value in entry.params.values()]
        pure = "generator" not in op.defaults
        y = self.follow(run, [*args, *params], entry, pure, check, "forward")
        if op.residuals:
            y, *residuals = y
            self.residuals[entry] = tuple(residuals)
        for value, made in zip(entry.outputs, y if op.outputs else (y,), strict=True):
            if made.shape != value.shape or made.dtype != value.dtype:
                raise TapeError(
                    f"compile: {entry!r} gave {describe(made.array)} when it ran again, and "
                    f"{value.dtype} {value.shape} before: it does not repeat",
                    op=entry.op.name, **about(value, made.array),
                )  # fmt: skip
            self.known[value] = self.trace.settle(made)
        self.belong(mark, entry, "forward")

    def belong(self, mark: int, entry: Entry, part: str) -> None:
        """Note the recorded call that the steps from `mark` on compute."""
        source = Source(entry.op.name, part, entry.origin)
        for step in self.trace.steps[mark:]:
            step.source = source

    def follow(
        self, fn: Callable, args: list, entry: Entry, pure: bool,
        check: Callable[[Any, list], None], part: str,
    ) -> Any:  # fmt: skip
        arrays = [x.array for x in parts_of(args, Traced)]
        if any(device.at(x) is not device.HERE for x in arrays):
            raise TapeError(
                f"compile: {entry!r} has an array of a GPU that is not the current one, and a "
                "program runs on one GPU; run the ops of the other GPUs outside it",
                op=entry.op.name,
            )
        if any(device.device_of(x) != "cpu" for x in arrays):
            # on a GPU an op is one or a few kernels; traced, each NumPy call would be a kernel
            result = self.trace.call("call", fn, args, {}, entry.op.name)
            step = self.trace.steps[-1]
            step.draws, step.whole = not pure, (entry.op, part)
            return result
        try:
            params = tuple(entry.params.values())
            return self.trace.follow(fn, args, entry.op.name, pure, params, check)
        except Untraceable as error:
            said = f"compile: {entry!r} cannot be replayed: {error}"
            raise TapeError(said, op=entry.op.name) from error

    def backward(
        self, roots: list, vertices: list, grad_outputs: Any, allow_unused: bool
    ) -> list[Traced | None]:
        """The steps of the walk; returns the gradients of the vertices, None where none arrived."""
        seeds = derivatives.seeds_of(roots, grad_outputs, False)
        order = self.tape.order(seeds)
        if graph.hook_count and hook_runner.any_in(order):
            raise TapeError(
                "compile: the backward passes nodes with hooks, and a program runs no hooks. "
                "Remove them, or use mg.grad."
            )
        if self.tape.packed:
            raise TapeError(
                "compile: this tape was recorded under saved_tensors_hooks, which a program does "
                "not run. Record it outside of them."
            )
        wanted, found = set(vertices), {}
        needed = backward.needed_for(order, wanted)
        cotangents = {vertex: self._seed(g) for vertex, g in seeds.items()}
        keep = found.__setitem__
        backward.run(
            order, BackwardRun(order, cotangents, keep, wanted, needed, release=False), self.vjp
        )
        missing = [vertex for vertex in vertices if vertex not in found]
        if missing and not allow_unused:
            raise ValueError(
                f"compile: the outputs do not depend on {missing[0]!r} of `wrt`. Pass "
                "allow_unused=True to get None for it."
            )
        return [found.get(vertex) for vertex in vertices]

    def _seed(self, g: Any) -> Traced:
        """A cotangent: one of the inputs, or a constant."""
        found = self.tape.find(g)
        if isinstance(found, Outside) and found in self.known:
            return self.known[found]
        seed = self.trace.value(owned(raw(g)), True)
        self.trace.seeds.add(seed.value)
        return seed

    def vjp(self, node: Any, g: Any, plan: Any) -> Any:
        """backward.array_vjp, on the values that the replayed forward would have saved."""
        entry, mark = self.tape[self.tape.outputs_of(node)[0].entry], len(self.trace.steps)
        saved = self._saved(entry, plan)
        arrived = g if isinstance(g, list) else [g]
        apply_rules = backward.rule_runner_for(next(x.array for x in arrived if x is not None))

        def run(*values: Any) -> Any:
            return apply_rules(plan, values)

        def check(gs: Any, values: list) -> None:
            _require_computed(values, gs)

        gs = self.follow(run, [g, *saved], entry, True, check, "rules")
        self.belong(mark, entry, "rules")
        return gs

    def _operands(self, entry: Entry) -> list:
        """The call's operands as an eager call has them: weak scalars cast for 16-bit floats."""
        args = [self.argument(x) for x in entry.inputs]
        real = weak_scalars([x.array if type(x) is Traced else x for x in args])
        return [x if type(x) is Traced else y for x, y in zip(args, real, strict=True)]

    def _saved(self, entry: Entry, plan: Any) -> tuple:
        """The values that an eager call would have saved, as traced arrays."""
        arrays = self._operands(entry)
        ys = tuple([self.known[value] for value in entry.outputs])
        arrays.append(ys if entry.op.outputs else ys[0])
        if plan.save is None:
            return ()
        params = {name: _deep(value, self.param) for name, value in entry.params.items()}
        return plan.save(arrays, params, self.residuals.get(entry, ()), entry.pattern)


def _require_computed(values: list, wanted: Any) -> None:
    """Untraceable if one of the wanted arrays is not computed from traced ones, such as a table
    that the op keeps. The whole call then becomes one step."""
    if any(True for _ in parts_of(values, Traced)) and any(
        True for _ in parts_of(wanted, np.ndarray)
    ):
        raise Untraceable("it returned an array that existed before the call")


def _deep(value: Any, fn: Callable) -> Any:
    """fn of each array or tensor in nested tuples and lists; `value` itself if nothing changed."""
    if type(value) in (tuple, list):
        parts = [_deep(part, fn) for part in value]
        same = all(a is b for a, b in zip(parts, value, strict=True))
        return value if same else type(value)(parts)
    return fn(value)


def _needed(tape: Record, roots: list) -> tuple[list[Entry], list[Outside]]:
    """(entries in order, arrays from outside) that the roots depend on."""
    for root in roots:
        if tape.find(root) is None:
            raise TapeError(f"compile: the output {describe(root)} was not made on this tape")
    asked = {tape.find(root) for root in roots}
    entries = []
    for entry in reversed(list(tape)):
        draws = "generator" in entry.op.defaults  # kept: later draws then equal the eager run's
        if draws or any(value in asked for value in entry.outputs):
            entries.append(entry)
            asked.update(x for x in entry.inputs if isinstance(x, Value | Outside))
            for value in entry.params.values():
                _deep(value, lambda x: asked.add(tape.find(x)) if _may_be_known(x) else None)
    entries.reverse()
    return entries, sorted([x for x in asked if isinstance(x, Outside)], key=lambda x: x.number)


def _may_be_known(x: Any) -> bool:
    return isinstance(x, Tensor) or hasattr(x, "strides") and hasattr(x, "shape")


def _refuse_writes(tape: Record) -> None:
    if tape.written:
        raise TapeError(
            "compile: memory was written in place while the tape recorded (x += v on an untracked "
            "tensor, an optimizer's step), which a program would not repeat. Record only what "
            "leads from the inputs to the outputs, and write outside of it."
        )


def _refuse_functions(entries: list[Entry]) -> None:
    """TapeError for a call of a Function: its steps may differ at each call."""
    call = next((entry for entry in entries if isinstance(entry.op, FunctionCall)), None)
    if call is not None:
        raise TapeError(
            f"compile: {call!r} is a call of the mg.Function {call.op.name}, which may do "
            "something else at every call. Write it as an op (mg.primitive) or in ops; or record "
            "the ops before it and those after it on two tapes, with its result, detached, as an "
            "input of the second.",
            op=call.op.name,
        )


def _refuse_views(outside: list[Outside], given: list[Outside]) -> None:
    """TapeError for a constant that is a view of an input: it would keep the old values."""
    for x in outside:
        i = next((i for i, known in enumerate(given) if may_share(x.array, known.array)), None)
        if i is not None and x not in given:
            raise TapeError(
                f"compile: the recorded ops took a view of inputs[{i}] that was made outside of "
                f"the tape ({describe(x.array)}), which other inputs would not change. Make the "
                "view with an op, inside."
            )


class _generators_kept:
    """Restores the random generators after an entry was run for tracing."""

    def __init__(self, entry: Entry):
        self.own = entry.params.get("generator")
        self.is_entered = False

    def __enter__(self) -> None:
        self.states = random.get_state(), np.random.get_state()
        self.own_state = None if self.own is None else self.own.bit_generator.state
        self.is_entered = True

    @left_always(attrgetter("is_entered"))
    def __exit__(self, *exc: object) -> None:
        random.set_state(self.states[0])
        np.random.set_state(self.states[1])
        if self.own is not None:
            self.own.bit_generator.state = self.own_state
        self.is_entered = False
