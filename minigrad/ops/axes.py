"""Helpers of reductions and shape ops: axes, and gradients that go back over them."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ..backends.device import (
    array_module,
    as_operand,
    device_of,
    module_on,
    to_device,
    to_host,
)
from ..backends.dtypes import (
    accumulator,
    bfloat16,
    common_dtype,
    in_one_dtype,
    is_differentiable,
    is_number,
    refuse_gradient,
    require_fit,
    resolve_dtype,
)
from ..engine.graph import raw
from ..engine.registry import op
from ..errors import TransformError
from ..tensor_api.tensor import Tensor

_NUMBERS = (float, int, bool)


def array_like(x: Any) -> Any:
    """x itself if it is an array or a tensor (its dtype is NumPy's), else the NumPy array of it.

    TypeError for text, None and other objects.
    """
    return x if isinstance(getattr(x, "dtype", None), np.dtype) else as_operand(x)


def sortable(x: Any) -> Any:
    """x, or bfloat16 as float32: its own sort leaves NaN anywhere, and CuPy has none."""
    return x.astype(np.float32) if bfloat16 is not None and x.dtype == bfloat16 else x


def module_of(x: Any) -> Any:
    """The array module (numpy, cupy) of an array or of the array inside a tensor."""
    # by the device of a tensor, which is known before its numbers are (mg.compile)
    return module_on(x.device) if isinstance(x, Tensor) else array_module(x)


def constant_like(values: Any, x: Any) -> Any:
    """Numbers worked out on the host (weights, positions) as an array on the device of x."""
    device = x.device if isinstance(x, Tensor) else device_of(x)
    return values if device_of(values) == device else to_device(values, device)


def array_beside(x: Any, other: Any) -> Any:
    """x itself if it is an array or a tensor; a number or list as an array on other's device."""
    is_array = hasattr(x, "shape") and not isinstance(x, np.generic)
    return x if is_array else constant_like(np.asarray(x), other)


def goes_into(value: Any, x: Any) -> Any:
    """A value to be written into x, as an array or tensor on its device; numbers must fit x's
    dtype."""
    if is_number(value):
        require_fit(value, x.dtype)
    return array_beside(value, x)


def both_arrays(a: Any, b: Any) -> tuple[Any, Any]:
    """a and b as arrays or tensors; a number or list goes to the other array's device."""
    return array_like(array_beside(a, b)), array_like(array_beside(b, a))


def number_in(value: Any, dtype: Any, argument: str) -> Any:
    """A Python number that goes into an array of this dtype: of an integer one, cut as NumPy does.

    OverflowError beyond the dtype, TypeError for a complex number in a real dtype. Arrays and
    tensors are given back.
    """
    if type(value) is complex and dtype.kind != "c":
        raise TypeError(f"{argument} {value} is complex, and goes into {dtype}: give its real part")
    if type(value) in (int, float) and dtype.kind in "iu":
        return np.asarray(value, dtype).item()
    return value


def device_of_any(x: Any) -> str:
    """The device of a tensor or an array. That of a result that mg.compile awaits is known without
    a look at its numbers.
    """
    return x.device if isinstance(x, Tensor) else device_of(x)


def on_host(x: Any) -> Any:
    """The NumPy array of a constant, copied from the device where it lies on one."""
    return to_host(raw(x))


_ONE_BY_ONE = (
    "; share one value between all examples (in_dims=None), or call the function on each example "
    "in a loop, since what it returns may have another shape for each"
)


def constant_array(x: Any, argument: str = "", instead: str = _ONE_BY_ONE) -> Any:
    """The plain array of an argument that carries no gradient (an index, a q).

    With the argument's name, one that requires a gradient is refused: it would get none in silence.
    A value that vmap batches has none, as its batch axis is hidden behind its shape: the error
    says what to do `instead`.
    """
    while isinstance(x, Tensor):
        if argument:
            refuse_gradient(x, argument)
        if x.shape != x.data.shape:
            raise TransformError(
                f"{argument or 'this argument'} must be the same for every example, but vmap "
                f"batches it{instead}"
            )
        x = x.data
    return x


def constant_of_each(x: Any) -> Any:
    """The plain array of a constant, or vmap's tensor of it where each example has its own."""
    while isinstance(x, Tensor) and not getattr(x, "hides_axis", False):
        x = x.data
    return x


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` (None, an int, a tuple) means, counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:  # by far the most frequent
        return (axis % ndim,)
    if ndim == 0 and axis in (0, -1):  # NumPy's reductions take these for a 0-d array
        return ()
    return normalize_axis_tuple(axis, ndim)


def axis_of(axis: int, ndim: int) -> int:
    """One axis, counted from the front; out of bounds is NumPy's AxisError."""
    if type(axis) is int and -ndim <= axis < ndim:
        return axis % ndim
    if not hasattr(axis, "__index__"):  # of a tuple one axis would be taken, and the others not
        raise TypeError(f"axis must be one integer here, got {axis!r}")
    return normalize_axis_index(axis, ndim)


def count(shape: tuple, axis: Any) -> int:
    """How many elements a reduction over `axis` combines into one result."""
    return prod(shape[i] for i in axes_of(axis, len(shape)))


def weights_of(name: str, weights: Any, x: Any, axis: Any) -> Any:
    """A weight for each element of x: given so, or for each place along `axis`, one or several."""
    if weights.shape == x.shape:
        return weights
    axes = () if axis is None else normalize_axis_tuple(axis, x.ndim)
    if axis is None or weights.shape != tuple([x.shape[i] for i in axes]):
        raise ValueError(
            f"{name}: weights {weights.shape} must have x's shape {x.shape}, or its lengths along "
            f"axis={axis}"
        )
    weights = op.transpose(weights, axes=tuple(np.argsort(axes).tolist()))
    weights = weights.reshape([n if i in axes else 1 for i, n in enumerate(x.shape)])
    return op.broadcast_to(weights, shape=x.shape)


def sum_to(c: Any, shape: tuple) -> Any:
    """c summed over the axes along which `shape` was broadcast to c's: broadcasting undone."""
    if c.shape == tuple(shape):
        return c
    extra = c.ndim - len(shape)
    axes = [i for i, n in enumerate(c.shape) if i < extra or shape[i - extra] == 1 != n]
    if axes:  # where all of them go the sum has the shape at once: no view, so nobody copies it
        c = op.sum(c, axis=tuple(axes), keepdims=axes[-1] >= extra)
    return c if c.shape == tuple(shape) else c.reshape(shape)


def plus(a: Any, b: Any) -> Any:
    """a + b of two gradients or tangents, where None is zero."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def accumulate(reduction: Callable, x: Any, dtype: Any = None, **options: Any) -> Any:
    """reduction(x) with NumPy's dtype=, but 16-bit floats are added up in float32.

    2048 + 1 is 2048 in float16, and 256 + 1 is 256 in bfloat16: a running sum would stop there.
    """
    if dtype is not None:
        dtype = resolve_dtype(dtype)
    result = x.dtype if dtype is None else dtype
    wide = accumulator(result)
    if wide is None:
        return reduction(x, dtype=dtype, **options)
    return reduction(x, dtype=wide, **options).astype(result)


def as_floating(x: Any) -> Any:
    """x, as float64 if it holds integers or booleans: the fractions of a mean have no place
    among these."""
    return x if is_differentiable(x.dtype) else x.astype(np.float64)


def floating_together(*values: Any) -> list:
    """The values as arrays or tensors of floats. Python numbers get the dtype of the arrays: log
    2.0 alone would be a float64, and no longer weak."""
    arrays = [x if type(x) in _NUMBERS else as_floating(array_like(x)) for x in values]
    beside = [x for x in arrays if type(x) not in _NUMBERS]
    if not beside:
        return [np.asarray(x, np.float64) for x in arrays]
    dtype = common_dtype(*[x.dtype for x in beside])
    return [
        constant_like(np.asarray(x, dtype), beside[0]) if type(x) in _NUMBERS else x for x in arrays
    ]


def widen(x: Any) -> Any:
    """x in float32 if it is a 16-bit float, else x itself; a Python number has no width."""
    wide = None if type(x) in _NUMBERS else accumulator(x.dtype)
    return x if wide is None else x.astype(wide)


def in_wide(function: Any, *arrays: Any) -> Any:
    """function(*arrays) with 16-bit floats in float32 for all of its steps; its result is rounded
    once. Sums lose no digits at each step, and intermediate products may exceed 65504.
    """
    dtype = common_dtype(*arrays)
    wide = accumulator(dtype)
    if wide is None:
        return function(*in_one_dtype(*arrays))
    return function(*[x.astype(wide) if hasattr(x, "dtype") else x for x in arrays]).astype(dtype)
