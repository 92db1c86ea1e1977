"""A program of the tape as a CUDA graph: one launch replaces all its launches.

The calls first run twice, so that kernels are compiled, libraries allocate their workspaces, and
timings choose the algorithms of large products. Then they run once while the stream records. Their
memory comes from the graph's own pool, so no other array ever uses memory that the graph writes.
"""

import sys
from typing import Any

import numpy as np

from ..backends import cublas
from ..backends.device import is_contiguous, require_gpu
from ..errors import TapeError
from ..modes import deterministic
from ..tape.buffers import as_array, copied

_SMALL = 1 << 18  # bytes, the most of a result that is packed with others
_ALIGNED = 512  # bytes, as in CuPy's own allocations: kernels may load whole vectors


def capture(program: Any, copy: bool = False) -> Any:
    """Make a program of tape.compile replay as one CUDA graph; returns the program.

        with mg.Tape() as tape:
            loss = mg.cross_entropy(model(x), target)
        step = mg.cuda.capture(tape.compile(loss, [x, target], wrt=parameters))
        value, gradients = step(x2, target2)

    copy    results keep their numbers; without it the next call overwrites them

    Raises TapeError where a call cannot be captured. Such calls draw random numbers, need a result
    on the host, or use cuBLAS functions that CuPy calls itself. CuPy calls them on complex numbers,
    in decompositions, and in convolutions where `nvidia-cudnn-frontend` is not installed.
    """
    capture_calls(program._runner, copy)
    return program


def capture_calls(runner: Any, copy: bool, written: list | None = None) -> None:
    """`capture` for the calls of a program. written: other arrays that the calls write."""
    if any(step.draws for step in runner.steps):
        raise TapeError("capture: the program draws random numbers; a graph would repeat them")
    runner.calls = [_Graph(require_gpu("mg.cuda.capture"), runner, copy, written or [])]


class _Graph:
    """The calls of a runner as one graph: a call launches it and puts the results into the cells.

    A graph writes to the same memory at each launch. With `copy` its results are at first handed
    out without a copy. If the program still refers to some of them at the next launch (to a loss),
    the calls are captured again in other memory. From then on these are copied; when others are
    still in use later, all are.
    """

    def __init__(self, cupy: Any, runner: Any, copy: bool, written: list):
        self.cupy, self.runner, self.written = cupy, runner, written
        self.calls, self.ways = runner.calls, runner.ways
        self.copy = copy
        self.copied: set[int] = set()  # the ends that are handed out as copies
        self.record()

    def record(self) -> None:
        """Capture the calls."""
        cupy, runner = self.cupy, self.runner
        pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
        before = [x.copy() for x in self.written]
        cupy.cuda.Device().synchronize()
        cells, fixed = runner.cells, runner.trace.fixed
        made = [end for end in dict.fromkeys(runner.ends) if not fixed[end]]
        allocator, tuned = (
            cupy.cuda.using_allocator(pool.malloc),
            cublas.tuned(not deterministic.required),
        )
        with stream, allocator, tuned:
            for _ in range(2):
                _run(self.calls)
            packed = _Packed(cupy, {end: cells[end] for end in made if end in self.copied})
            stream.synchronize()
            stream.begin_capture()
            try:
                _run(self.calls)
                packed.fill(cells)
                self.graph = stream.end_capture()
            except Exception as error:
                _abandon(stream)
                raise TapeError(
                    f"capture: a call of the program cannot be captured: {error}"
                ) from error
        for x, old in zip(self.written, before, strict=True):
            x[...] = old
        self.keeps, self.packed = (pool, stream), packed  # memory that the graph uses
        self.results = {end: cells[end] for end in made if end not in packed.slots}
        for end in made:
            cells[end] = None
        ways = zip(runner.ends, self.ways, strict=True)
        runner.ways = [
            as_array if end in packed.slots else copied if end in self.copied else way
            for end, way in ways
        ]
        self.ours = {end: _references(x) for end, x in self.results.items()}

    def __call__(self) -> None:
        if self.copy and (held := self.held()):
            self.copied = {*self.results, *self.packed.slots} if self.copied else held
            self.record()
        self.graph.launch()
        cells = self.runner.cells
        for end, array in self.results.items():
            cells[end] = array
        self.packed.hand_out(cells)

    def held(self) -> set[int]:
        """The results of the last launch, without copies, that the program still refers to."""
        ours, copied = self.ours, self.copied
        return {
            end
            for end, x in self.results.items()
            if end not in copied and _references(x) != ours[end]
        }


def _references(x: Any) -> tuple[int, int, int]:
    """Reference counts of an array, of its pointer (another array) and of its memory (a view)."""
    return sys.getrefcount(x), sys.getrefcount(x.data), sys.getrefcount(x.data.mem)


class _Packed:
    """Small results in one buffer of the graph: one copy hands out all of them.

    To copy a small array takes the host longer than the GPU, and a step has a gradient for each
    parameter.
    """

    def __init__(self, cupy: Any, arrays: dict[int, Any]):
        self.cupy = cupy
        self.slots: dict[int, tuple] = {}  # result -> (offset, shape, dtype, strides)
        used, here = 0, cupy.cuda.Device()
        for end, x in arrays.items():
            if x.nbytes <= _SMALL and x.device == here and is_contiguous(x):
                self.slots[end] = used, x.shape, x.dtype, x.strides
                used += -(-x.nbytes // _ALIGNED) * _ALIGNED
        self.buffer = cupy.empty(used, np.uint8)

    def _seen(self, buffer: Any, slot: tuple) -> Any:
        offset, shape, dtype, strides = slot
        return self.cupy.ndarray(shape, dtype, buffer.data + offset, strides)

    def fill(self, cells: list) -> None:
        """Copy the results into the buffer, as part of the graph."""
        for end, slot in self.slots.items():
            self._seen(self.buffer, slot)[...] = cells[end]

    def hand_out(self, cells: list) -> None:
        """Put the results into their cells, as views of one fresh copy of the buffer."""
        if self.slots:
            whole = self.buffer.copy()
            for end, slot in self.slots.items():
                cells[end] = self._seen(whole, slot)


def _run(calls: list) -> None:
    for call in calls:
        call()


def _abandon(stream: Any) -> None:
    """End a failed capture, so that the stream can be used again."""
    try:
        stream.end_capture()
    except Exception:  # it repeats the error of the capture
        pass
