"""Making tensors from data, from a fill value, from a range, from the generator.

Shapes are NumPy's, and so are the default dtypes (float64 for floating values): what NumPy makes,
minigrad wraps. `requires_grad=True` makes a leaf whose gradient a backward will bring.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import (
    DLPACK_CUDA,
    array_module,
    device_of,
    plain_array,
    resolve,
    to_device,
    to_host,
)
from ..backends.dtypes import finfo, is_floating, is_number, require_fit, resolve_dtype
from ..engine import modes
from ..engine.registry import numpy_table, op
from .help import with_call_context
from .setters import is_mapped, values_of
from .tensor import Tensor

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "ones", "ones_like", "rand", "randn", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | Sequence[int]


@with_call_context
def tensor(
    data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with a copy of the data (numbers, nested lists, an array, a tensor), on `device`;
    by default where the data is.

    The copy keeps later writes to the source array from changing what the graph has saved. Numbers
    must fit an integer dtype: OverflowError, ValueError for NaN. Arrays are cast as by astype.
    """
    if isinstance(dtype, int | float | complex):
        raise TypeError(
            f"mg.tensor takes all numbers as one argument, mg.tensor([1.0, 2.0]); the second is "
            f"the dtype, and got {dtype!r}"
        )
    if isinstance(data, Tensor):
        if is_mapped(data):
            return op.to(data.detach().copy(), dtype=dtype, device=device).requires_grad_(
                requires_grad
            )
        device = device or data.device
        data = values_of(data)
    elif isinstance(data, list | tuple) and _holds_tensor(data):
        data = _arrays_in(data)
    wanted = resolve_dtype(dtype)
    try:
        plain = plain_array(data)
        if plain is not data:
            _keep_imaginary("tensor", plain, wanted)
        plain = _fitting(data, plain, wanted)
        array = _copied(plain, device or device_of(plain), wanted)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            "mg.tensor: the nested lists have different lengths; a tensor is rectangular, so pad "
            f"the short ones or make one tensor of each ({error})"
        ) from None
    return Tensor(array, requires_grad)


def _fitting(data: Any, plain: Any, dtype: np.dtype | None) -> Any:
    """The plain array of the data; numbers that are to be integers must fit, to the last digit."""
    if dtype is None or dtype.kind not in "iu" or not is_number(data):
        return plain
    if plain.dtype.kind not in "iuf":
        return plain
    if plain.dtype.kind != "f" or dtype.itemsize < 8 or isinstance(data, np.generic):
        require_fit(plain, dtype)  # of 64 bits floats have no exact limits, but NumPy looks at each
    return np.asarray(data, dtype) if plain.dtype.kind == "f" else plain


def _keep_imaginary(name: str, numbers: Any, dtype: np.dtype | None) -> None:
    """TypeError for complex numbers that are to be given a real dtype, which would cut them."""
    if dtype is not None and np.iscomplexobj(numbers) and dtype.kind != "c":
        raise TypeError(
            f"mg.{name}: dtype={dtype} has no imaginary parts, and these numbers do; give "
            "dtype=mg.complex128, or the real parts"
        )


def _copied(data: Any, device: str, dtype: Any) -> Any:
    """A copy of the data on `device`; transfers between devices are counted."""
    if device == "cpu":
        return np.array(data if array_module(data) is np else to_host(data), dtype=dtype, copy=True)
    array = to_device(data, device, dtype)
    return resolve(device).array(array) if array is data else array


def as_tensor(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """The data as a tensor, without a copy where possible.

    A tensor is returned as it is, or cast and moved as by x.to. Numbers must fit an integer dtype,
    as in mg.tensor; arrays are cast.
    """
    if isinstance(data, Tensor):
        same = dtype is None and device in (None, data.device)
        return data if same else op.to(data, dtype=dtype, device=device)
    wanted = resolve_dtype(dtype)
    plain = _fitting(data, plain_array(data), wanted)
    return Tensor(to_device(plain, device or device_of(plain), wanted))


def from_dlpack(x: Any, device: str | None = None, copy: bool | None = None) -> Tensor:
    """The array of another library (NumPy, CuPy, PyTorch ...) as a constant tensor, by DLPack.

    Memory is shared unless copy=True, and stays read-only where it was. BufferError where x is a
    tensor that requires a gradient: pass x.detach().
    """
    if not hasattr(x, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__; use mg.tensor(data)")
    kind, number = x.__dlpack_device__()
    source = f"cuda:{number}" if kind == DLPACK_CUDA else "cpu"
    if device is not None and device != source:
        raise ValueError(f"from_dlpack: x is on {source}; take it over, then use .to({device!r})")
    if copy:  # CuPy's from_dlpack has no copy=
        return Tensor(resolve(source).from_dlpack(x).copy())
    return Tensor(resolve(source).from_dlpack(x))


def _holds_tensor(items: Any) -> bool:
    stack = list(items)
    while stack:
        item = stack.pop()
        if isinstance(item, Tensor):
            return True
        if isinstance(item, list | tuple):
            stack.extend(item)
    return False


def _arrays_in(item: Any) -> Any:
    """Nested lists with the arrays of the tensors in them, which are constants of the host."""
    if isinstance(item, list | tuple):
        return [_arrays_in(part) for part in item]
    if not isinstance(item, Tensor):
        return item
    if item.requires_grad or item.level or item.device != "cpu":
        raise TypeError("mg.tensor of tensors would drop their history; use mg.stack([...])")
    return item.data


@with_call_context
def zeros(
    *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros: zeros(2, 3) and zeros((2, 3)) are the same."""
    return Tensor(resolve(device).zeros(_shape(shape), _or_float(dtype)), requires_grad)


@with_call_context
def ones(
    *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones: ones(2, 3) and ones((2, 3)) are the same."""
    return Tensor(resolve(device).ones(_shape(shape), _or_float(dtype)), requires_grad)


@with_call_context
def empty(
    *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with arbitrary values: those that the memory held."""
    return Tensor(resolve(device).empty(_shape(shape), _or_float(dtype)), requires_grad)


@with_call_context
def full(
    shape: Shape,
    fill_value: Any,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value; its dtype is the value's where none is given.

    A number that does not fit an integer dtype is an OverflowError, NaN a ValueError.
    """
    wanted = resolve_dtype(dtype)
    _keep_imaginary("full", fill_value, wanted)
    if is_number(fill_value):
        require_fit(fill_value, wanted)
    array = resolve(device).full(shape, fill_value, dtype=wanted)
    return Tensor(array, requires_grad)


@with_call_context
def zeros_like(
    x: Any, dtype: Any = None, requires_grad: bool = False, *, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Zeros of x's shape, dtype and device, or of those given; always a constant."""
    return _on(device, op.zeros_like(as_tensor(x), dtype=dtype, shape=shape), requires_grad)


@with_call_context
def ones_like(
    x: Any, dtype: Any = None, requires_grad: bool = False, *, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Ones of x's shape, dtype and device, or of those given; always a constant."""
    return _on(device, op.ones_like(as_tensor(x), dtype=dtype, shape=shape), requires_grad)


@with_call_context
def empty_like(
    x: Any, dtype: Any = None, requires_grad: bool = False, *, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Uninitialised memory of x's shape, dtype and device, or of those given."""
    return _on(device, op.empty_like(as_tensor(x), dtype=dtype, shape=shape), requires_grad)


@with_call_context
def full_like(
    x: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, *, shape: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """One value in x's shape, dtype and device, or in those given."""
    x = as_tensor(x)
    _keep_imaginary("full_like", fill_value, x.dtype if dtype is None else resolve_dtype(dtype))
    y = op.full_like(x, fill_value=fill_value, dtype=dtype, shape=shape)
    return _on(device, y, requires_grad)


def _on(device: str | None, y: Any, requires_grad: bool) -> Tensor:
    """y on the device, a leaf where a gradient is required."""
    return (y if device is None else op.to(y, device=device)).requires_grad_(requires_grad)


@with_call_context
def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Evenly spaced values in [start, stop), as NumPy's; arange(n) counts from 0.

    OverflowError where they leave an integer dtype, where NumPy's wrap around.
    """
    if stop is None:
        start, stop = 0, start
    wanted = resolve_dtype(dtype)
    array = resolve(device).arange(start, stop, step, dtype=wanted)
    if wanted is not None and wanted.kind in "iu" and array.size:
        first, by = (x.item() if hasattr(x, "item") else x for x in (start, step))
        require_fit([first, first + (array.size - 1) * by], wanted)
    return Tensor(array, requires_grad)


@with_call_context
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`num` evenly spaced values from start to stop; of tensors, with their derivatives.

    Those of an integer dtype are rounded down. OverflowError where they leave it.
    """
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        y = numpy_table[np.linspace](start, stop, num, endpoint, dtype=dtype)
        y = y if device is None else y.to(device)
        return y.requires_grad_() if requires_grad else y
    wanted = resolve_dtype(dtype)
    if wanted is not None and wanted.kind in "iu":
        require_fit(np.floor(np.linspace(start, stop, num, endpoint=endpoint)), wanted)
    array = resolve(device).linspace(start, stop, num, endpoint=endpoint, dtype=wanted)
    return Tensor(array, requires_grad)


@with_call_context
def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The identity matrix n × m with ones on diagonal k."""
    return Tensor(resolve(device).eye(n, m, k, dtype=_or_float(dtype)), requires_grad)


@with_call_context
def rand(
    *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Uniform on [0, 1), from the device's generator (mg.manual_seed).

    Of a complex dtype both parts are.
    """

    def draw(shape: tuple, dtype: np.dtype) -> Tensor:
        y = tensor(random.generator_on(device).random(shape), dtype, device)
        if is_floating(y.dtype) and y.dtype.itemsize < 8:
            # drawn in float64: in fewer digits what is just below 1 would round to 1
            below = np.asarray(1 - finfo(y.dtype).eps / 2, y.dtype)
            y.data[y.data > below] = below
        return y

    make = _by_parts(draw, dtype)
    return drawn(make, _shape(shape)).requires_grad_(requires_grad)


@with_call_context
def randn(
    *shape: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Standard normal, from the device's generator (mg.manual_seed).

    Of a complex dtype E |y|² = 1: each part has variance ½.
    """

    def draw(shape: tuple, dtype: np.dtype) -> Tensor:
        return tensor(random.generator_on(device).standard_normal(shape), dtype, device)

    make = _by_parts(draw, dtype, 0.5**0.5)
    return drawn(make, _shape(shape)).requires_grad_(requires_grad)


def _by_parts(draw: Callable, dtype: Any, scale: float = 1.0) -> Callable[[tuple], Tensor]:
    """draw(shape, dtype) as a function of the shape; of a complex dtype scale · (two parts)."""
    dtype = resolve_dtype(dtype or float)
    if dtype.kind != "c":
        return lambda shape: draw(shape, dtype)
    real = np.empty(0, dtype).real.dtype

    def both(shape: tuple) -> Tensor:
        re, im = draw(shape, real), draw(shape, real)
        return Tensor(scale * (re.data + 1j * im.data))

    return both


def drawn(make: Callable[[Any], Tensor], shape: Any) -> Tensor:
    """A random tensor; inside vmap its `randomness` says whether the examples share it."""
    inside_vmap = modes.state.randomness
    if inside_vmap is None:
        return make(shape)
    return inside_vmap(make, (shape,) if isinstance(shape, int | np.integer) else tuple(shape))


def _shape(shape: tuple) -> Any:
    shape = shape[0] if len(shape) == 1 else shape
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    wrong = next(
        (n for n in sizes if isinstance(n, _NO_LENGTH) or (n.__class__ is int and n < 0)), 0
    )
    if wrong != 0:
        by_name = isinstance(sizes[-1], (str, type, np.dtype))
        raise (ValueError if wrong.__class__ is int else TypeError)(
            f"a shape is made of integers, 0 or more; got {wrong!r} in {shape!r}"
            f"{'; a dtype goes by name, dtype=' if by_name else ''}"
        )
    return shape


_NO_LENGTH = (float, str, tuple, list, type, np.dtype)


def _or_float(dtype: Any) -> Any:
    return np.float64 if dtype is None else resolve_dtype(dtype)
