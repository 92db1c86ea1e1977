"""A program of the tape as a CUDA graph: all its launches handed to the GPU as one.

The calls run twice, so that kernels are compiled and libraries have their workspaces, and then once
while the stream records. Their memory comes from a pool of the graph's own, so nothing else ever
lies where the graph writes.
"""

from typing import Any

from ..backends.device import require_gpu
from ..errors import TapeError
from ..tape.buffers import as_array, copied


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
        stream.synchronize()
        stream.begin_capture()
        try:
            _run(calls)
            graph = stream.end_capture()
        except Exception as error:
            _abandon(stream)
            raise TapeError(
                f"capture: a call of the program cannot be captured: {error}"
            ) from error
    cells, trace = runner.cells, runner.trace
    ends = {end: cells[end] for end in runner.ends if not trace.fixed[end]}

    def launch() -> None:
        graph.launch()
        for end, array in ends.items():
            cells[end] = array

    launch.keeps = (graph, pool, stream, calls)  # type: ignore[attr-defined]  # while it is used
    runner.calls = [launch]
    runner.ways = [copied if copy else as_array for _ in runner.ends]


def _run(calls: list) -> None:
    for call in calls:
        call()


def _abandon(stream: Any) -> None:
    """End a capture that has failed, so that the stream can be used again."""
    try:
        stream.end_capture()
    except Exception:  # it says again what went wrong
        pass
