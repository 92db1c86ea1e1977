"""σ(x) = 1/(1 + e⁻ˣ), x σ(x) and their derivatives for NumPy's arrays, in few passes over blocks.

e⁻ˣ overflows far below 0. Before it does eˣ is all of σ(x), to the last digit, and is taken
instead: place by place, so that no result depends on what else is in the array.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .blocks import BLOCK, over_blocks, scratch

FAR = {"f": -80.0, "d": -700.0}  # e⁻ˣ overflows below −88.7 and −709.8
FEW = 1 << 12  # elements; fewer take the same time by two exponentials, which cannot overflow


def takes(x: Any) -> bool:
    """Whether x is for the functions below: float32 or float64 of NumPy, and not small."""
    return isinstance(x, np.ndarray) and x.dtype.char in FAR and x.size >= FEW


def _filled(fill: Callable, far: Callable, x: Any) -> Any:
    """A new array filled by fill(x, y), but with far(x) where x < FAR."""

    def work(x: Any, y: Any) -> None:
        limit = FAR[x.dtype.char]
        if x.min() >= limit:
            fill(x, y)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            fill(x, y)
        below = x < limit
        y[below] = far(x[below])

    return _made(work, x)


def _made(fill: Callable, x: Any) -> Any:
    """A new array filled by fill(x, y)."""
    if x.size >= 2 * BLOCK:
        return over_blocks(fill, x, 1)[0]
    y = np.empty(x.shape, x.dtype)
    fill(x, y)
    return y


def _one_and_exp(x: Any, y: Any) -> None:
    """y = 1 + e⁻ˣ"""
    np.negative(x, out=y)
    np.exp(y, out=y)
    y += 1


def sigmoid(x: Any) -> Any:
    """σ(x)"""

    def fill(x: Any, y: Any) -> None:
        _one_and_exp(x, y)
        np.divide(1, y, out=y)

    return _filled(fill, np.exp, x)


def sigmoid_derivative(x: Any) -> Any:
    """σ(x) σ(−x) = e/(1 + e)², e = e^−|x|, which cannot overflow."""

    def fill(x: Any, y: Any) -> None:
        below = scratch.empty("block 0", x.shape, x)
        np.abs(x, out=y)
        np.negative(y, out=y)
        np.exp(y, out=y)
        np.add(y, 1, out=below)
        below *= below
        y /= below

    return _made(fill, x)


def silu(x: Any) -> Any:
    """x σ(x)"""

    def fill(x: Any, y: Any) -> None:
        _one_and_exp(x, y)
        np.divide(x, y, out=y)

    return _filled(fill, lambda x: x * np.exp(x), x)


def silu_derivative(x: Any) -> Any:
    """σ(x) (1 + x σ(−x)), with σ(−x) = e⁻ˣ σ(x)"""

    def fill(x: Any, y: Any) -> None:
        s = scratch.empty("block 0", x.shape, x)
        np.negative(x, out=y)
        np.exp(y, out=y)
        np.add(y, 1, out=s)
        np.divide(1, s, out=s)
        y *= s
        y *= x
        y += 1
        y *= s

    return _filled(fill, lambda x: (1 + x) * np.exp(x), x)
