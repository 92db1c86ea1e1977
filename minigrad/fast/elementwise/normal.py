"""gelu and erf of many float32 numbers in place: the steps of ops/normal.py, block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.blocks import over_blocks, scratch
from ...backends.dtypes import accumulator
from ...custom.variants import Variant, add
from ...ops.activation import gelu
from ...ops.elementwise.special import erf
from ...ops.elementwise.support import in_float32
from ...ops.normal import (
    ABOVE,
    BELOW,
    FARTHEST,
    FULL,
    HALVED,
    HEIGHT,
    HIGHEST,
    INNERMOST,
    LEVELS,
    MINUS_FULL,
    NEAREST,
    OUTERMOST,
    ZERO,
    takes,
)

FEW = 1 << 12  # elements; fewer use fresh memory: scratch memory takes longer to find


def _by_blocks(fill: Callable, x: Any, count: int, rooms: int) -> tuple:
    """`count` new arrays, filled by fill(x, *new arrays, *scratch arrays) in blocks of x."""

    def work(x: Any, *ys: Any) -> None:
        fill(x, *ys, *[scratch.empty(f"block {i}", x.shape, x) for i in range(rooms)])

    return over_blocks(work, x, count)


def _is_float32(x: Any, approximate: str = "none") -> bool:
    """Whether gelu is computed in float32, by Φ."""
    narrow = x.dtype.char == "f" or accumulator(x.dtype) == np.float32
    return narrow and approximate == "none"


@in_float32
def gelu_in_place(x: Any, approximate: str = "none") -> tuple:
    return _by_blocks(_gelu, x, 2, rooms=2)


def _gelu(x: Any, y: Any, slope: Any, z: Any, density: Any) -> None:
    near = x.clip(NEAREST, FARTHEST, out=slope)
    np.abs(near, z)
    np.multiply(z, z, density)
    np.multiply(density, HALVED, density)
    np.exp(density, density)
    np.multiply(density, HEIGHT, density)
    s = _fraction(z, y)
    np.divide(density, s, s)
    np.multiply(near, density, slope)  # x φ(x)
    phi = z
    np.copyto(phi, np.greater_equal(x, ZERO))  # 1 for x ≥ 0, else 0
    np.subtract(phi, s, phi)
    np.abs(phi, phi)
    np.add(slope, phi, slope)
    np.multiply(x, phi, y)


def _fraction(z: Any, out: Any) -> Any:
    """t(z), from the innermost level outwards."""
    t = np.add(z, INNERMOST, out)
    for a, b in LEVELS:
        np.divide(a, t, t)
        np.add(t, z, t)
        np.add(t, b, t)
    np.divide(OUTERMOST, t, t)
    return np.add(t, z, t)


def erf_in_place(x: Any) -> Any:
    return _by_blocks(_erf, x, 1, rooms=3)[0]


def _erf(x: Any, y: Any, square: Any, above: Any, below: Any) -> None:
    x.clip(MINUS_FULL, FULL, out=y)
    np.multiply(y, y, square)
    np.multiply(square, HIGHEST, above)
    p = _horner(square, above, ABOVE, above)
    np.divide(p, _horner(square, square, BELOW, below), p)
    np.multiply(p, y, p)
    np.add(y, p, y)
    np.tanh(y, y)


def _horner(x: Any, y: Any, coefficients: list, out: Any) -> Any:
    """(…(y + c₀) x + c₁) x + …"""
    first, *others = coefficients
    y = np.add(y, first, out)
    for coefficient in others:
        np.multiply(y, x, y)
        np.add(y, coefficient, y)
    return y


add(gelu, Variant(gelu_in_place, "cpu", _is_float32, FEW, name="in place"))
add(erf, Variant(erf_in_place, "cpu", takes, FEW, name="in place"))
