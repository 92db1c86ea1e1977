"""Pooling by large windows that tile the image (or are the whole image), as a reduction.

The windows are then axes of a view. primitives.py makes one NumPy call for each position of a
window: the gradient of avg_pool2d over whole images of 56 × 56 took 77 ms that way, and takes
0.6 ms here.
"""

from collections.abc import Callable
from math import prod
from typing import Any

from ...engine.registry import op
from ..windows import Windows

# Places of a window. Milliseconds of value and gradient by axes, and place by place: maxima of
# 16×32×56×56 by 8×8 21 and 10, of 4×64×28×28 by 14×14 2.6 and 4.6, of 2×16×224×224 by 32×32 8, 62
MANY = 128


def suits(x: Any, how: Windows) -> bool:
    """Whether these windows of x (..., *size) can be such axes, and that pays."""
    size = x.shape[x.ndim - len(how.kernel) :]
    if not how.tiling or any(n % k for n, k in zip(size, how.kernel, strict=True)):
        return False
    return how.kernel == size or prod(how.kernel) >= MANY


def reduced(reduction: Callable, x: Any, how: Windows) -> Any:
    """reduction (op.max, op.mean) of each window."""
    dims = len(how.kernel)
    lead, size = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
    if how.kernel == size:
        return reduction(x, axis=tuple(range(-dims, 0)), keepdims=True)
    pairs = zip(size, how.kernel, strict=True)
    view = op.reshape(x, shape=(*lead, *[n for m, k in pairs for n in (m // k, k)]))
    return reduction(view, axis=tuple(range(len(lead) + 1, view.ndim, 2)))


def maxima(x: Any, how: Windows) -> Any:
    """The maximum of each window."""
    return reduced(op.max, x, how)
