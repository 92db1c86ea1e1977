"""σ(x) = 1/(1 + e⁻ˣ), x σ(x) and their derivatives for NumPy's arrays, in few passes over blocks.

e⁻ˣ overflows far below 0. Before it does eˣ is all of σ(x), to the last digit, and is taken
instead: place by place, so that no result depends on what else is in the array.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.blocks import BLOCK, over_blocks, scratch

FAR = {"f": -80.0, "d": -700.0}  # e⁻ˣ overflows below −88.7 and −709.8
FEW = 1 << 12  # elements; fewer are computed by expressions: the same steps, in the fewest calls


def takes(x: Any) -> bool:
    """Whether x is for the functions below: float32 or float64 of NumPy, of any size, so that no
    bit depends on how an array was cut."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype.char in FAR


def _has_far(x: Any) -> bool:
    """Whether an element is below FAR, or NaN."""
    if x.size < FEW:
        return x.size > 0 and not x.item(x.argmin()) >= FAR[x.dtype.char]
    return not np.minimum.reduce(x, axis=None) >= FAR[x.dtype.char]


def _made(fill: Callable, x: Any, far: Callable | None = None) -> Any:
    """A new array filled by fill(x, y), but with far(x) where x < FAR."""

    def work(x: Any, y: Any) -> None:
        if far is None or not _has_far(x):
            fill(x, y)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            fill(x, y)
        below = x < FAR[x.dtype.char]
        y[below] = far(x[below])

    if x.size >= 2 * BLOCK:
        return over_blocks(work, x, 1)[0]
    x = np.asarray(x)  # it may be one of NumPy's numbers
    y = np.empty_like(x)
    work(x, y)
    return y if y.ndim else y[()]


def _one_and_exp(x: Any, y: Any) -> None:
    """y = 1 + e⁻ˣ"""
    np.negative(x, out=y)
    np.exp(y, out=y)
    y += 1


def sigmoid(x: Any) -> Any:
    """σ(x)"""
    if x.size < FEW and not _has_far(x):
        return np.reciprocal(np.exp(-x) + 1)

    def fill(x: Any, y: Any) -> None:
        _one_and_exp(x, y)
        np.reciprocal(y, out=y)

    return _made(fill, x, np.exp)


def sigmoid_derivative(x: Any) -> Any:
    """σ(x) σ(−x) = e/(1 + e)², e = e^−|x|, which cannot overflow."""
    if x.size < FEW:
        e = np.exp(-np.abs(x))
        return e / np.square(e + 1)

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
    if x.size < FEW and not _has_far(x):
        return x / (np.exp(-x) + 1)

    def fill(x: Any, y: Any) -> None:
        _one_and_exp(x, y)
        np.divide(x, y, out=y)

    return _made(fill, x, lambda x: x * np.exp(x))


def silu_derivative(x: Any) -> Any:
    """σ(x) (1 + x σ(−x)), with σ(−x) = e⁻ˣ σ(x)"""
    if x.size < FEW and not _has_far(x):
        e = np.exp(-x)
        s = np.reciprocal(e + 1)
        return (e * s * x + 1) * s

    def fill(x: Any, y: Any) -> None:
        s = scratch.empty("block 0", x.shape, x)
        np.negative(x, out=y)
        np.exp(y, out=y)
        np.add(y, 1, out=s)
        np.reciprocal(s, out=s)
        y *= s
        y *= x
        y += 1
        y *= s

    return _made(fill, x, lambda x: (1 + x) * np.exp(x))
