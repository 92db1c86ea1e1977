"""Tensors from values, shapes and ranges. All are constants: x.requires_grad_() makes a leaf."""

from typing import Any

from ..backends.device import device_of, resolve
from ..backends.dtypes import resolve_dtype
from ..engine.graph import raw
from ..engine.registry import op
from ..ops.axes import constant_array
from ..tensor_api import create
from ..tensor_api.tensor import Tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Numbers, nested lists, an array or a tensor as a tensor.

    copy None: only where it is needed; True: always; False: ValueError where it is needed. A copy,
    or a change of dtype or device, of a tensor that requires a gradient is recorded.
    """
    if isinstance(obj, Tensor):
        return _of_tensor(obj, resolve_dtype(dtype), device, copy)
    array = resolve(device or device_of(obj)).array(obj, dtype=resolve_dtype(dtype), copy=copy)
    if array.dtype.kind in "OSU":
        raise TypeError(f"cannot make a tensor of {array.dtype} values; give numbers or booleans")
    return Tensor(array)


def _of_tensor(x: Tensor, dtype: Any, device: str | None, copy: bool | None) -> Tensor:
    changes = dtype not in (None, x.dtype) or device not in (None, x.device)
    if not changes:
        return op.copy(x) if copy else x
    if copy is False:
        raise ValueError(
            f"asarray: {x.dtype} on {x.device} as {dtype or x.dtype} on {device or x.device} needs "
            "a copy; use copy=None"
        )
    return op.to(x, device, dtype)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array of another library, without a copy where possible: mg.from_dlpack."""
    return create.from_dlpack(x, device=device, copy=copy)


def empty(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """A tensor with arbitrary values: those that the memory held."""
    return create.empty(shape, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros."""
    return create.zeros(shape, dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones."""
    return create.ones(shape, dtype=dtype, device=device)


def full(shape: Shape, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """One value everywhere; its dtype is the value's where none is given."""
    return create.full(shape, raw(fill_value), dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Uninitialised memory of x's shape."""
    return op.to(op.empty_like(x, dtype=resolve_dtype(dtype)), device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros of x's shape."""
    return op.to(op.zeros_like(x, dtype=resolve_dtype(dtype)), device)


def ones_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones of x's shape."""
    return op.to(op.ones_like(x, dtype=resolve_dtype(dtype)), device)


def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: str | None = None
) -> Tensor:  # fmt: skip
    """One value in x's shape and, unless another is given, in x's dtype."""
    y = op.full_like(
        x, fill_value=constant_array(fill_value, "fill_value"), dtype=resolve_dtype(dtype)
    )
    return op.to(y, device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Evenly spaced values in [start, stop), or in [0, start) where stop is left out."""
    return create.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced values from start to stop, which endpoint=False leaves out."""
    return create.linspace(start, stop, num, endpoint=endpoint, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
) -> Tensor:
    """Ones on diagonal k of a matrix, zeros elsewhere."""
    return create.eye(n_rows, n_cols, k, dtype=dtype, device=device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list:
    """Coordinate arrays of a grid of 1-d arrays."""
    return list(op.meshgrid(*arrays, indexing=indexing))


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The lower triangles of matrices: zero where column − row > k."""
    return op.tril(x, k=k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The upper triangles of matrices: zero where column − row < k."""
    return op.triu(x, k=k)
