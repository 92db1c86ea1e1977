"""The devices of arrays. Rules are NumPy expressions, which run on CuPy arrays unchanged.

A device is "cpu", "cuda" (the current GPU) or "cuda:i". Nothing moves between devices unless the
program asks for it. Every copy between host and GPU goes through `to_host` and `to_device`, which
count it (`transfers`) and notify the observers.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from time import perf_counter_ns
from types import ModuleType
from typing import Any

import numpy as np

from .dtypes import KINDS, bfloat16
from .leaving import contextmanager


class ErrorAbout(Exception):
    """Base of errors with details: attributes that their classes name.

    An attribute is None where the error does not know it. Attributes are pickled with the error.
    """

    def __init__(self, message: str = "", **about: Any):
        super().__init__(message)
        for name, value in about.items():
            getattr(self, name)  # AttributeError for any other name
            setattr(self, name, value)


class DeviceError(ErrorAbout, RuntimeError):
    """A device does not exist, or one op has arrays of two devices.

    device    the device that was asked for, or needed
    devices   the devices of the arrays, or the existing ones
    """

    device: str | None = None
    devices: tuple[str, ...] | None = None


def array_module(x: Any) -> ModuleType:
    """The module of the array x: numpy, or cupy for an array on a GPU."""
    cupy = sys.modules.get("cupy")  # CuPy is never imported on behalf of a NumPy user
    return cupy if cupy is not None and isinstance(x, cupy.ndarray) else np


def module_on(device: str) -> ModuleType:
    """The module of the arrays on a device."""
    return np if device == "cpu" else sys.modules["cupy"]


class OperandError(ErrorAbout, TypeError):
    """An argument of an op is neither a tensor nor numbers: text, a date, an object.

    given_type    the name of its class
    given_dtype   its dtype, if it is an array
    """

    given_type: str | None = None
    given_dtype: np.dtype | None = None


def as_operand(x: Any) -> Any:
    """An argument of an op that is not a tensor, as a plain array of numbers (see plain_array).

    NumPy would compute with objects one by one, and nothing would record a gradient.
    """
    array = plain_array(x)
    kind = array.dtype.kind
    if kind not in KINDS or kind == "V" and array.dtype != bfloat16:
        if array is x:
            raise OperandError(
                f"an array of {array.dtype} holds no numbers that an op computes with; "
                "if its entries are numbers, pass x.astype(float)",
                given_type=type(x).__name__, given_dtype=x.dtype,
            )  # fmt: skip
        raise OperandError(
            f"{x!r:.60} ({type(x).__name__}) is neither a tensor nor an array nor a number; give "
            "float(x) for a number of another kind, mg.stack([...]) for several tensors",
            given_type=type(x).__name__,
        )
    return array


def plain_array(x: Any) -> Any:
    """A value that is not a tensor, as a plain array.

    Scalars, CuPy arrays, and arrays that record an op (fusion, tapes) stay as they are. A subclass
    would change the meaning of an op: np.matrix makes g * x a matrix product.
    """
    if hasattr(x, "dtype") and not issubclass(type(x), np.ndarray):
        if not isinstance(x.dtype, np.dtype):
            return _from_elsewhere(x)
        if hasattr(x, "toarray"):  # NumPy would treat it as one object
            raise TypeError(
                f"a {type(x).__name__} is sparse, and tensors are dense; pass x.toarray()"
            )
        return x
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(NO_MASKS)
    return np.asarray(x)


NO_MASKS = (
    "a masked array cannot take part in a computation with gradients, which have no masks; pass "
    "x.filled(value), and select with mg.where(mask, a, b)"
)


DLPACK_CUDA = 2  # the kind of a GPU in __dlpack_device__


def _from_elsewhere(x: Any) -> Any:
    """A tensor of another library, with other dtypes than NumPy's, as an array of its values."""
    try:
        kind, number = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
        if kind == DLPACK_CUDA:
            return resolve(f"cuda:{number}").from_dlpack(x)
        if "bfloat16" in str(x.dtype) and hasattr(x, "float"):  # PyTorch's, which NumPy lacks
            wide = np.asarray(x.float())
            return wide if bfloat16 is None else wide.astype(bfloat16)
        return np.asarray(x)
    except Exception as error:  # PyTorch: it requires a gradient
        raise OperandError(
            f"{type(x).__module__}.{type(x).__name__} is a tensor of another library, and NumPy "
            f"cannot read it: {error} Gradients do not pass from one library to the other",
            given_type=type(x).__name__,
        ) from None


_NAMES = [f"cuda:{i}" for i in range(64)]


def device_of(x: Any) -> str:
    """ "cpu", or "cuda:i" for a CuPy array."""
    cupy = sys.modules.get("cupy")  # inlined array_module: a call on a GPU needs it several times
    return "cpu" if cupy is None or not isinstance(x, cupy.ndarray) else _NAMES[x.data.device_id]


def kind_of(x: Any) -> str:
    """ "cpu", or "cuda" for an array of any GPU."""
    return "cpu" if array_module(x) is np else "cuda"


def is_contiguous(x: Any) -> bool:
    """x.flags.c_contiguous, without the Python object that CuPy would make for the flags."""
    try:
        return x._c_contiguous
    except AttributeError:  # not a CuPy array
        return x.flags.c_contiguous


def resolve(device: str | None) -> Any:
    """The module that makes arrays on `device` (None: "cpu"): numpy, cupy, or cupy on one GPU."""
    if device in (None, "cpu"):
        return np
    kind, _, number = str(device).partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise ValueError(f"there is no device {device!r}; use 'cpu', 'cuda' or 'cuda:0'")
    cupy = require_gpu(f"device {device!r}")
    if not number:
        return cupy
    count = cupy.cuda.runtime.getDeviceCount()
    if int(number) >= count:
        raise DeviceError(
            f"there is no device {device!r}: this machine has {count} GPU(s)", device=device
        )
    if int(number) == cupy.cuda.runtime.getDevice():
        return cupy
    notice_several()
    return On(cupy, int(number))


def require_gpu(what: str) -> Any:
    """CuPy, if it is installed and finds a GPU; else an error that names the missing part."""
    try:
        import cupy
    except ImportError:
        raise DeviceError(
            f"{what} needs CuPy: pip install '/path/to/the/checkout[gpu]', on a "
            "machine with an NVIDIA driver",
            device="cuda",
        ) from None
    if not cupy.cuda.is_available():
        raise DeviceError(
            f"{what} needs a GPU: CuPy is installed, but sees no NVIDIA driver", device="cuda"
        )
    if on_first_gpu:
        _prepare()
    return cupy


plain_arrays: set[type] = {np.ndarray}  # the classes of arrays with which ops compute directly
on_first_gpu: list[Callable[[], None]] = []  # run at the first use of a GPU


def _prepare() -> None:
    plain_arrays.add(sys.modules["cupy"].ndarray)
    while on_first_gpu:
        on_first_gpu.pop()()


several = False  # whether this process has used a GPU that was not the current one
on_second_gpu: list[Callable[[], None]] = []  # run when that becomes true


def notice_several() -> None:
    """From now on look at each array's GPU."""
    global several
    several = True
    while on_second_gpu:
        on_second_gpu.pop()()


def of_a_gpu(x: Any) -> Any:
    """x, an array that CuPy has made for the user, which may be the first on its GPU."""
    if not several and x.data.device_id != require_gpu("an array of CuPy").cuda.runtime.getDevice():
        notice_several()
    return x


HERE = nullcontext()


def at(x: Any) -> AbstractContextManager:
    """A context with the GPU of the array x as the current one: there CuPy computes and allocates.

    HERE, which changes nothing, for a NumPy array and where that GPU is the current one already.
    """
    cupy = sys.modules["cupy"] if several else None
    if cupy is None or not isinstance(x, cupy.ndarray):
        return HERE
    number = x.data.device_id
    return HERE if number == cupy.cuda.runtime.getDevice() else cupy.cuda.Device(number)


class On:
    """CuPy's functions, or an object's methods, run with one GPU as the current one."""

    def __init__(self, cupy: Any, number: int, target: Any = None):
        self._cupy, self._number = cupy, number
        self._target = cupy if target is None else target

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._target, name)
        if isinstance(function, type | ModuleType) or not callable(function):
            return function

        def there(*args: Any, **kwargs: Any) -> Any:
            with self._cupy.cuda.Device(self._number):
                return function(*args, **kwargs)

        return there


# -- copies between host and GPU ---------------------------------------------------------------


@dataclass
class Transfers:
    """The arrays and bytes copied each way since the process began."""

    to_host: int = 0
    to_device: int = 0
    bytes_to_host: int = 0
    bytes_to_device: int = 0


memory_hooks: list[Any] = []  # CuPy's belong to one thread: helpers enter these too
transfers = Transfers()
observers: list[Callable[[str, int, int, Any], None]] = []  # (direction, t0, t1, the array)


def device_here() -> Callable[[], AbstractContextManager]:
    """A context that gives another thread this thread's CuPy device, stream and memory hooks."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return nullcontext
    device, stream = cupy.cuda.Device().id, cupy.cuda.get_current_stream()

    @contextmanager
    def entered() -> Iterator[None]:
        with ExitStack() as stack:
            for part in (cupy.cuda.Device(device), stream, *memory_hooks):
                stack.enter_context(part)
            yield

    return entered


def to_host(x: Any, into: np.ndarray | None = None) -> np.ndarray:
    """x as a NumPy array; a counted copy if it is on a GPU. Waits for the GPU's work on it.

    into: an array of x's shape and dtype that takes the copy.
    """
    if array_module(x) is np:
        return np.asarray(x)
    t0 = perf_counter_ns()
    with at(x):
        y = x.get(out=into)
    transfers.to_host += 1
    transfers.bytes_to_host += y.nbytes
    for tell in observers:
        tell("to host", t0, perf_counter_ns(), y)
    return y


def to_device(x: Any, device: str | None, dtype: Any = None) -> Any:
    """x (an array, a list, a number) as an array on `device`; a counted copy from elsewhere."""
    xp = resolve(device)
    if xp is np:
        return np.asarray(to_host(x), dtype=dtype)
    if several and array_module(x) is not np:
        return _to_gpu(x, str(device).partition(":")[2], dtype)
    t0 = perf_counter_ns()
    y = xp.asarray(x, dtype=dtype)
    if array_module(x) is np:
        transfers.to_device += 1
        transfers.bytes_to_device += y.nbytes
        for tell in observers:
            tell("to device", t0, perf_counter_ns(), y)
    return y


def _to_gpu(x: Any, number: str, dtype: Any) -> Any:
    """The GPU array x on the GPU of this number ("": the current one).

    A copy waits for the work that writes x. Later work on x's GPU, which may write to x or get its
    memory, waits for the copy.
    """
    cupy = sys.modules["cupy"]
    current_stream = cupy.cuda.get_current_stream
    with cupy.cuda.Device(int(number)) if number else cupy.cuda.Device():
        stream, here = current_stream(), cupy.cuda.runtime.getDevice()
        if x.data.device_id == here:
            return cupy.asarray(x, dtype=dtype)
        with at(x):
            source = current_stream()
            written = source.record()
        stream.wait_event(written)
        y = cupy.asarray(x, dtype=dtype)
        copied = stream.record()
        with at(x):
            source.wait_event(copied)
        return y
