"""Pooling as users call it: max_pool1d … avg_pool3d, checked and brought to the primitives.

primitives.py has these primitives.
"""

from math import prod
from typing import Any

from ...tensor_api.composite import composite
from ..axes import array_like, as_floating
from ..elementwise.support import ordered
from ..windows import Padding, Sizes, Windows, per_axis, windows
from .indices import max_pool_indices
from .primitives import max_pool, sum_pool

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip


def windows_of(
    name: str, dims: int, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Padding,
    dilation: Sizes, ceil_mode: bool,
) -> Windows:  # fmt: skip
    """The windows of a pooling call, checked; ceil_mode is more padding at the end."""
    if x.ndim < dims:
        raise ValueError(f"{name}: x must have at least {dims} axes, got {x.shape}")
    kernel = per_axis(name, "kernel_size", kernel_size, dims, least=1)
    how = windows(name, kernel, kernel if stride is None else stride, padding, dilation)
    if any(2 * max(pair) > k for pair, k in zip(how.padding, kernel, strict=True)):
        raise ValueError(
            f"{name}: padding {how.padding} may be at most half of the kernel {kernel}: "
            "no window may lie in the padding alone"
        )
    size = x.shape[-dims:]
    if ceil_mode:
        how = how.covering(size)
    how.count(name, size)  # which refuses windows larger than the image
    return how


def _max_pool(
    dims: int, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Padding,
    dilation: Sizes, ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    name = f"max_pool{dims}d"
    x = ordered(array_like(x), name)
    how = windows_of(name, dims, x, kernel_size, stride, padding, dilation, ceil_mode)
    y = max_pool(x, how=how)
    return (y, max_pool_indices(x, how=how)) if return_indices else y


def _avg_pool(
    dims: int, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Padding,
    ceil_mode: bool, count_include_pad: bool, divisor_override: float | None = None,
) -> Any:  # fmt: skip
    x = as_floating(array_like(x))
    name = f"avg_pool{dims}d"
    how = windows_of(name, dims, x, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError(f"{name}: divisor_override must not be 0")
        return sum_pool(x, how=how, divisor=divisor_override)
    asked = windows(name, how.kernel, how.stride, padding).padding
    if how.padding == asked and (count_include_pad or not any(map(any, asked))):
        return sum_pool(x, how=how, divisor=prod(how.kernel))
    # windows at the border cover fewer places: count those in x, or in x and the padding asked for
    counted = asked if count_include_pad else ((0, 0),) * dims
    return sum_pool(x, how=how, divisor=counted)


@composite
def max_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool2d's form in one dimension: x (..., W) -> (..., ow)."""
    return _max_pool(1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """y = max of each window of x (..., H, W); padding counts as −∞.

    The stride is the kernel's size unless given. Ties of a window share its gradient equally
    (PyTorch gives it to the first one). return_indices: (y, places), the place h·W + w of the first
    maximum of each window, for max_unpool2d.
    """
    return _max_pool(2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """max_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def avg_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """avg_pool2d's form in one dimension: x (..., W) -> (..., ow)."""
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@composite
def avg_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> Any:  # fmt: skip
    """y = mean of each window of x (..., H, W).

    The zeros of the padding count as elements, unless count_include_pad=False; what ceil_mode adds
    never counts. divisor_override: a number to divide every window's sum by instead.
    """
    return _avg_pool(
        2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@composite
def avg_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> Any:  # fmt: skip
    """avg_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _avg_pool(
        3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
