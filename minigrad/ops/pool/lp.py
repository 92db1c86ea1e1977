"""Pooling by the p-norm of each window."""

from math import inf, prod
from typing import Any

import numpy as np

from ...engine.graph import raw
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, as_floating, widen
from ..scaling import is_lost, is_normal, overflow_ignored, power_of_two
from ..windows import Sizes
from .calls import windows_of

__all__ = ["lp_pool1d", "lp_pool2d", "lp_pool3d"]


def _lp_pool(
    dims: int, x: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Any:
    x = as_floating(array_like(x))
    name = f"lp_pool{dims}d"
    if not 0 < norm_type < inf:
        raise ValueError(
            f"{name}: norm_type must be positive and finite, got {norm_type!r}; the largest |x| is "
            f"max_pool{dims}d(mg.abs(x), ...)"
        )
    # checked here as well: errors then name this op and not avg_pool
    kernel = windows_of(name, dims, x, kernel_size, stride, 0, 1, ceil_mode).kernel
    wide = widen(x)  # powers leave the range of 16 bits soon
    pool = getattr(op, f"avg_pool{dims}d")

    def sums(x: Any) -> Any:
        powers = x if norm_type == 1 else x**norm_type
        return pool(powers, kernel_size, stride, ceil_mode=ceil_mode) * prod(kernel)

    with overflow_ignored():
        total = sums(wide)
    if not _is_lost(total, wide, norm_type):
        zero = total == 0
        y = op.where(zero, 0, op.where(zero, 1, total) ** (1 / norm_type))
    else:  # of x over a power of two they are not; what is 0 then has no derivative
        unit, kept = power_of_two(wide, axis=tuple(range(-dims, 0))), is_normal(total)
        with overflow_ignored():  # anything not kept alone is dropped
            largest = op.where(op.abs(wide) ** norm_type < np.inf, wide, 0)
        total, others = op.where(kept, sums(largest), 1), sums(wide / unit)
        zero = kept | (others == 0)
        far = op.where(zero, 1, others) ** (1 / norm_type) * unit
        y = op.where(kept, total ** (1 / norm_type), op.where(others == 0, 0, far))
    return op.astype(y, dtype=x.dtype, copy=False)


def _is_lost(total: Any, x: Any, p: float) -> bool:
    """Whether a sum is beyond the numbers, or may be 0 since powers of what is not 0 are."""
    if not is_lost(total):
        return False
    sums = np.abs(raw(total))
    if not is_lost(sums[sums != 0]):
        size = np.abs(raw(x))
        return is_lost(size[size != 0] ** p)
    return True


@composite
def lp_pool1d(
    x: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """lp_pool2d's form in one dimension: x (..., W) -> (..., ow)."""
    return _lp_pool(1, x, norm_type, kernel_size, stride, ceil_mode)


@composite
def lp_pool2d(
    x: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """y = (Σ xᵖ)^(1/p) over each window of x (..., H, W), p = norm_type ;  gradient 0 where y is 0

    As PyTorch's, without |x|: a norm for an even p or for x ≥ 0; NaN where p is odd and the sum
    negative. Where xᵖ leaves the range of the dtype, x is scaled first. A partial window of
    ceil_mode is scaled up to the size of a whole one.
    """
    return _lp_pool(2, x, norm_type, kernel_size, stride, ceil_mode)


@composite
def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """lp_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _lp_pool(3, x, norm_type, kernel_size, stride, ceil_mode)
