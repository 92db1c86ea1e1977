"""Normalisations of numbers whose squares are beyond the numbers of their dtype.

x̂ does not change when x is divided by s and eps by s², and its gradient is that of x/s over s. So
`standardize` takes deviations over a power of two near the largest, which rounds nothing. Forms
that square them as they are ask afterwards what was lost: a look at rstd, of which there are few.
"""

from math import prod
from typing import Any

import numpy as np

from ..axes import widen
from ..scaling import power_of_two


def centred_in_units(x: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(mean x, (x − mean x)/unit, unit), unit a power of two near the largest |x − mean x|.

    unit is at least 1 for an eps that is a normal number: eps over its square is to be one, too.
    """
    tiny = least_normal(x.dtype)
    least = 1 if eps >= tiny else tiny
    s = power_of_two(np.maximum(np.abs(x), least), axis)
    x = x / s
    mean = average(x, axis) if centre else np.zeros_like(s)
    x = x - mean
    t = np.minimum(power_of_two(np.maximum(np.abs(x), least / s), axis), 1)  # s t < ∞
    return mean * s, x / t, s * t


def average(x: Any, axis: tuple) -> Any:
    """The mean over the axes, which keep their places; of no values 0."""
    return x.sum(axis, keepdims=True) / max(1, prod([x.shape[k] for k in axis]))


def _limits(char: str) -> tuple:
    """(the least normal number, one over its root, a power of two whose cube is a number)"""
    info, one = np.finfo(char), np.dtype(char).type(1)
    found = info.tiny, info.tiny**-0.5, np.ldexp(one, info.maxexp // 3)
    return found if char == "g" else tuple(map(float, found))  # quicker to compare with


_LIMITS = {char: _limits(char) for char in "fdg"}


def least_normal(dtype: Any) -> float:
    return _LIMITS[dtype.char][0]


def lost(rstd: Any) -> Any:
    """Where a variance is not finite, or below the normal numbers."""
    return ~((rstd > 0) & (rstd <= _LIMITS[rstd.dtype.char][1]))


def is_lost(rstd: Any, eps: float) -> bool:
    """Whether some variance is not finite, or without an eps below the normal numbers."""
    if type(rstd) is not np.ndarray or not rstd.size:
        return False
    if not rstd.item(rstd.argmin()) > 0:  # 0 of an infinite one, or NaN
        return True
    tiny, largest, _ = _LIMITS[rstd.dtype.char]
    return eps < tiny and not rstd.item(rstd.argmax()) <= largest


def scale_of(rstd: Any, eps: float) -> Any:
    """A power of two near 1/r for each deviation 1/r whose powers may leave the numbers, else 1.

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
    return widen(x) / scale, mean / scale, rstd * scale
