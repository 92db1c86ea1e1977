"""Memory for a list of traced calls, and running it.

A ufunc writes into a buffer that was allocated before the run. A buffer is reused as soon as no
later step reads its value, or a view of it. On large arrays ufuncs go block by block (blocks.py).
Views are made once. Any other call makes a new array, which is dropped after its last reader.
Buffers come from the array module of the array they replace, so a program on a GPU runs in fixed
GPU memory.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..backends.device import array_module, is_contiguous
from ..engine.errors import about, describe
from ..errors import TapeError
from ..expressions.blocks import Ref
from .blocks import Blocks, Run, runs_of
from .trace import Step, Trace, flat, mapped, parts_of


def owned(array: Any) -> Any:
    """A new array with the elements and the layout of this one."""
    module = array_module(array)
    copy = module.empty_like(array)
    copy[...] = array
    return copy


class Runner:
    """The calls of a trace with their memory. run(arrays) -> one array for each of `ends`.

    inputs  the values that a run sets (None: the program does not use this one)
    ends    the values that it returns (None: a None)
    ways    how each of them reaches the user: itself, or a copy (a captured graph sets others)
    steps   the steps to call in place of those of the trace
    made_of the steps that each call makes
    """

    def __init__(
        self, trace: Trace, inputs: list, ends: list, copy: bool, steps: list | None = None
    ):
        self.trace = trace
        self.inputs = [None if x is None else x.array for x in inputs]
        self.form = [x is not None for x in ends]
        self.ends = [x.value for x in ends if x is not None]
        self.steps = _without_constant(_used(trace, self.ends), trace) if steps is None else steps
        self.cells: list[Any] = [None] * len(trace.arrays)
        self.names: dict[int, str] = {}
        self.nbytes = 0
        self._made = 0  # buffers made so far
        self._last = self._last_reads()
        self._place_constants({x.value: i for i, x in enumerate(inputs) if x is not None})
        runs = {i: run for run in runs_of(self.steps, trace) for i in run.positions}
        inner = {  # values that only their run reads
            y
            for i, run in runs.items()
            for y in self.steps[i].outputs
            if self._last[y] <= run.positions[-1]
        }
        if copy:
            self._make_anew(runs)
        self._place_results(inner)
        self.made_of: list[list[Step]] = []
        self.calls = self._built(runs, inner)
        self.ways = self._handed_out(copy)

    def run(self, arrays: list, each: Callable | None = None) -> list:
        """Set the inputs, make every call, hand out the ends. each(calls) may make the calls."""
        for buffer, array in zip(self.inputs, arrays, strict=True):
            if buffer is not None:
                _set(buffer, array)
        if each is not None:
            each(self.calls)
        else:
            for call in self.calls:
                call()
        cells = self.cells
        ends = [way(cells[end]) for way, end in zip(self.ways, self.ends, strict=True)]
        for end in self.ends:
            if not self.trace.fixed[end]:
                cells[end] = None
        given = iter(ends)
        return [next(given) if there else None for there in self.form]

    def __len__(self) -> int:
        return len(self.calls)

    # -- building ------------------------------------------------------------------------------

    def _last_reads(self) -> dict[int, int]:
        """For each value, the index of the last step that reads it or memory that it owns."""
        last: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            for value in (*step.reads(), *[y for y in step.outputs if y is not None]):
                last[value] = i
                for owner in self.trace.owners[value]:
                    last[owner] = i
        for end in self.ends:
            for value in (end, *self.trace.owners[end]):
                last[value] = len(self.steps)
        return last

    def _place_constants(self, inputs: dict[int, int]) -> None:
        """The values before the first step: inputs, leaves, constants."""
        made = {y for step in self.steps for y in step.outputs}
        read = {value for step in self.steps for value in step.reads()}
        for value in sorted((read | {*self.ends}) - made):
            if self.trace.fixed[value]:
                self.cells[value] = self.trace.arrays[value]
                self.names[value] = f"i{inputs[value]}" if value in inputs else f"c{value}"

    def _make_anew(self, runs: dict[int, Run]) -> None:
        """Make an end that no step reads a new array in each run, which saves a copy."""
        read = {value for step in self.steps for value in step.reads()}
        for i, step in enumerate(self.steps):
            if step.kind in ("ufunc", "loop") and i not in runs:
                for y in step.outputs:
                    if y in self.ends and y not in read:
                        self.trace.fixed[y] = False

    def _place_results(self, inner: set[int]) -> None:
        """Buffers for the results of ufuncs, except for the inner values of runs; and all views."""
        free: dict[tuple, list] = defaultdict(list)  # form -> buffers that are free now
        ending = self._ending()
        buffers = {}
        for i, step in enumerate(self.steps):
            (y, *_) = step.outputs
            if y in inner:
                self.names[y] = f"s{y}"
            elif step.kind in ("ufunc", "loop"):
                for y in step.outputs:
                    if self.trace.fixed[y]:
                        buffers[y] = self._buffer(y, free)
                        self.cells[y], self.names[y] = buffers[y]
            elif step.kind == "view":
                self.cells[y] = _filled(step, self.cells)()
                self.names[y] = f"{self.names[step.reads()[0]]}.{step.name}"
            for value in ending[i]:
                if value in buffers:
                    array, name = buffers[value]
                    free[_form(array)].append((array, name))

    def _ending(self) -> dict[int, list[int]]:
        """For each step, the values that no later step reads."""
        ending: dict[int, list[int]] = defaultdict(list)
        for value, i in self._last.items():
            ending[i].append(value)
        return ending

    def _built(self, runs: dict[int, Run], inner: set[int]) -> list[Callable[[], Any]]:
        """The calls: each step except for views, and the steps of a run of blocks as one."""
        ending, calls = self._ending(), []
        for i, step in enumerate(self.steps):
            positions = runs[i].positions if i in runs else [i]
            if step.kind == "view" or i != positions[-1]:
                continue
            dying = [value for j in range(positions[0], i + 1) for value in ending[j]]
            dying = [value for value in dying if not self.trace.fixed[value]]
            self.made_of.append([self.steps[j] for j in positions])
            if i in runs:
                made = Blocks(self.made_of[-1], runs[i].form, self.trace, self.cells, inner)
                calls.append(_then_dropping(made, self.cells, dying))
            else:
                calls.append(self._call(step, dying))
        return calls

    def _buffer(self, value: int, free: dict) -> tuple[Any, str]:
        like = self.trace.arrays[value]
        known = free[_form(like)]
        if known:
            return known.pop()
        array = array_module(like).empty_like(like)
        self.nbytes += array.nbytes
        self._made += 1
        return array, f"b{self._made - 1}"

    def _call(self, step: Step, dying: list[int]) -> Callable[[], Any]:
        """One call of the program, as cheap as it can be."""
        fixed, cells = self.trace.fixed, self.cells
        settled = all(fixed[value] for value in step.reads())
        if step.kind == "ufunc" and fixed[step.outputs[0]]:
            (y,) = step.outputs
            made = _filled(_into(step, cells[y]), cells, settled)
            return made if settled else _then_dropping(made, cells, dying)
        for y in step.outputs:
            if y is not None and y not in self.names:
                self.names[y] = f"t{y}"
        if step.kind == "loop":
            return self._loop(step, dying)
        made = _filled(step, cells, settled)
        if step.several:
            return _several(step, made, cells, self.trace, dying)
        return _one(step, made, cells, self.trace, dying)

    def _loop(self, step: Step, dying: list[int]) -> Callable[[], None]:
        """A call that writes into buffers, and into new arrays for results without one."""
        fixed, cells, arrays = self.trace.fixed, self.cells, self.trace.arrays
        reads, anew = step.reads(), [y for y in step.outputs if not fixed[y]]
        late = [v for v in reads if not (fixed[v] and is_contiguous(cells[v]))]
        known = [cells[v] if v not in late else None for v in reads]
        fill = step.fn.on([*known, *[cells[y] for y in step.outputs]])
        if not late and not anew:
            return fill
        forms, taken = [(y, arrays[y].shape, arrays[y].dtype) for y in anew], [*late, *anew]

        def call() -> None:
            for y, shape, dtype in forms:
                cells[y] = np.empty(shape, dtype)
            fill(*[cells[value] for value in taken])
            for value in dying:
                cells[value] = None

        return call

    def _handed_out(self, copy: bool) -> list[Callable]:
        """How each end reaches the user: itself if it has no other reference, else a copy."""
        ways, seen = [], set()
        for end in self.ends:
            owners = self.trace.owners[end]
            shared = self.trace.fixed[end] or owners != {end} or not seen.isdisjoint(owners)
            seen |= owners
            ours = all(self.names.get(owner, "")[:1] in ("b", "t") for owner in owners)
            ways.append(copied if shared and (copy or not ours) else as_array)
        return ways

    # -- reading -------------------------------------------------------------------------------

    def listing(self, limit: int) -> str:
        """One line for each call."""
        steps = [step for step in self.steps if step.kind != "view"]
        lines = [f"program of {len(steps):,} calls"]
        for i, step in enumerate(steps):
            if limit // 2 <= i < len(steps) - limit // 2 and len(steps) > limit:
                if i == limit // 2:
                    lines.append(f"  … {len(steps) - 2 * (limit // 2):,} more calls …")
                continue
            args = [_text(x, self.names) for x in step.args]
            ys = ", ".join(self.names.get(y, "_") for y in step.outputs if y is not None)
            lines.append(f"  {ys} = {step.name}({', '.join(args)})")
        return "\n".join(lines)


def _text(x: Any, names: dict[int, str]) -> str:
    if type(x) is Ref:
        return names.get(x.value, f"v{x.value}")
    if isinstance(x, tuple | list):
        return f"[{', '.join(_text(part, names) for part in x)}]"
    return describe(x)


def _used(trace: Trace, ends: list[int]) -> list[Step]:
    """The steps whose results are read, in order; random draws always stay."""
    asked, steps = set(ends), []
    for step in reversed(trace.steps):
        if step.draws or any(y in asked for y in step.outputs):
            asked.update(step.reads())
            steps.append(step)
    return steps[::-1]


_SMALL = 1 << 16  # bytes of a result that is kept rather than computed in each run


def _without_constant(steps: list[Step], trace: Trace) -> list[Step]:
    """The steps without those that compute from seeds alone, such as the gradient of a sum.

    Their results become constants of the program.
    """
    left, constant = [], {*trace.seeds}
    for step in steps:
        ys, reads = step.outputs, step.reads()
        if reads and constant.issuperset(reads) and not step.draws and None not in ys and all(
            isinstance(x, np.ndarray) and x.nbytes <= _SMALL for x in (trace.arrays[y] for y in ys)
        ):  # fmt: skip
            constant.update(ys)
            for y in ys:
                trace.fixed[y] = True
        else:
            left.append(step)
    return left


def _set(buffer: Any, array: Any) -> None:
    """Copy an input into its buffer; on a GPU, without a kernel, as bytes if both layouts are
    equal."""
    if not isinstance(buffer, np.ndarray) and hasattr(buffer.data, "copy_from_device_async") and (
        is_contiguous(buffer) and is_contiguous(array) and buffer.dtype == array.dtype
        and buffer.data.device_id == array.data.device_id
    ):  # fmt: skip
        buffer.data.copy_from_device_async(array.data, buffer.nbytes)
    else:
        buffer[...] = array


def _form(array: Any) -> tuple:
    return array.shape, array.dtype, array.strides


def as_array(y: Any) -> Any:
    """y itself, a NumPy scalar as a 0-d array."""
    return np.asarray(y) if isinstance(y, np.generic) else y


def copied(array: Any) -> Any:
    """A copy in the same memory order."""
    return array.copy("K") if isinstance(array, np.ndarray) else owned(array)


def _filled(step: Step, cells: list, settled: bool = True) -> Callable[[], Any]:
    """A function that makes the call with the contents of the cells."""
    fn, args, kwargs = step.fn, step.args, step.kwargs
    if settled:
        args, kwargs = mapped((args, kwargs), Ref, lambda ref: cells[ref.value])
        return partial(fn, *args, **kwargs)
    nested = any(type(x) is not Ref and any(parts_of(x, Ref)) for x in (*args, *kwargs.values()))
    if nested or kwargs:

        def filled() -> Any:
            given, named = mapped((args, kwargs), Ref, lambda ref: cells[ref.value])
            return fn(*given, **named)

        return filled
    template = [None if type(x) is Ref else x for x in args]
    spots = [(i, x.value) for i, x in enumerate(args) if type(x) is Ref]

    def flatly_filled() -> Any:
        given = template.copy()
        for i, value in spots:
            given[i] = cells[value]
        return fn(*given)

    return flatly_filled


def _into(step: Step, buffer: Any) -> Step:
    """The same ufunc, writing into the buffer.

    A buffer given by position costs less than one by name; for two ufuncs NumPy deprecates it.
    """
    if step.fn in (np.maximum, np.minimum):
        return Step(step.kind, step.fn, step.args, {"out": buffer}, step.name)
    return Step(step.kind, step.fn, (*step.args, buffer), step.kwargs, step.name)


def _then_dropping(made: Callable, cells: list, dying: list[int]) -> Callable[[], None]:
    """The call; afterwards it drops the new arrays that no later call reads."""

    def call() -> None:
        made()
        for value in dying:
            cells[value] = None

    return call


def _one(
    step: Step, made: Callable, cells: list, trace: Trace, dying: list[int]
) -> Callable[[], None]:
    """A call whose result is a new array."""
    (y,) = step.outputs
    if y is None:
        return made
    like = trace.arrays[y]
    shape, dtype = like.shape, like.dtype
    if type(like) is np.ndarray and not shape:  # Trace.settle: an array, not NumPy's scalar
        made = partial(_as_settled, made)

    def call() -> None:
        result = made()
        if result.shape != shape or result.dtype is not dtype and result.dtype != dtype:
            _differs(step, result, shape, dtype)
        cells[y] = result
        for value in dying:
            cells[value] = None

    return call


def _as_settled(made: Callable) -> Any:
    return np.asarray(made())


def _several(
    step: Step, made: Callable, cells: list, trace: Trace, dying: list[int]
) -> Callable[[], None]:
    """A call that returns a sequence of new arrays."""
    forms = [(trace.arrays[y].shape, trace.arrays[y].dtype) for y in step.outputs if y is not None]
    ys = [(i, y) for i, y in enumerate(step.outputs) if y is not None]

    def call() -> None:
        results = list(flat(made()))
        for (i, y), (shape, dtype) in zip(ys, forms, strict=True):
            result = results[i]
            if getattr(result, "shape", None) != shape or result.dtype != dtype:
                _differs(step, result, shape, dtype)
            cells[y] = result
        for value in dying:
            cells[value] = None

    return call


def _differs(step: Step, result: Any, shape: tuple, dtype: Any) -> None:
    raise TapeError(
        f"{step.name} gave {describe(result)} in this replay and {dtype} {shape} when it was "
        "recorded: its shape depends on values, which a program cannot follow",
        op=step.name, **about(result),
    )  # fmt: skip
