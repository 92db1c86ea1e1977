"""The same values in another dtype, on another device, in another layout.

Each passes the gradient back in the source's dtype and device.
"""

from typing import Any

import numpy as np

from ..backends.device import device_of, to_device
from ..backends.dtypes import is_differentiable, resolve_dtype
from ..engine.primitive import linear, primitive
from ..tensor_api.composite import composite
from ..tensor_api.tensor import Tensor
from .axes import array_like
from .batching import one_more_axis

__all__ = ["ascontiguousarray", "astype", "contiguous", "copy", "positive", "to"]


def _converted(x: Any, dtype: Any) -> Any:
    """x in this dtype; a complex x gives its real part to a real dtype."""
    x = x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x
    return x.astype(dtype)


@linear
def cast(x, dtype=None):
    """y = x in another floating or complex dtype ;  gx = g in x's dtype"""
    return _converted(x, dtype)


@cast.vjp("x")
def cast_dx(g):
    return g  # the engine restores x's dtype, and takes the real part for a real x


@primitive(differentiable=False)
def discretize(x, dtype=None):
    """y = x in an integer or boolean dtype, as NumPy's astype; a constant: no gradient"""
    return _converted(x, dtype)


@composite(numpy=getattr(np, "astype", ()))  # np.astype came with NumPy 2.1
def astype(x: Any, dtype: Any, copy: bool = True, device: str | None = None) -> Any:
    """y = x as `dtype` ("bfloat16" too) ;  gx = g in x's dtype

    Complex to real takes the real part. An integer or boolean result is a constant. Integers are
    C's, as NumPy's are: values out of range wrap round, and NaN gives any. With copy=False an x of
    that dtype already comes back as it is.
    """
    dtype = resolve_dtype(dtype)
    if dtype is None:
        raise TypeError("astype: dtype=None; name one, as in x.astype(np.float64)")
    x = array_like(x)
    if x.dtype == dtype and not copy:
        return x
    y = cast(x, dtype=dtype) if is_differentiable(dtype) else discretize(x, dtype=dtype)
    return y if device is None else to(y, device)


@linear
def device_copy(x, device="cpu", source="cpu"):
    """y = x on another device, a copy ;  gx = g on `source`, which is x's device"""
    if device_of(x) != source:
        raise ValueError(f"x lies on {device_of(x)}, not on {source}; mg.to finds that out itself")
    y = to_device(x, device)
    return x.copy() if y is x else y


@device_copy.vjp("x")
def device_copy_dx(g, source):
    return to(g, device=source)


@composite
def to(
    x: Any, *targets: Any, device: str | None = None, dtype: Any = None, non_blocking: bool = False
) -> Any:
    """x on a device and in a dtype; x itself where it has both already.

    The targets are a device ("cpu", "cuda:0"), a dtype, both in any order, or a tensor, for its
    device and dtype. PyTorch's non_blocking= is accepted and has no effect.
    """
    for target in targets:
        given = _target(target)
        if (given["device"] and device) or (given["dtype"] is not None and dtype is not None):
            raise TypeError(f"to: {target!r} gives a device or dtype that was given already")
        device, dtype = device or given["device"], given["dtype"] if dtype is None else dtype
    source = x.device if isinstance(x, Tensor) else device_of(x)
    if device not in (None, source):
        x = device_copy(x, device=device, source=source)
    return x if dtype is None else astype(x, dtype, copy=False)


def _target(target: Any) -> dict[str, Any]:
    """The target in one argument of `to`: a device, a dtype, or, of a tensor or array, both."""
    if not isinstance(target, type) and hasattr(target, "shape") and hasattr(target, "dtype"):
        own = target.device if isinstance(target, Tensor) else device_of(target)
        return {"device": own, "dtype": target.dtype}
    if isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda"):
        return {"device": target, "dtype": None}
    if target is None:
        return {"device": None, "dtype": None}
    try:
        return {"device": None, "dtype": resolve_dtype(target)}
    except TypeError as error:
        raise TypeError(
            f"to takes a device ('cpu', 'cuda:0'), a dtype or a tensor, got {target!r}: {error}"
        ) from None


@linear(numpy=np.copy)
def copy(x, order="K", subok=False):
    """y = a copy of x ;  gx = g"""
    return x.copy(order)


@copy.vjp("x")
def copy_dx(g):
    return g


@linear(numpy=np.positive)
def positive(x):
    """y = +x, a copy ;  gx = g"""
    return np.positive(x)


@positive.vjp("x")
def positive_dx(g):
    return g


@linear(view=True)
def contiguous(x):
    """y = x with its elements in C order in memory; x itself, shared, if they are ;  gx = g"""
    return x if x.flags.c_contiguous else x.copy("C")


@contiguous.vjp("x")
def contiguous_dx(g):
    return g


for _op in (cast, discretize, device_copy, copy, positive, contiguous):
    _op.batch(one_more_axis)

ascontiguousarray = contiguous
