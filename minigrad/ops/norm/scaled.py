"""Normalisations of numbers whose squares are beyond the numbers of their dtype.

x̂ does not change when x is divided by s and eps by s², and its gradient is that of x/s over s. So
rows whose variance has overflowed, or vanished beside an eps of 0, are done again over a power of
two, which rounds nothing, near their largest |x|. The others keep their bits. That costs a look at
rstd, of which there are few.
"""

from typing import Any

import numpy as np

from ...backends.dtypes import accumulator


def is_lost(rstd: Any, eps: float) -> bool:
    """Whether some variance is not finite, or without an eps below the normal numbers."""
    if type(rstd) is not np.ndarray or not rstd.size:
        return False
    if not rstd.item(rstd.argmin()) > 0:  # 0 of an infinite one, or NaN
        return True
    tiny, largest, _ = _LIMITS[rstd.dtype.char]
    return eps < tiny and not rstd.item(rstd.argmax()) <= largest


FEW = 1 << 12  # numbers, of which a sum of squares is had in less time than a context of errstate


def is_ordinary(x: Any, eps: float) -> bool:
    """Whether the squares of a few numbers are within the numbers of the dtype, as their sum says,
    so that nothing can be lost. False of many numbers.
    """
    if x.size > FEW or type(x) is not np.ndarray or x.dtype.char not in "fd":
        return False
    return eps >= _LIMITS[x.dtype.char][0] and np.vdot(x, x) < np.inf  # pyright: ignore[reportReturnType] (np.bool_)


def _limits(char: str) -> tuple:
    """(the least normal number, one over its root, a power of two whose cube is a number)"""
    info, one = np.finfo(char), np.dtype(char).type(1)
    found = info.tiny, info.tiny**-0.5, np.ldexp(one, info.maxexp // 3)
    return found if char == "g" else tuple(map(float, found))  # quicker to compare with


_LIMITS = {char: _limits(char) for char in "fdg"}


def standardized(
    x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool, found: tuple
) -> tuple:
    """(y, mean, rstd): those found, and where they are lost those of x over a power of two."""
    y, mean, rstd = found
    dtype, wide = y.dtype, rstd.dtype
    x = x.astype(wide, copy=False)
    top = np.max(np.abs(x), axis=axis, keepdims=True)
    finite = (top > 0) & np.isfinite(top)
    lost = finite & ~((rstd > 0) & (rstd <= _LIMITS[wide.char][1]))
    scale = np.where(lost, np.exp2(np.frexp(np.where(lost, top, 1))[1] - 1), 1).astype(wide)
    x = x / scale
    own_mean = np.mean(x, axis=axis, keepdims=True) if centre else np.zeros_like(mean)
    x -= own_mean
    own_rstd = 1 / np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps / scale / scale)
    x *= own_rstd
    if weight is not None:
        x = x * weight
    if bias is not None:
        x = x + bias
    return (
        np.where(lost, x.astype(dtype, copy=False), y),
        np.where(lost, own_mean * scale, mean),
        np.where(lost, own_rstd / scale, rstd),
    )


def scale_of(x: Any, rstd: Any, eps: float) -> Any:
    """A power of two near each deviation of x whose powers may leave the numbers, else 1.

    None where there is no such deviation, and on a GPU, where to look would be to wait.
    """
    if type(rstd) is not np.ndarray or not rstd.size:
        return None
    few = _LIMITS[rstd.dtype.char][2]
    if rstd.item(rstd.argmin()) > 1 / few:  # a NaN is the least
        if eps * few * few > 1 or rstd.item(rstd.argmax()) < few:  # eps is a bound, too
            return None
    far = np.isfinite(rstd) & (rstd > 0) & ~((rstd > 1 / few) & (rstd < few))
    if not far.any():
        return None
    most = np.finfo(rstd.dtype).maxexp - 1
    return np.ldexp(rstd.dtype.type(1), np.where(far, np.minimum(1 - np.frexp(rstd)[1], most), 0))


def rescaled(scale: Any, x: Any, mean: Any, rstd: Any) -> tuple:
    """(x, mean, rstd) in units of the scale; x of 16 bits in float32."""
    x = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
    return x / scale, mean / scale, rstd * scale
