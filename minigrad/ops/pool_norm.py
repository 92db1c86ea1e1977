"""Pooling by the p-norm of each window."""

from math import inf, prod
from typing import Any

from ..core.primitive import composite
from ..core.registry import op
from .axes import array_like, as_floating, widen
from .pool_calls import windows_of
from .windows import Sizes

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
    # checked here as well, so that errors name this op and not avg_pool
    kernel = windows_of(name, dims, x, kernel_size, stride, 0, 1, ceil_mode).kernel
    wide = widen(x)  # powers leave the range of 16 bits soon
    pool = getattr(op, f"avg_pool{dims}d")
    powers = wide if norm_type == 1 else wide**norm_type
    total = pool(powers, kernel_size, stride, ceil_mode=ceil_mode) * prod(kernel)
    zero = total == 0
    y = op.where(zero, 0, op.where(zero, 1, total) ** (1 / norm_type))
    return op.astype(y, dtype=x.dtype, copy=False)


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
    negative, ∞ or 0 where xᵖ leaves the range of the dtype (of float32, for 16 bits). A partial
    window of ceil_mode is scaled up to the size of a whole one.
    """
    return _lp_pool(2, x, norm_type, kernel_size, stride, ceil_mode)


@composite
def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """lp_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _lp_pool(3, x, norm_type, kernel_size, stride, ceil_mode)
