"""The transport of arrays on GPUs: NCCL, through CuPy. No copy to the host.

Calls go to a separate stream, which waits for the work queued so far in the current stream. So they
run at the same time as the current stream's next work. `request.wait_on_stream()` makes the current
stream wait for one of them, without stopping the host.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends.device import require_gpu
from ..backends.leaving import contextmanager
from .errors import DistributedError
from .transport import Request, Transport

_OPS = {"sum": 0, "max": 2, "min": 3}  # ncclRedOp_t
_TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6,
    "float32": 7, "float64": 8, "bfloat16": 9, "complex64": 7, "complex128": 8,
}  # fmt: skip  # ncclDataType_t; a complex number is sent as two real ones


def connect(rank: int, size: int, timeout: float, unique_id: bytes | None = None) -> Any:
    """An NCCL communicator on the current GPU.

    timeout     seconds after which this process ends because another rank has not come
    unique_id   agreed upon elsewhere (through MPI); None: CuPy's TCP store at MASTER_ADDR,
                MASTER_PORT introduces the ranks
    """
    # In-switch reduction (NVLink SHARP) needs multicast rights that containers often lack.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    require_gpu("the NCCL backend")
    from cupy.cuda import nccl

    if not nccl.available:
        raise DistributedError(
            "CuPy does not find the NCCL library: pip install nvidia-nccl-cu13 (or -cu12)"
        )
    with _ended_after(timeout, f"minigrad.distributed: rank {rank} of {size}"):
        if unique_id is not None:
            return nccl.NcclCommunicator(size, unique_id, rank)
        return _introduced_by_store(rank, size)


def _introduced_by_store(rank: int, size: int) -> Any:
    """A communicator whose ranks have met at a TCP store, a process that rank 0 starts."""
    from cupyx.distributed import init_process_group

    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "13333"))
    try:
        group = init_process_group(size, rank, host=host, port=port)
    except BaseException as problem:
        _end_store()
        if "TCPStore is not available" in str(problem):
            raise DistributedError(
                f"rank {rank} of {size} finds no rank 0 at {host}:{port}; start it, or set "
                "MASTER_ADDR and MASTER_PORT to where it is, the same on every rank",
                ranks=(0, rank),
            ) from problem
        raise
    group.stop()  # all have met: left alone, its process would keep rank 0 from ending
    return group._comm  # CuPy's own calls do not know bfloat16


def _end_store() -> None:
    for child in multiprocessing.active_children():
        if type(child).__name__ == "ExceptionAwareProcess":  # CuPy's store
            child.terminate()


@contextmanager
def _ended_after(timeout: float, who: str) -> Iterator[None]:
    """End the process when the block takes longer: NCCL waits for missing ranks for ever."""

    def end() -> None:
        sys.stderr.write(
            f"{who} stops: after {timeout:g} s not all ranks have joined. See their output; each "
            "needs a GPU of its own (LOCAL_RANK)\n"
        )
        sys.stderr.flush()
        _end_store()
        os._exit(1)

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def unique_id() -> bytes:
    """A name for a new communicator, 128 bytes; one rank makes it, all use it."""
    require_gpu("the NCCL backend")
    from cupy.cuda import nccl

    return nccl.get_unique_id()


class Guard:
    """Ends the process when a call does not end in time: NCCL itself would wait for ever.

    Where MPI has started the ranks its watchdog names the cause as well (watchdog.py).
    """

    def __init__(self, comm: Any, rank: int, size: int, timeout: float):
        self.comm, self.timeout = comm, timeout
        self.who = f"minigrad.distributed: rank {rank} of {size}"
        self._calls: deque = deque(maxlen=100_000)
        self._device = _cupy().cuda.Device()
        threading.Thread(target=self._run, name="minigrad-nccl-guard", daemon=True).start()

    def note(self, what: str, ended: Any) -> None:
        """Watch one call, until its CUDA event."""
        self._calls.append((what, ended, time.monotonic()))

    def _run(self) -> None:
        self._device.use()
        while True:
            time.sleep(0.5)
            while self._calls and self._calls[0][1].done:
                self._calls.popleft()
            late = self._calls and time.monotonic() - self._calls[0][2] > self.timeout
            error = self.comm.check_async_error()
            if late or error:
                why = f"NCCL reports error {error}" if error else f"{self.timeout:g} s have passed"
                what = self._calls[0][0] if self._calls else "a call"
                sys.stderr.write(
                    f"{self.who} stops: {what} does not end ({why}). Another rank has died, raised "
                    "or makes other calls: see its output\n"
                )
                sys.stderr.flush()
                os._exit(1)


class NCCLRequest:
    """A call on the communication stream; begun and ended are CUDA events around it."""

    def __init__(self, begun: Any, ended: Any, kept: tuple):
        self.begun, self.ended = begun, ended
        self._kept = kept

    def done(self) -> bool:
        return self.ended.done

    def wait_on_stream(self) -> None:
        """Make the current stream wait for the call; the host goes on."""
        _cupy().cuda.get_current_stream().wait_event(self.ended)

    def synchronize(self) -> None:
        """Make the host wait for the call."""
        self.ended.synchronize()


class NCCLTransport:
    """Arrays on GPUs, one GPU a rank."""

    device = "cuda"

    def __init__(self, comm: Any, rank: int, size: int, stream: Any = None):
        self.comm, self.rank, self.size = comm, rank, size
        self.stream = stream or _cupy().cuda.Stream(non_blocking=True)
        self.guard: Guard | None = None

    def duplicate(self) -> "NCCLTransport":
        # One communicator runs its calls in the order in which they were queued, which is the same
        # on every rank. A second communicator could deadlock on the GPU.
        return self

    def sum_dtype(self, dtype: Any) -> Any:
        _type(dtype)
        return np.dtype(dtype)

    def all_reduce(self, buffer: Any, op: str) -> Request:
        kind, count = _counted(buffer)
        return self._run("allReduce", (buffer, buffer), count, kind, _OPS[op])

    def broadcast(self, buffer: Any, root: int) -> Request:
        kind, count = _counted(buffer)
        return self._run("broadcast", (buffer, buffer), count, kind, root)

    def all_gather(self, part: Any, whole: Any) -> Request:
        kind, count = _counted(part)
        return self._run("allGather", (part, whole), count, kind)

    def reduce_scatter(self, whole: Any, part: Any) -> Request:
        kind, count = _counted(part)
        return self._run("reduceScatter", (whole, part), count, kind, _OPS["sum"])

    def send(self, buffer: Any, to: int, tag: int) -> Request:
        _refuse_tag(tag)
        kind, count = _counted(buffer)
        return self._run("send", (buffer,), count, kind, to)

    def receive(self, buffer: Any, source: int, tag: int) -> Request:
        _refuse_tag(tag)
        kind, count = _counted(buffer)
        return self._run("recv", (buffer,), count, kind, source)

    def barrier(self) -> Request:
        return self.all_reduce(_cupy().zeros(1, np.float32), "sum")

    def _run(self, call: str, arrays: tuple, *how: int) -> NCCLRequest:
        cupy = _cupy()
        with arrays[0].device:  # each thread of a parallel backward has its own current GPU
            ready = cupy.cuda.get_current_stream().record()
            self.stream.wait_event(ready)
            begun = self.stream.record(cupy.cuda.Event())
            pointers = [x.data.ptr for x in arrays]
            getattr(self.comm, call)(*pointers, *how, self.stream.ptr)
            ended = self.stream.record(cupy.cuda.Event())
        if self.guard is not None:
            self.guard.note(f"{call} of {arrays[0].dtype} {arrays[0].shape}", ended)
        return NCCLRequest(begun, ended, arrays)


class Staged:
    """Host arrays over a transport of GPU arrays, where there is no MPI: for small things."""

    device = "cpu"

    def __init__(self, inner: Transport):
        self.inner = inner
        self.rank, self.size = inner.rank, inner.size

    def duplicate(self) -> "Staged":
        return self

    def sum_dtype(self, dtype: Any) -> Any:
        return self.inner.sum_dtype(dtype)

    def all_reduce(self, buffer: np.ndarray, op: str) -> Request:
        there = _cupy().asarray(buffer)
        return _Copied(self.inner.all_reduce(there, op), there, buffer)

    def broadcast(self, buffer: np.ndarray, root: int) -> Request:
        memory = buffer.reshape(-1).view(np.uint8)
        there = _cupy().asarray(memory)
        return _Copied(self.inner.broadcast(there, root), there, memory)

    def all_gather(self, part: np.ndarray, whole: np.ndarray) -> Request:
        sent, received = (x.reshape(-1).view(np.uint8) for x in (part, whole))
        there = _cupy().empty(received.shape, np.uint8)
        return _Copied(self.inner.all_gather(_cupy().asarray(sent), there), there, received)

    def reduce_scatter(self, whole: np.ndarray, part: np.ndarray) -> Request:
        there = _cupy().empty(part.shape, part.dtype)
        return _Copied(self.inner.reduce_scatter(_cupy().asarray(whole), there), there, part)

    def send(self, buffer: np.ndarray, to: int, tag: int) -> Request:
        memory = buffer.reshape(-1).view(np.uint8)
        return self.inner.send(_cupy().asarray(memory), to, tag)

    def receive(self, buffer: np.ndarray, source: int, tag: int) -> Request:
        memory = buffer.reshape(-1).view(np.uint8)
        there = _cupy().empty(memory.shape, np.uint8)
        return _Copied(self.inner.receive(there, source, tag), there, memory)

    def barrier(self) -> Request:
        return self.inner.barrier()


class _Copied:
    """Complete once the result has been copied back to the host array."""

    def __init__(self, request: Any, there: Any, here: np.ndarray):
        self.request, self.there, self.here = request, there, here

    def done(self) -> bool:
        if not self.request.done():
            return False
        self.here[...] = self.there.get().reshape(self.here.shape)
        return True


def _refuse_tag(tag: int) -> None:
    """ValueError for a tag, by which a message would be taken for another one in silence."""
    if tag:
        raise ValueError(
            f"send and receive: tag={tag} over NCCL, which pairs messages by their order alone; "
            "leave tag out, and receive in the order in which the other rank sends"
        )


def _counted(x: Any) -> tuple[int, int]:
    """(NCCL's number of the dtype, how many of it) of an array."""
    return _type(x.dtype), x.size * (2 if x.dtype.kind == "c" else 1)


def _type(dtype: Any) -> int:
    if str(dtype) not in _TYPES:
        raise TypeError(f"NCCL knows no {dtype}; cast it to one of {', '.join(_TYPES)}")
    return _TYPES[str(dtype)]


def _cupy() -> Any:
    import cupy

    return cupy
