"""A program of the tape as a CUDA graph: all its launches handed to the GPU as one.

The calls run twice, so that kernels are compiled and libraries have their workspaces, and then once
while the stream records. Their memory comes from a pool of the graph's own, so nothing else ever
lies where the graph writes.
"""

from typing import Any

import numpy as np

from ..backends.device import is_contiguous, require_gpu
from ..errors import TapeError
from ..tape.buffers import as_array, copied

_SMALL = 1 << 18  # bytes of a result that is handed out with others
_ALIGNED = 512  # as CuPy's own allocations are, so that kernels may load whole vectors


def capture(program: Any, copy: bool = False) -> Any:
    """Make a program of tape.compile replay as one CUDA graph; returns the program.

        with mg.Tape() as tape:
            loss = mg.cross_entropy(model(x), target)
        step = mg.cuda.capture(tape.compile(loss, [x, target], wrt=parameters))
        value, gradients = step(x2, target2)

    copy    hand out copies of its results; else the next call overwrites them
    A TapeError says what cannot be captured: random draws, results that the host must see, and
    those of cuBLAS's functions that CuPy calls itself (on complex numbers, in decompositions, in
    convolutions where `nvidia-cudnn-frontend` is not installed).
    """
    capture_calls(program._runner, copy)
    return program


def capture_calls(runner: Any, copy: bool) -> None:
    """capture, for the calls of a program."""
    cupy = require_gpu("mg.cuda.capture")
    if any(step.draws for step in runner.steps):
        raise TapeError("capture: the program draws random numbers; a graph would repeat them")
    pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
    calls = runner.calls
    cupy.cuda.Device().synchronize()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        for _ in range(2):
            _run(calls)
        cells, trace = runner.cells, runner.trace
        made = [end for end in dict.fromkeys(runner.ends) if not trace.fixed[end]]
        packed = _Packed(cupy, {end: cells[end] for end in made} if copy else {})
        stream.synchronize()
        stream.begin_capture()
        try:
            _run(calls)
            packed.fill(cells)
            graph = stream.end_capture()
        except Exception as error:
            _abandon(stream)
            raise TapeError(
                f"capture: a call of the program cannot be captured: {error}"
            ) from error
    ends = {end: cells[end] for end in made if end not in packed.slots}

    def launch() -> None:
        graph.launch()
        for end, array in ends.items():
            cells[end] = array
        packed.hand_out(cells)

    launch.keeps = (graph, pool, stream, calls)  # type: ignore[attr-defined]  # while it is used
    runner.calls = [launch]
    runner.ways = [copied if copy and end not in packed.slots else as_array for end in runner.ends]


class _Packed:
    """Small results in one buffer of the graph: one copy hands out all of them.

    A copy of an array of a few thousand numbers takes the host longer than the GPU, and a step has
    a gradient for each parameter.
    """

    def __init__(self, cupy: Any, arrays: dict[int, Any]):
        self.cupy = cupy
        self.slots: dict[int, tuple] = {}  # of each result (offset, shape, dtype, strides)
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
        """Put the results into their cells, in memory of their own."""
        if self.slots:
            whole = self.buffer.copy()
            for end, slot in self.slots.items():
                cells[end] = self._seen(whole, slot)


def _run(calls: list) -> None:
    for call in calls:
        call()


def _abandon(stream: Any) -> None:
    """End a capture that has failed, so that the stream can be used again."""
    try:
        stream.end_capture()
    except Exception:  # it says again what went wrong
        pass
