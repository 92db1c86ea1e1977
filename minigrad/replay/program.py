"""A segment as one program: the calls and backwards of its tape, with their buffers."""

from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import device_of
from ..backends.dtypes import is_differentiable
from ..backends.locks import Lock
from ..compiled.switch import is_accelerated
from ..engine import versions
from ..engine.errors import describe
from ..engine.graph import Leaf, Port, wrap
from ..errors import TapeError
from ..on_gpu.graphs import capture_calls
from ..tape.buffers import Runner
from ..tape.program import Compiler
from ..tape.record import Outside as TapeOutside
from .calls import Call, Outside, array_of, arrays_in
from .fusing import fused
from .heard import ReplayedCall, timed


class Program:
    """The steps of a segment, and their replay.

    calls      the recorded calls, which those of the function are compared with
    outsides   the tensors and arrays that the calls took from outside
    fused      the names of the steps in each fused kernel or loop
    heard      its calls as listeners hear of them, once one has
    stretches  position -> the calls of a layer or function that begin there (stretches.py)
    unfused    why the fusion of its steps failed, if it did
    size       the number of calls of a replay
    runner     makes the calls; None where the segment runs op by op, for the reason `why`
    sources    value of the trace -> the number of the Outside that it is
    ends       the numbers of the values that the runner hands out
    views      the numbers of values that share memory with one of these or with an Outside
    nodes      number -> node, of the values that have one; a backward has used up their graph
    """

    def __init__(self, calls: list[Call], outsides: list[Outside], why: str = ""):
        self.calls, self.outsides, self.why = calls, outsides, why
        self.runner: Any = None
        self.inputs: list[int] = []
        self.order: list[int] = []
        self.sources: dict[int, int] = {}
        self.ends: frozenset[int] = frozenset()
        self.views: list[int] = []
        self.hands_out: frozenset[int] = frozenset()
        self.nodes: dict[int, Any] = {}
        self.captured, self.size = False, 0
        self.fused: list[list[str]] = []
        self.heard: list[ReplayedCall] | None = None
        self.unfused = ""
        self.stretches: dict[int, list] = {}
        self.lock = Lock()  # one run at a time uses its buffers

    def run(self, bound: list, is_heard: Any = False) -> dict[int, Any]:
        """{number of a value: its array}, computed from the tensors or arrays that replace the
        Outsides.

        is_heard   whether listeners are told of each call
        """
        with self.lock:
            each = timed(self) if is_heard else None
            made = self.runner.run([array_of(bound[k]) for k in self.inputs], each)
        return dict(zip(self.order, made, strict=True))

    def view(self, i: int, arrays: dict[int, Any], bound: list) -> Any:
        """The array of a result that is a view: its ops run on the arrays of this call."""
        if i in arrays:
            return arrays[i]
        call = next(x for x in self.calls if i in [spec.index for spec in x.outputs])
        args = [
            known.value
            if type(known) is not int
            else wrap(self.view(known, arrays, bound) if known >= 0 else array_of(bound[~known]))
            for known in call.args
        ]
        y = call.op(*args, **call.params)
        return (y[i - call.outputs[0].index] if call.several else y)._data


def build(run: Any, tape: Any, alive: list[int], why: str) -> Program:
    """The program of a recorded segment; `alive`: the values that are still referred to."""
    program = Program(run.calls, run.outsides, why or _written(run) or _still_open(run, alive))
    if program.why:
        return program
    program.stretches = run.stretches
    # A trace runs the calls again: restore the running statistics that it updates twice.
    written = [x for call in run.calls if call.writes for x in arrays_in(call.params)]
    before = [x.copy() for x in written]
    try:
        _compile(program, run, tape, alive)
    except (TapeError, ValueError) as error:
        program.why = str(error)
    finally:
        for x, old in zip(written, before, strict=True):
            x[...] = old
    return program


def _written(run: Any) -> str:
    """Why a replay cannot read the memory that the calls read: Python has written to it since."""
    own = [x for call in run.calls if call.writes for x in arrays_in(call.params)]
    for outside in run.outsides:
        written = versions.written_after(outside.array, outside.last_write)
        if written is not None and not any(x is outside.array for x in own):
            return f"{written[3]} wrote into {describe(outside.array)}, which ops had read before"
    return ""


def _still_open(run: Any, alive: list[int]) -> str:
    """Why a program cannot hand out the values alive: one has a graph before its backward."""
    for i in alive:
        node = run.values[i].node
        if node is None or type(node) is Leaf:
            continue
        producer = node.parents[0] if type(node) is Port else node
        if producer.saved is not None:
            return (
                f"a result of {producer.op.name} leaves the segment with its graph: call backward "
                "before a number is looked at, or detach it"
            )
    return ""


def _compile(program: Program, run: Any, tape: Any, alive: list[int]) -> None:
    gradients = {spec.index for call in run.calls if call.leaves for spec in call.outputs}
    program.views = _views(run, [i for i in alive if i not in gradients])
    values = [i for i in alive if i not in gradients and i not in program.views]
    backwards = [call for call in run.calls if call.leaves]
    roots = [run.values[i] for i in values]
    roots += [run.values[i] for call in backwards for i in call.args]
    program.inputs = [k for k, x in enumerate(run.outsides) if x.varying]
    found = [tape.find(run.outsides[k].array) for k in program.inputs]
    program.inputs = [
        k for k, x in zip(program.inputs, found, strict=True) if isinstance(x, TapeOutside)
    ]
    given = list(dict.fromkeys([x for x in found if isinstance(x, TapeOutside)]))
    program.inputs = [
        next(k for k in program.inputs if run.outsides[k].array is x.array) for x in given
    ]
    compiler = Compiler(tape, roots, given)
    ends = [compiler.known[tape.find(run.values[i])] for i in values]
    order = list(values)
    for call in backwards:
        leaves = [run.outsides[k].tensor for k, _ in call.leaves or ()]
        vertices = [x.node for x in leaves]
        ends += compiler.backward([run.values[i] for i in call.args], vertices, None, True)
        order += [spec.index for spec in call.outputs]
    written = {id(x) for call in run.calls if call.writes for x in arrays_in(call.params)}
    inputs = [compiler.known.get(x) for x in given]
    program.sources = {
        compiler.known[found].value: k
        for k, x in enumerate(run.outsides)
        if (found := tape.find(x.array)) in compiler.known
    }
    program.order, program.ends = order, frozenset(order)
    program.hands_out = frozenset([*order, *program.views])
    program.nodes = {i: run.values[i].node for i in alive if run.values[i].node is not None}
    arrays = [array_of(x.tensor) for x in run.outsides]
    program.runner = Runner(compiler.trace, inputs, ends, True)
    program.why = _differs(program, run, arrays)
    if program.why:
        program.runner = None
        return
    trace = compiler.trace
    before = trace.arrays[:], trace.fixed[:], trace.owners[:]
    try:
        steps = fused(program.runner.steps, trace, program.runner.ends, written)
    except Exception as error:  # the compiler failed on a kernel
        program.unfused = f"{type(error).__name__}: {error}"[:200]
        trace.arrays, trace.fixed, trace.owners = before
        steps = []
    program.fused = [[part.name for part in step.fused] for step in steps if step.fused]
    if program.fused:
        program.runner = Runner(trace, inputs, ends, True, steps)
    trace.forget()
    program.size = len(program.runner)
    if any(device_of(array) != "cpu" for array in arrays):
        _capture(program, [x for call in run.calls if call.writes for x in arrays_in(call.params)])


def _views(run: Any, values: list[int]) -> list[int]:
    """The values that share memory with an Outside, or with a value before them.

    A write to one is a write to both, as without mg.compile.
    """
    owners = {id(versions.owner_of(x.array)) for x in run.outsides}
    views = []
    for i in values:
        owner = id(versions.owner_of(run.values[i]._data))
        if owner in owners:
            views.append(i)
        owners.add(owner)
    return views


def _differs(program: Program, run: Any, arrays: list) -> str:
    """Run the program once on the recorded arrays: why it must not be used, "" if it may.

    It draws the random numbers of the recording again.
    """
    before = random.get_state()
    try:
        if run.before_draw is not None:
            random.set_state(run.before_draw)
        made = program.run(arrays)
    finally:
        random.set_state(before)
    for i, array in made.items():
        expected = run.alone.get(i, run.values[i])._data
        if not _agrees(array, expected, run.before_draw is not None):
            return f"its replay gave other numbers of value {i}"
    return ""


# Tolerances relative to the largest number, by the bytes of a real number. Libraries on a GPU may
# add in another order in each run: cuDNN does in gradients of weights. On the host, mg.accelerate
# may use one loop for an op alone and another for the op and its sum. They differ by rounding.
_OFF_ON_GPU = {2: 2e-2, 4: 1e-3, 8: 1e-10}
_OFF_BY_LOOPS = {2: 4e-3, 4: 1e-5, 8: 1e-13}


def _agrees(a: Any, b: Any, drew: bool) -> bool:
    """Whether a replay's array has the eager one's bits, up to rounding for kernels and loops.

    drew   the program draws random numbers. Rules that choose a way to sum by the numbers chose
           it by the draws of the trace, so that sums may differ by rounding, too
    """
    if a is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    allowed = _OFF_ON_GPU
    if isinstance(a, np.ndarray):
        allowed = _OFF_BY_LOOPS
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        if not (drew or is_accelerated()):
            return a.tobytes() == b.tobytes()
    else:
        a, b = a.get(), b.get()
    if a.tobytes() == b.tobytes() or not is_differentiable(a.dtype):
        return a.tobytes() == b.tobytes()
    narrow = min(8, a.real.dtype.itemsize)
    wide = np.result_type(a.dtype, np.float32)
    a, b = a.astype(wide), b.astype(wide)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    off = allowed[narrow] * largest
    return bool(np.allclose(a, b, rtol=0, atol=off, equal_nan=True))


def _capture(program: Program, written: list) -> None:
    """Capture the program as a CUDA graph where possible; else a replay launches each call."""
    try:
        capture_calls(program.runner, True, written)
        program.captured = True
    except TapeError as error:
        program.why = str(error)
