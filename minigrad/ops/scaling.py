"""Powers of two that bring numbers near 1, for sums of squares beyond the numbers of a dtype.

Take a function that does not change, or changes in proportion, when its argument is multiplied by a
number. It has the derivatives of f(x/s)·sᵏ, s a constant. As s is a power of two, nothing is
rounded.
"""

from typing import Any

import numpy as np

from ..backends.dtypes import finfo, is_differentiable
from ..engine.graph import detached, raw
from ..engine.registry import op


def overflow_ignored() -> Any:
    """A context for sums that are done again where they are lost."""
    return np.errstate(over="ignore", invalid="ignore")


def power_of_two(x: Any, axis: Any = None) -> Any:
    """One near the largest |x| of each slice over `axis`, kept at length 1, a constant.

    1 where that is 0, or not finite.
    """
    size = op.abs(detached(x))
    if 0 in x.shape:
        return op.ones_like(op.sum(size, axis=axis, keepdims=True))
    top = op.max(size, axis=axis, keepdims=True)
    known = (top > 0) & (top < np.inf)
    exponent = op.floor(op.log2(op.where(known, top, 1)))
    most = int(finfo(exponent.dtype).maxexp) - 2  # NumPy's exp2 rounds 2^127, and log2 up to 2^128
    return op.where(known, op.exp2(op.minimum(exponent, most)), 1)


def _range(dtype: Any, share: int) -> tuple[float, float]:
    info = finfo(dtype)
    if share == 1:
        return float(info.tiny), np.inf
    return 2.0 ** (int(info.minexp) // share), 2.0 ** (int(info.maxexp) // share)


def is_normal(sums: Any, share: int = 1) -> Any:
    """Where sums of powers have all of their digits: not infinite, nor below the normal numbers.

    share=3: where their cubes have, which derivatives of quotients by them may need.
    """
    size = op.abs(detached(sums))
    low, high = _range(size.dtype, share)
    return (size >= low) & (size < high)


def is_lost(sums: Any, share: int = 1) -> bool:
    """Whether some sum is not normal, as 0 is not. False on a GPU, where to look is to wait."""
    sums = raw(sums)
    if not isinstance(sums, np.ndarray) or not sums.size or not is_differentiable(sums.dtype):
        return False
    low, high = _range(sums.dtype, share)
    size = np.abs(sums)
    return not (size.min() >= low and size.max() < high)


def overflows(sizes: Any) -> bool:
    """Whether some number is infinite, or NaN, or at least its square; False on a GPU."""
    sizes = raw(sizes)
    return (
        type(sizes) is np.ndarray
        and sizes.dtype.char in "fd"
        and not np.vdot(sizes, sizes) < np.inf
    )
