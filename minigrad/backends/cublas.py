"""Matrix products on a GPU by cuBLAS's matrix library itself (cuBLASLt), called through ctypes.

CuPy's own calls widen batches of 16-bit floats, cost more on the host, and refuse a stream that is
being captured into a graph. Here 16-bit floats are multiplied on tensor cores with sums in float32,
a batch is one call, transposed views are read in place, and a bias is added within the call.
cuBLASLt separates the choice of the algorithm from the call: each form of product needs one choice.
"""

import ctypes
import threading
import weakref
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from .dtypes import bfloat16
from .leaving import contextmanager

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
_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_TRANSA, _TRANSB, _EPILOGUE, _BIAS = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
_WITH_BIAS = 4  # cublasLtEpilogue_t
_COUNT, _STEP = 5, 6  # cublasLtMatrixLayoutAttribute_t: matrices of a batch, from one to the next
_MEMORY, _ALIGNMENTS = 1, (5, 6, 7, 8)  # cublasLtMatmulPreferenceAttributes_t
_TRIED = 8  # algorithms that are timed
LEAST_TIMED = 1 << 29  # multiplications of a product that is worth it: tens of microseconds
_TURN = 2  # CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA
_SURELY = 0.98  # an algorithm replaces the first one if it takes less than this share of its time


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, as cuBLASLt proposes it."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", _SIZE), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    ]  # fmt: skip


class _Local(threading.local):
    """A thread's handles by device, and whether it times algorithms."""

    def __init__(self) -> None:
        self.handles: dict[int, list] = {}
        self.tuning = False


class _Library:
    """The functions of cuBLASLt, and a handle for each thread and device."""

    def __init__(self) -> None:
        import cupy
        from cupy_backends.cuda.libs import cublas as _loaded  # noqa: F401  loads the library

        self.cupy = cupy
        major = cupy.cuda.runtime.runtimeGetVersion() // 1000
        self.functions = ctypes.CDLL(f"libcublasLt.so.{major}")
        self.multiply = self.functions.cublasLtMatmul
        self.multiply.argtypes = [_P] * 14 + [_SIZE, _P]
        self.describe = self.functions.cublasLtMatmulDescSetAttribute
        self.describe.argtypes = [_P, ctypes.c_int, _P, _SIZE]
        self.workspaces: dict[tuple, Any] = {}  # (device, stream) -> memory for its products

    def call(self, name: str, *args: Any) -> None:
        """Call a function that need not be quick."""
        _check(getattr(self.functions, "cublasLt" + name)(*args), name)

    def made(self, name: str, *args: Any) -> Any:
        """A new object of the library: cublasLt…Create."""
        new = _P()
        self.call(name + "Create", ctypes.byref(new), *args)
        return new

    def set(self, name: str, of: Any, attribute: int, value: Any) -> None:
        """Set an attribute of such an object."""
        size = _SIZE(ctypes.sizeof(value))
        self.call(name + "SetAttribute", of, attribute, ctypes.byref(value), size)

    def place(self) -> list:
        """[this thread's handle on the current device, stream, workspace, its address, owner]."""
        cuda = self.cupy.cuda
        device, stream = cuda.runtime.getDevice(), cuda.get_current_stream().ptr
        known = _local.handles.get(device)
        if known is None:
            handle = self.made("")
            owner = _Handle(self, device, handle)
            known = _local.handles[device] = [handle, None, None, 0, owner]
        if known[1] != stream:
            memory = self.workspaces.get((device, stream))
            if memory is None:
                if len(self.workspaces) >= MOST_STREAMS:  # threads keep those they use alive
                    self.workspaces.clear()
                memory = self.workspaces[device, stream] = self.cupy.empty(WORKSPACE, np.uint8)
            known[1:4] = stream, memory, memory.data.ptr
        return known


class _Handle:
    """Releases a handle when its thread has ended."""

    def __init__(self, library: _Library, device: int, handle: Any):
        self._end = weakref.finalize(self, _destroy, library, device, handle)
        self._end.atexit = False  # the ending process releases everything, in its own order


def _destroy(library: _Library, device: int, handle: Any) -> None:
    with library.cupy.cuda.Device(device):
        library.functions.cublasLtDestroy(handle)


_library: Any = None
_local = _Local()


@contextmanager
def tuned(wanted: bool) -> Iterator[None]:
    """Within it this thread's large products use the fastest algorithm that cuBLASLt proposes.

    The first product of a form times each of them. That pays for a graph that is launched often.
    Another algorithm may add up in another order.
    """
    before, _local.tuning = _local.tuning, wanted
    try:
        yield
    finally:
        _local.tuning = before


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
    """The algorithm and the descriptions of a product of arrays of given shapes and strides."""

    def __init__(self, a: Any, b: Any, alpha: float, wide: bool, bias: Any):
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
        self.turns = False  # whether it runs on turned factors
        self.copies = [_operand(x, count) is None for x in (a, b)]
        if not self.fits or self.empty or self.nothing:
            self.fits = self.fits and bias is None
            return
        # cuBLAS is column-major: a matrix in rows is its transpose, and (a b)ᵀ = bᵀ aᵀ
        left, right = (_operand(x, count) or _copied(x) for x in (b, a))
        compute = _F32_TF32 if tf32 and data == 0 else compute
        library = _library
        self.numbers = scalar(alpha), scalar(0)
        self.one, self.zero = (ctypes.addressof(x) for x in self.numbers)
        self.bias, self.lock = _P(), threading.Lock()  # the description contains its address
        self.address = ctypes.addressof(self.bias)
        self.product = library.made("MatmulDesc", compute, 1 if data == 1 else 0)
        for attribute, value in ((_TRANSA, left[0]), (_TRANSB, right[0])):
            library.set("MatmulDesc", self.product, attribute, ctypes.c_int(value))
        self.left = _matrix(data, m, k, count, *left)
        self.right = _matrix(data, k, n, count, *right)
        self.made = _matrix(_KINDS[self.dtype][0], m, n, count, 0, m, n * m)
        objects = [("MatmulDesc", self.product)]
        objects += [("MatrixLayout", x) for x in (self.left, self.right, self.made)]
        self._end = weakref.finalize(self, _release, library, objects)
        self._end.atexit = False
        aligned = 16 if not (a.data.ptr | b.data.ptr) & 15 else a.dtype.itemsize
        found = self.algorithms(aligned)
        self.fits = bool(found)
        if found:
            self.take(found[0])
        if bias is not None and found:
            self.fits = self.takes_bias(bias)
        elif _local.tuning and len(found) > 1 and n * m * k * count >= LEAST_TIMED:
            self.choose(found, a, b)

    def algorithms(self, aligned: int) -> list:
        """The algorithms that cuBLASLt proposes, the best first. aligned: of the factors, bytes."""
        library = _library
        wish = library.made("MatmulPreference")
        library.set("MatmulPreference", wish, _MEMORY, _SIZE(WORKSPACE))
        for attribute, size in zip(_ALIGNMENTS, (aligned, aligned, 16, 16), strict=True):
            library.set("MatmulPreference", wish, attribute, ctypes.c_uint32(size))
        found, number = (_Algorithm * _TRIED)(), ctypes.c_int()
        code = library.functions.cublasLtMatmulAlgoGetHeuristic(
            library.place()[0], self.product, self.left, self.right, self.made, self.made, wish,
            _TRIED, found, ctypes.byref(number),
        )  # fmt: skip
        library.call("MatmulPreferenceDestroy", wish)
        return [] if code else [x for x in found[: number.value] if not x.state]

    def takes_bias(self, bias: Any) -> bool:
        """Whether the algorithm of the product alone can add the bias too.

        Only then a bias added within the call gives the bits of one added behind the product.
        """
        library = _library
        library.set("MatmulDesc", self.product, _EPILOGUE, ctypes.c_int(_WITH_BIAS))
        self.add(bias)
        return not library.functions.cublasLtMatmulAlgoCheck(
            library.place()[0], self.product, self.left, self.right, self.made, self.made,
            ctypes.byref(self.chosen), ctypes.byref(_Algorithm()),
        )  # fmt: skip

    def take(self, algorithm: _Algorithm) -> None:
        self.chosen, self.algorithm = algorithm, ctypes.addressof(algorithm)

    def choose(self, found: list, a: Any, b: Any) -> None:
        """Take the fastest of these algorithms; the first unless another is surely faster."""
        times = []
        for algorithm in found:
            self.take(algorithm)
            times.append(self.timed(a, b))
        best = min(range(len(found)), key=times.__getitem__)
        best = best if times[best] < _SURELY * times[0] else 0
        self.take(found[best])
        if tf32 and _turnable(a, b) and self.on_turned(a, b) is not None:
            self.turns = True
            self.turns = self.timed(a, b) < _SURELY * times[best]

    def timed(self, a: Any, b: Any) -> float:
        """The least time of a few calls, in ms."""
        events = [_library.cupy.cuda.Event() for _ in range(2)]
        took = []
        for _ in range(4):
            events[0].record()
            self(a, b, None)
            events[1].record()
            events[1].synchronize()
            took.append(_library.cupy.cuda.get_elapsed_time(*events))
        return min(took)

    def on_turned(self, a: Any, b: Any) -> Any:
        """The product of copies whose inner axis is contiguous.

        Tensor cores of Hopper read factors of TF32 only so; else a kernel turns each piece itself.
        """
        item = a.dtype.itemsize
        a = a if a.strides[1] == item else _turned(a)
        b = b if b.strides[0] == item else _turned(b.T).T
        return product(a, b, self.numbers[0].value)

    def add(self, bias: Any) -> None:
        """Put the address of the bias into the description."""
        self.bias.value = bias.data.ptr
        _check(_library.describe(self.product, _BIAS, self.address, 8), "the bias of a product")

    def __call__(self, a: Any, b: Any, bias: Any) -> Any:
        y = _library.cupy.ndarray(self.shape, self.dtype)  # cheaper than `empty`, which calls this
        if self.empty:
            return y
        if self.nothing:
            y.fill(0)
            return y
        if self.turns:
            return self.on_turned(a, b)
        a = a.copy(order="C") if self.copies[0] else a
        b = b.copy(order="C") if self.copies[1] else b
        if bias is None:
            self.run(a, b, y)
        else:
            with self.lock:
                self.add(bias)
                self.run(a, b, y)
        return y

    def run(self, a: Any, b: Any, y: Any) -> None:
        handle, stream, _, memory, _ = _library.place()
        made, at = self.made, y.data.ptr
        code = _library.multiply(
            handle, self.product, self.one, b.data.ptr, self.left, a.data.ptr, self.right,
            self.zero, at, made, at, made, self.algorithm, memory, WORKSPACE, stream,
        )  # fmt: skip
        if code:
            _check(code, f"product of {a.shape} and {b.shape}")


def _matrix(data: int, rows: int, columns: int, count: int, flip: int, line: int, step: int) -> Any:
    """A description of a factor or result (rows, columns), column-major; `flip`: transposed."""
    shape = (columns, rows) if flip else (rows, columns)
    new = _library.made("MatrixLayout", data, *[ctypes.c_uint64(n) for n in shape],
                        ctypes.c_int64(line))  # fmt: skip
    if count > 1:
        _library.set("MatrixLayout", new, _COUNT, ctypes.c_int32(count))
        _library.set("MatrixLayout", new, _STEP, ctypes.c_int64(step))
    return new


def _turnable(a: Any, b: Any) -> bool:
    """Whether `on_turned` takes these factors, and has one to turn."""
    item = a.dtype.itemsize
    if a.ndim != 2 or b.ndim != 2 or a.dtype != np.float32:
        return False
    plain = all(item in x.strides and min(x.shape) > 1 for x in (a, b))
    return plain and (a.strides[1] != item or b.strides[0] != item)


def _turned(x: Any) -> Any:
    """A contiguous copy of a matrix of float32 whose columns are contiguous."""
    (rows, columns), line = x.shape, x.strides[1] // x.dtype.itemsize
    y, library = _library.cupy.ndarray(x.shape, x.dtype), _library
    turn = library.made("MatrixTransformDesc", 0)
    library.set("MatrixTransformDesc", turn, _TURN, ctypes.c_int(1))
    given, made = (
        _matrix(0, rows, columns, 1, 0, line, 0),
        _matrix(0, columns, rows, 1, 0, columns, 0),
    )
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    handle, stream, *_ = library.place()
    try:
        library.call("MatrixTransform", handle, turn, ctypes.byref(one), _P(x.data.ptr), given,
                     ctypes.byref(zero), None, None, _P(y.data.ptr), made, _P(stream))  # fmt: skip
    finally:
        _release(
            library, [("MatrixTransformDesc", turn), *[("MatrixLayout", m) for m in (given, made)]]
        )
    return y


def _release(library: _Library, objects: list) -> None:
    for name, one in objects:
        library.call(name + "Destroy", one)


plans: dict[tuple, _Plan] = {}
MOST_PLANS = 4096


def product(a: Any, b: Any, alpha: float = 1.0, wide: bool = False, bias: Any = None) -> Any:
    """alpha · a b + bias for CuPy arrays (..., n, k) and (..., k, m), or None where cuBLAS cannot
    compute it.

    None for two different dtypes, integers, complex numbers, and leading axes that broadcast both
    ways. One side may have no leading axes (the same matrix for the whole batch).

    wide    return the result of 16-bit factors in float32, the dtype of its sums
    bias    (m,), of the same dtype, contiguous from a multiple of 16 bytes on
    """
    if a.dtype not in _KINDS or b.dtype != a.dtype or a.ndim < 2 or b.ndim < 2:
        return None
    at = a.data
    key = (
        a.shape, a.strides, b.shape, b.strides, a.dtype, alpha, wide, tf32, bias is None,
        (at.ptr | b.data.ptr) & 15, at.device_id, _local.tuning,
    )  # fmt: skip
    plan = plans.get(key)
    if plan is None:
        global _library
        if _library is None:
            _library = _Library()
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plan = plans[key] = _Plan(a, b, alpha, wide, bias)
    return plan(a, b, bias) if plan.fits else None
