"""An array's entry in a graph dump: its norm, whether it is finite, and the numbers if few.

A dump never holds large arrays. The numbers of the small ones are what a student follows by hand.
"""

import math
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..engine.graph import raw
from ..engine.versions import owner_of
from .formats import cotangents_of

SMALL = 16  # elements up to which the numbers themselves are kept
BINS = 24  # of a histogram
SAMPLED = 65_536  # elements that a histogram looks at


def norm(g: Any) -> tuple[float | None, str | None]:
    """(2-norm, None) of a cotangent, or (None, "nan" or "inf") if it is not finite."""
    lengths, found_inf = [], False
    for part in cotangents_of(g):
        x = raw(part)
        xp = array_module(x)
        x = xp.asarray(x)
        wide = xp.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).ravel()
        if bool(xp.isnan(wide).any()):
            return None, "nan"
        found_inf = found_inf or bool(xp.isinf(wide).any())
        if not found_inf and wide.size:
            lengths.append(_length(xp, wide))
    size = math.hypot(*lengths)
    if found_inf or math.isinf(size):
        return None, "inf" if found_inf else None
    return size, None


def _length(xp: Any, x: Any) -> float:
    """√Σ x² of x ≥ 0; of x over its largest where the sum is beyond the numbers."""
    with np.errstate(over="ignore"):
        square = float(xp.dot(x, x))
    if np.finfo(np.float64).tiny <= square < math.inf:
        return math.sqrt(square)
    top = float(x.max())
    return top and top * math.sqrt(float(xp.dot(x / top, x / top)))


def small_values(x: Any) -> list[float | str] | None:
    """The numbers of a real array of at most SMALL elements, row by row; None for any other.

    JSON has no words for NaN and infinities: they stand as "nan", "inf" and "-inf".
    """
    x = raw(x)
    if not hasattr(x, "dtype") or not 0 < x.size <= SMALL or x.dtype.kind in "cOUS":
        return None
    numbers = array_module(x).asarray(x).astype(np.float64).ravel().tolist()
    return [number if math.isfinite(number) else str(number) for number in numbers]


def histogram(x: Any) -> dict[str, Any] | None:
    """{"least", "most", "counts"} of the finite numbers of a real array of more than SMALL.

    Of an array of more than SAMPLED elements it counts evenly spaced ones.
    """
    x = raw(x)
    if x.size <= SMALL or x.dtype.kind in "cOUS":
        return None
    # an odd step, to visit every column of a matrix with 2ⁿ of them
    numbers = x.ravel()[:: (x.size - 1) // SAMPLED + 1 | 1].astype(np.float64)
    xp = array_module(numbers)
    numbers = numbers[xp.isfinite(numbers)]
    if not numbers.size:
        return None
    least, most = float(numbers.min()), float(numbers.max())
    counts, _ = xp.histogram(numbers, BINS, (least, most))
    return {"least": least, "most": most, "counts": counts.tolist()}


def not_finite(x: Any) -> str | None:
    """ "nan" or "inf" where an array holds such a number."""
    x = raw(x)
    xp = array_module(x)
    if x.dtype.kind in "OUS" or bool(xp.isfinite(x).all()):
        return None
    return "nan" if bool(xp.isnan(x).any()) else "inf"


def spread(x: Any) -> dict[str, Any]:
    """{"histogram", "nonfinite"} of an array's numbers, as far as there is something to say."""
    if x is None:  # the leaf's tensor has gone
        return {}
    told = {"histogram": histogram(x), "nonfinite": not_finite(x)}
    return {key: value for key, value in told.items() if value is not None}


def arrived(c: Any, shape: tuple, dtype: Any) -> Any:
    """A rule's result as it is added at its parent: real part, broadcast axes summed, dtype.

    What engine/backward.py does for the engine, here on plain arrays and unseen by listeners.
    """
    c = raw(c)
    if c.shape == shape and c.dtype == dtype:
        return c
    xp = array_module(c)
    if c.dtype.kind == "c" and dtype.kind != "c":
        c = c.real
    if c.shape != shape:
        c = xp.broadcast_to(c, np.broadcast_shapes(c.shape, shape))
        extra = c.ndim - len(shape)
        axes = tuple(i for i in range(c.ndim) if i < extra or shape[i - extra] != c.shape[i])
        c = c.sum(axis=axes, keepdims=True, dtype=accumulator(c.dtype)).reshape(shape)
    return c.astype(dtype)


def owner(x: Any) -> Any:
    """The array that owns the memory that an array or tensor shows: two views have one owner."""
    x = raw(x)
    found = owner_of(x)
    return found if hasattr(found, "dtype") else x  # the memory of a buffer that is no array
