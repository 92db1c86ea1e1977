"""Pooling one axis after the other: windows of several axes are windows of windows.

2 × 2 windows take two passes over shifted slices, which is many times as fast as `max` over two
axes of reshaped windows. k × k windows take 2k passes in place of k².
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, lowest
from ...ops.windows import Windows, every
from ..windows import IDLE, fold, padded


def slide(combine: Callable, y: Any, x: Any, how: Windows) -> None:
    """y = combine (np.maximum, np.add) over each window of the padded x, axis after axis."""
    out = y.shape[-len(how.kernel) :]
    for i, (kernel, stride, _, dilation) in enumerate(how.axes()):
        later = (slice(None),) * (len(out) - 1 - i)
        parts = [x[(..., every(k * dilation, stride, out[i]), *later)] for k in range(kernel)]
        into = None if later else y
        x = combine(parts[0], parts[1], out=into) if kernel > 1 else parts[0]
        for part in parts[2:]:
            combine(x, part, out=x)
    if x is not y:
        y[...] = x


def maxima(how: Windows, y: Any, x: Any) -> None:
    """y = the maximum of each window of x."""
    slide(np.maximum, y, padded(x, how.padding, "padded", lowest(x.dtype)), how)


def sums(how: Windows, by: Any, y: Any, x: Any) -> None:
    """y = the sum of each window of x / by: a number, an array (*out), or None for 1."""
    wide = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
    total = y if wide.dtype == y.dtype else np.empty(y.shape, wide.dtype)
    slide(np.add, total, padded(wide, how.padding, "padded"), how)
    if by is not None:
        total /= by
    if total is not y:
        y[...] = total


def spread(how: Windows, y: Any, share: Any) -> None:
    """y = every entry of share, added to all positions of its window."""
    dims = len(how.kernel)
    lead, size = y.shape[:-dims], y.shape[-dims:]
    for i, along in enumerate(how.axes()):
        one = Windows.from_axes([along if j == i else IDLE for j in range(dims)])
        out = share.shape[-dims:]
        share = share.reshape((*lead, *(1,) * dims, *out))
        share = np.broadcast_to(share, (*lead, *one.kernel, *out))
        share = fold(share, one, (*out[:i], size[i], *out[i + 1 :]), at=len(lead))
    y[...] = share
