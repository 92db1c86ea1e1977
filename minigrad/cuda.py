"""GPUs: the devices present, the current one, streams, memory, transfers. CuPy does the work.

    >>> import minigrad as mg
    >>> device = "cuda" if mg.cuda.is_available() else "cpu"
    >>> x = mg.ones(3, device=device, requires_grad=True)

Importing minigrad never imports CuPy; the functions here do when they are called.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from .backends import cublas
from .backends import device as _device
from .backends.device import DeviceError, Transfers
from .backends.leaving import contextmanager
from .tensor_api.help import missing_names_of as _missing_names_of

__all__ = [
    "DeviceError", "Event", "Stream", "Transfers", "allow_tf32", "capture", "current_device",
    "current_stream", "device", "device_count", "empty_cache", "get_device_name", "is_available",
    "max_memory_allocated", "memory_allocated", "memory_info", "memory_reserved", "nvtx",
    "reset_peak_memory_stats", "stream", "synchronize", "transfers",
]  # fmt: skip


def is_available() -> bool:
    """Whether CuPy is installed and sees a GPU; never an error."""
    try:
        import cupy

        return bool(cupy.cuda.is_available())
    except Exception:  # no CuPy, a broken driver, a library that is missing: no GPU to use
        return False


def _cupy() -> Any:
    return _device.require_gpu("mg.cuda")


def device_count() -> int:
    """How many GPUs this process sees; 0 without CuPy or a driver."""
    return _cupy().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """The number of the GPU that "cuda" means in this thread."""
    return _cupy().cuda.runtime.getDevice()


def get_device_name(number: int | None = None) -> str:
    """The name of a GPU, the current one when None."""
    number = current_device() if number is None else number
    return _cupy().cuda.runtime.getDeviceProperties(number)["name"].decode()


def device(name: int | str) -> AbstractContextManager:
    """`with mg.cuda.device(1):` makes GPU 1 the current one of this thread."""
    number = name if isinstance(name, int) else int(str(name).partition(":")[2] or 0)
    count = device_count()
    if number >= count:
        _cupy()
        raise DeviceError(
            f"there is no GPU {number}: this machine has {count}", device=f"cuda:{number}"
        )
    return _chosen(number)


@contextmanager
def _chosen(number: int) -> Iterator[None]:
    try:
        with _cupy().cuda.Device(number):
            yield
    finally:
        if number != _cupy().cuda.runtime.getDevice():
            _device.notice_several()  # what was made inside may be used outside


def Stream(**options: Any) -> Any:
    """A queue of work on the current GPU (cupy.cuda.Stream)."""
    return _cupy().cuda.Stream(non_blocking=True, **options)


def stream(which: Any) -> Any:
    """`with mg.cuda.stream(s):` puts the work of this thread into the stream s."""
    return which


def current_stream() -> Any:
    """The stream that this thread's work goes to."""
    return _cupy().cuda.get_current_stream()


def Event(**options: Any) -> Any:
    """A mark in a stream (cupy.cuda.Event): record, synchronize, elapsed time between two."""
    return _cupy().cuda.Event(**options)


def synchronize(number: int | None = None) -> None:
    """Wait until all work of a GPU (the current one when None) is done."""
    cuda = _cupy().cuda
    (cuda.Device() if number is None else cuda.Device(number)).synchronize()


# -- memory ----------------------------------------------------------------------------------


def memory_allocated() -> int:
    """Bytes of live arrays on the current GPU, as CuPy's memory pool counts them."""
    return _cupy().get_default_memory_pool().used_bytes()


def memory_reserved() -> int:
    """Bytes that CuPy's pool holds of the current GPU, in use or kept for reuse."""
    return _cupy().get_default_memory_pool().total_bytes()


def memory_info() -> tuple[int, int]:
    """(free, total) bytes of the current GPU, over all processes."""
    return _cupy().cuda.runtime.memGetInfo()


def empty_cache() -> None:
    """Give the pool's unused blocks back to the driver."""
    _cupy().get_default_memory_pool().free_all_blocks()


class _Peak:
    """The most bytes in use at once, from a hook of CuPy's pool, which a thread has to enter."""

    hook: Any = None
    most = 0


def reset_peak_memory_stats() -> None:
    """Start to watch the peak of `memory_allocated` in this thread and its helpers, from now."""
    cupy = _cupy()
    pool = cupy.get_default_memory_pool()
    _Peak.most = pool.used_bytes()
    if _Peak.hook is not None:
        return

    class Watch(cupy.cuda.memory_hook.MemoryHook):
        name = "minigrad peak"

        def malloc_postprocess(self, **_: Any) -> None:
            _Peak.most = max(_Peak.most, pool.used_bytes())

    _Peak.hook = Watch()
    _Peak.hook.__enter__()
    _device.memory_hooks.append(_Peak.hook)


def max_memory_allocated() -> int:
    """The peak of `memory_allocated` since reset_peak_memory_stats()."""
    return max(_Peak.most, memory_allocated())


# -- what goes between host and GPU, and how products are formed ---------------------------------


def transfers() -> Transfers:
    """How many arrays, and bytes, have gone each way since the process began. A copy of the counts.

    Compare two of them to see whether a training step moves anything.
    """
    return dataclasses.replace(_device.transfers)


def capture(program: Any, copy: bool = False) -> Any:
    """Make a program of tape.compile replay as one CUDA graph: see on_gpu/graphs.py."""
    from .on_gpu.graphs import capture as captured

    return captured(program, copy)


def nvtx() -> Any:
    """`with mg.cuda.nvtx():` names the ops in Nsight Systems: see instrument/nvtx.py."""
    from .instrument.nvtx import Ranges

    return Ranges()


def allow_tf32(allowed: bool = True) -> None:
    """Whether float32 products and convolutions may round their factors to TF32 (10 bits).

    Off by default, as in PyTorch; about eight times faster where it is on.
    """
    _cupy()
    import numpy as np
    from cupy._core import _routines_linalg as products

    kind = products.COMPUTE_TYPE_TF32 if allowed else products.COMPUTE_TYPE_DEFAULT
    products.set_compute_type(np.float32, kind)
    cublas.tf32 = allowed


__getattr__ = _missing_names_of(__name__)
