"""σ(x) = 1/(1 + e⁻ˣ), x σ(x) and their derivatives for NumPy's floats, by one exponential each.

e⁻ˣ overflows far below 0. Before it does, eˣ equals σ(x) to the last digit, and is taken instead.
The choice is elementwise: no result depends on the other elements.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

FAR = {"f": -80.0, "d": -700.0}  # e⁻ˣ overflows below −88.7 and −709.8


def takes(x: Any) -> bool:
    """Whether x is for the functions below: float32 or float64 of NumPy."""
    return isinstance(x, np.ndarray | np.generic) and x.dtype.char in FAR


def _has_far(x: Any) -> bool:
    """Whether an element is below FAR, or NaN."""
    return x.size > 0 and not x.item(x.argmin()) >= FAR[x.dtype.char]


def _with_far(near: Callable, far: Callable, x: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(x < FAR[x.dtype.char], far(x), near(x))


def sigmoid(x: Any) -> Any:
    """σ(x)"""
    return _with_far(_sigmoid, np.exp, x) if _has_far(x) else _sigmoid(x)


def _sigmoid(x: Any) -> Any:
    return np.reciprocal(np.exp(-x) + 1)


def sigmoid_derivative(x: Any) -> Any:
    """σ(x) σ(−x) = e/(1 + e)², e = e^−|x|, which cannot overflow."""
    e = np.exp(-np.abs(x))
    return e / np.square(e + 1)


def silu(x: Any) -> Any:
    """x σ(x)"""
    return _with_far(_silu, lambda x: x * np.exp(x), x) if _has_far(x) else _silu(x)


def _silu(x: Any) -> Any:
    return x / (np.exp(-x) + 1)


def silu_derivative(x: Any) -> Any:
    """σ(x) (1 + x σ(−x)), with σ(−x) = e⁻ˣ σ(x)"""
    if _has_far(x):
        return _with_far(_silu_derivative, lambda x: (1 + x) * np.exp(x), x)
    return _silu_derivative(x)


def _silu_derivative(x: Any) -> Any:
    e = np.exp(-x)
    s = np.reciprocal(e + 1)
    return (e * s * x + 1) * s
