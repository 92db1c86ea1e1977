"""Matrix products on a GPU by cuBLAS, called directly through ctypes.

CuPy's own calls widen batches of 16-bit floats, cost more on the host, and refuse a stream that is
being captured into a graph. Here 16-bit floats are multiplied on tensor cores with sums in float32,
a batch is one call, and transposed views are read in place.
"""

import ctypes
import threading
import weakref
from math import prod
from typing import Any

import numpy as np

from .dtypes import bfloat16

tf32 = False  # whether float32 factors may be rounded to TF32; mg.cuda.allow_tf32 sets it

_F32, _F32_TF32, _F64 = 68, 77, 70  # cublasComputeType_t
_KINDS: dict[Any, tuple[int, int, Any]] = {  # dtype: (cudaDataType_t, compute type, C type of α)
    np.dtype(np.float32): (0, _F32, ctypes.c_float),
    np.dtype(np.float64): (1, _F64, ctypes.c_double),
    np.dtype(np.float16): (2, _F32, ctypes.c_float),
}
if bfloat16 is not None:
    _KINDS[bfloat16] = (14, _F32, ctypes.c_float)
WORKSPACE = 32 << 20  # bytes for each stream, cuBLAS's default on Hopper
MOST_STREAMS = 32  # with kept workspaces
_P, _I, _L = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong


class _Library:
    """The functions of the library, and a handle for each thread and device."""

    def __init__(self) -> None:
        import cupy
        from cupy_backends.cuda.libs import cublas as _loaded  # noqa: F401  loads the library

        self.cupy = cupy
        major = cupy.cuda.runtime.runtimeGetVersion() // 1000
        library = ctypes.CDLL(f"libcublas.so.{major}")
        self.create, self.set_stream = library.cublasCreate_v2, library.cublasSetStream_v2
        self.destroy = library.cublasDestroy_v2
        self.destroy.argtypes = [_P]
        self.set_stream.argtypes = [_P, _P]
        self.set_workspace = library.cublasSetWorkspace_v2
        self.set_workspace.argtypes = [_P, _P, ctypes.c_size_t]
        self.gemm = library.cublasGemmStridedBatchedEx
        self.gemm.argtypes = [
            _P, _I, _I, _I, _I, _I, _P, _P, _I, _I, _L, _P, _I, _I, _L, _P, _P, _I, _I, _L, _I, _I,
            _I,
        ]  # fmt: skip
        self.local = threading.local()
        self.workspaces: dict[tuple, Any] = {}  # (device, stream) -> memory for its products

    def handle(self) -> Any:
        """This thread's handle on the current device, set to the current stream."""
        cuda = self.cupy.cuda
        device, stream = cuda.runtime.getDevice(), cuda.get_current_stream().ptr
        known = self.local.__dict__.get(device)
        if known is None:
            made = _P()
            _check(self.create(ctypes.byref(made)), "create")
            known = self.local.__dict__[device] = [made, None, None, _Handle(self, device, made)]
        if known[1] != stream:
            memory = self.workspaces.get((device, stream))
            if memory is None:
                if len(self.workspaces) >= MOST_STREAMS:  # handles keep those they use alive
                    self.workspaces.clear()
                memory = self.workspaces[device, stream] = self.cupy.empty(WORKSPACE, np.uint8)
            _check(self.set_stream(known[0], stream), "set_stream")
            _check(self.set_workspace(known[0], memory.data.ptr, WORKSPACE), "set_workspace")
            known[1:3] = stream, memory  # the handle writes there: keep it alive
        return known[0]


class _Handle:
    """Releases a handle, and its 64 MiB on the GPU, when its thread has ended."""

    def __init__(self, library: _Library, device: int, handle: Any):
        self._end = weakref.finalize(self, _destroy, library, device, handle)
        self._end.atexit = False  # the ending process releases everything, in its own order


def _destroy(library: _Library, device: int, handle: Any) -> None:
    with library.cupy.cuda.Device(device):
        library.destroy(handle)  # waits for pending work that uses it


_library: Any = None


def workspaces() -> int:
    """The number of streams that have memory for products now."""
    return 0 if _library is None else len(_library.workspaces)


def _check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"cuBLAS: {what} returned status {code}")


def _layout(shape: tuple, strides: tuple) -> tuple[int, int] | None:
    """(whether it is transposed, distance of its lines) of a matrix; None if its lines have
    gaps."""
    (rows, columns), (by_row, by_column) = shape, strides
    if by_column == 1 or columns == 1:
        line = by_row if rows > 1 else columns
        if line >= columns:
            return 0, max(line, 1)
    if by_row == 1 or rows == 1:
        line = by_column if columns > 1 else rows
        if line >= rows:
            return 1, max(line, 1)
    return None


def _operand(x: Any, count: int) -> tuple[int, int, int] | None:
    """(transposed, distance of lines, distance of matrices) of a factor; None if it must be
    copied."""
    size, lead = x.dtype.itemsize, x.shape[:-2]
    strides = tuple([s // size for s in x.strides])
    layout = _layout(x.shape[-2:], strides[-2:])
    step = 0 if count == 1 or prod(lead) == 1 else _step(lead, strides[:-2])
    return None if layout is None or step is None else (*layout, step)


def _copied(x: Any) -> tuple[int, int, int]:
    """The layout of a contiguous copy of x, as by `_operand`."""
    n, m = x.shape[-2:]
    return 0, m, n * m if prod(x.shape[:-2]) > 1 else 0


def _step(lead: tuple, strides: tuple) -> int | None:
    """The distance between neighbours of the batch; None if there is more than one distance."""
    step, expected = 0, None
    for n, stride in zip(lead[::-1], strides[::-1], strict=True):
        if n == 1:
            continue
        if expected is None:
            step, expected = stride, stride * n
        elif stride != expected:
            return None
        else:
            expected = stride * n
    return step


class _Plan:
    """The arguments of a product of arrays of given shapes, strides and dtype."""

    def __init__(self, a: Any, b: Any, alpha: float, wide: bool):
        (n, k), m = a.shape[-2:], b.shape[-1]
        if b.shape[-2] != k:
            raise ValueError(f"the inner lengths of {a.shape} and {b.shape} differ")
        lead = a.shape[:-2] if a.ndim >= b.ndim else b.shape[:-2]
        self.fits = all(x.shape[:-2] == lead or prod(x.shape[:-2]) == 1 for x in (a, b))
        count = prod(lead)
        data, compute, scalar = _KINDS[a.dtype]
        self.dtype = np.dtype(np.float32) if wide and a.dtype.itemsize == 2 else a.dtype
        self.shape = (*lead, n, m)
        self.empty, self.nothing = not n * m * count, not k
        self.copies = [_operand(x, count) is None for x in (a, b)]
        if not self.fits or self.empty or self.nothing:
            return
        left, right = (_operand(x, count) or _copied(x) for x in (a, b))
        compute = _F32_TF32 if tf32 and data == 0 else compute
        self.one, self.zero = scalar(alpha), scalar(0)
        # cuBLAS is column-major: a matrix in rows is its transpose, and (a b)ᵀ = bᵀ aᵀ
        self.before = (right[0], left[0], m, n, k, ctypes.addressof(self.one))
        self.right, self.left = (data, *right[1:]), (data, *left[1:])
        self.after = (_KINDS[self.dtype][0], m, n * m, count, compute, -1)

    def __call__(self, a: Any, b: Any) -> Any:
        library = _library
        y = library.cupy.ndarray(self.shape, self.dtype)  # cheaper than `empty`, which calls this
        if self.empty:
            return y
        if self.nothing:
            y.fill(0)
            return y
        a = a.copy(order="C") if self.copies[0] else a
        b = b.copy(order="C") if self.copies[1] else b
        code = library.gemm(
            library.handle(), *self.before, b.data.ptr, *self.right, a.data.ptr, *self.left,
            ctypes.addressof(self.zero), y.data.ptr, *self.after,
        )  # fmt: skip
        _check(code, f"product of {a.shape} and {b.shape}")
        return y


plans: dict[tuple, _Plan] = {}
MOST_PLANS = 4096


def product(a: Any, b: Any, alpha: float = 1.0, wide: bool = False) -> Any:
    """alpha · a b for CuPy arrays (..., n, k) and (..., k, m), or None where cuBLAS cannot compute
    it.

    None for two different dtypes, integers, complex numbers, and leading axes that broadcast both
    ways. One side may have no leading axes (the same matrix for the whole batch).

    wide    return the result of 16-bit factors in float32, the dtype of its sums
    """
    if a.dtype not in _KINDS or b.dtype != a.dtype or a.ndim < 2 or b.ndim < 2:
        return None
    key = (a.shape, a.strides, b.shape, b.strides, a.dtype, alpha, wide, tf32)
    plan = plans.get(key)
    if plan is None:
        global _library
        if _library is None:
            _library = _Library()
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plan = plans[key] = _Plan(a, b, alpha, wide)
    return plan(a, b) if plan.fits else None
