"""The gradient of max pooling by tiles, of images pixels first (backends/image_layout.py).

The positions of a tile are then axes of a view whose inner runs are long. One call handles all
positions, which other layouts walk one after the other.
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import scratch
from ...backends.image_layout import lies_places_first, places, turned
from ...ops.windows import Windows
from ..elementwise.in_place import keep_into


def suits(how: Windows, x: Any, a: Any) -> bool:
    """Whether these windows of x (N, C, *size) are such tiles, and a has x's dtype."""
    return (
        how.tiling
        and x.ndim == len(how.kernel) + 2
        and x.dtype == a.dtype
        and x.dtype.char in "fd"
        and prod(how.kernel) < 256  # ties are counted in bytes
        and not any(n % k for n, k in zip(x.shape[2:], how.kernel, strict=True))
        and turned(x)
        and lies_places_first(x)
    )


def _windows(x: Any, kernel: tuple) -> Any:
    """x as (windows, kernel, windows, kernel, ..., run), a view."""
    x = places(x)
    pairs = zip(x.shape, kernel, strict=False)
    return x.reshape((*[n for m, k in pairs for n in (m // k, k)], x.shape[-2] * x.shape[-1]))


def shares(how: Windows, y: Any, a: Any, x: Any, y_max: Any) -> None:
    """y = every entry of a, in equal shares, at the positions of its tile where x is the
    maximum."""
    once = (1,) * len(how.kernel)
    top, a = _windows(y_max, once), _windows(a, once)
    x, y = _windows(x, how.kernel), _windows(y, how.kernel)
    hits = scratch.empty("axis 0", x.shape, x, np.bool_)
    np.equal(x, top, out=hits)
    count = scratch.empty("axis 1", top.shape, top, np.uint8)
    _count(hits, how, count)
    if not count.all():  # a window has a NaN
        hits |= (x != x) & (top != top)
        _count(hits, how, count)
        count += (count == 0).view(np.uint8)
    share = scratch.empty("axis 2", top.shape, top)
    share[...] = count
    np.divide(a, share, out=share)
    keep_into(y, share, hits)


def _count(hits: Any, how: Windows, count: Any) -> None:
    """The number of positions of each window that are hit."""
    count.fill(0)
    for place in product(*map(range, how.kernel)):
        at = [part for k in place for part in (slice(None), slice(k, k + 1))]
        count += hits.view(np.uint8)[tuple(at)]
