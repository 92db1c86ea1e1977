"""Checks of `x.data = v` and `x.grad = g`: v and g must be numbers, and fit x."""

from typing import Any

import numpy as np

from ..backends.device import DeviceError, array_module, plain_array
from ..backends.dtypes import is_differentiable
from ..engine.errors import describe
from ..engine.graph import Leaf
from ..errors import TransformError
from .writes import note_end_of_write


def of_numbers(array: Any) -> Any:
    """The array in native byte order; TypeError for objects, text, dates and records."""
    if array.dtype.kind in "OSUMm" or array.dtype.names:
        raise TypeError(f"cannot make a tensor of {array.dtype} values; give numbers or booleans")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_mapped(x: Any) -> bool:
    """Whether the tensor x has one value per example of a running vmap (a hidden batch axis)."""
    while hasattr(x, "level"):
        if x.shape != x._data.shape:
            return True
        x = x._data
    return False


def values_of(x: Any) -> Any:
    """The array of a tensor of any level; TransformError under vmap, which has no single one."""
    if is_mapped(x):
        raise TransformError(
            f"mg.Tensor(x) and Parameter(x) inside vmap: x, {describe(x)}, has a value for "
            "each example, which no plain tensor can hold; mg.tensor(x) and x.detach() give "
            "constants that are mapped, and parameters are made outside (func.functional_call "
            "maps over them)"
        )
    while hasattr(x, "level"):
        x = x._data
    return x


def as_data(x: Any, value: Any) -> Any:
    """The array for `x.data = value`; a leaf's vertex takes its shape and dtype over."""
    if value is x._data:
        note_end_of_write(value)
    is_array = hasattr(value, "dtype") and not isinstance(value, np.generic)
    array = of_numbers(plain_array(value))
    if not is_array:  # it goes where the tensor was
        array = array_module(x._data).asarray(array)
    if isinstance(x.node, Leaf):
        if not is_differentiable(array.dtype):
            raise TypeError(
                f"x.data = {describe(array)}, and x requires a gradient: give it a floating or "
                f"complex dtype, with .astype({x.dtype!s}), or set x.requires_grad = False before"
            )
        x.node.shape, x.node.dtype = array.shape, array.dtype
    return array


def require_gradient(x: Any, value: Any) -> None:
    """An error that says what fits, unless the tensor `value` can be the gradient of x."""
    fits = gradients_of(x)
    if value.shape != x.shape:
        raise ValueError(f"x.grad = a tensor {describe(value)}: {fits}; its shape is another")
    if value.dtype != x.dtype:
        raise TypeError(
            f"x.grad = a tensor {describe(value)}: {fits}; cast it with .astype({x.dtype!s})"
        )
    if value.device != x.device:
        raise DeviceError(
            f"x.grad = a tensor on {value.device}: {fits}; move it with .to({x.device!r})",
            device=x.device, devices=(x.device, value.device),
        )  # fmt: skip


def gradients_of(x: Any) -> str:
    """What x.grad can be, for an error."""
    return f"x.grad can be None, or a tensor or array like x, {x.dtype} {x.shape} on {x.device}"
