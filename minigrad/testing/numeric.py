"""Finite differences: the derivative without any rule.

Everything is differentiated as a map between real float64 vectors. `pack` flattens a list of arrays
into one such vector, a complex number as its real and imaginary part. Then Re Σ conj(a)·b is the
dot product of the packed vectors, and the same code serves real and complex.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
STEP = 2.0**-10  # the coarse step; the fine one is half of it
# The stencil divides the rounding of f by the step: 1.5 ε|f|/h for results correct to ½ ULP.
# Functions are allowed ten times that.
ROUNDING = 16 * EPS / (STEP / 2)


def pack(arrays: Iterable[Any]) -> np.ndarray:
    """The arrays as one real float64 vector; complex numbers as (real, imaginary) pairs."""
    parts = [_coordinates(np.asarray(a)) for a in arrays]
    return np.concatenate(parts) if parts else np.empty(0)


def repeated(x: np.ndarray, shape: int | tuple[int, ...]) -> np.ndarray:
    """np.resize in one step: np.resize joins thousands of copies of a small array one by one."""
    n = int(np.prod(shape))
    if not x.size:
        return np.zeros(shape, x.dtype)
    return np.tile(x.reshape(-1), -(-n // x.size))[:n].reshape(shape)


def _coordinates(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        return np.ascontiguousarray(a, dtype=np.complex128).reshape(-1).view(np.float64)
    return a.astype(np.float64).reshape(-1)


def unpack(vector: np.ndarray, like: Sequence[Any]) -> list[np.ndarray]:
    """The inverse of `pack`, for arrays of the shapes and dtypes of `like`."""
    arrays, start = [], 0
    for a in like:
        width = a.size * (2 if a.dtype.kind == "c" else 1)
        part = vector[start : start + width]
        if a.dtype.kind == "c":
            part = part.copy().view(np.complex128)
        arrays.append(part.reshape(a.shape).astype(a.dtype))
        start += width
    return arrays


def of_numbers(vector: np.ndarray, like: Sequence[Any]) -> np.ndarray:
    """Packed sizes: both parts of a complex number get the larger of the two.

    A complex number is rounded by its modulus: even the zero imaginary part of a real eigenvalue
    has rounding.
    """
    sizes, start = [], 0
    for a in like:
        parts = 2 if a.dtype.kind == "c" else 1
        pairs = vector[start : start + a.size * parts].reshape(a.size, parts)
        sizes.append(np.repeat(pairs.max(axis=1), parts))
        start += a.size * parts
    return np.concatenate(sizes) if sizes else np.empty(0)


def coordinate(j: int, like: Sequence[Any]) -> tuple[int, tuple[int, ...], str]:
    """(which array, index in it, "real" | "imaginary" | "") of packed coordinate j."""
    for position, a in enumerate(like):
        parts = 2 if a.dtype.kind == "c" else 1
        if j < a.size * parts:
            element, part = divmod(j, parts)
            index = tuple(int(i) for i in np.unravel_index(element, a.shape))
            return position, index, ("" if parts == 1 else ("real", "imaginary")[part])
        j -= a.size * parts
    raise IndexError(f"no coordinate {j}")


def normal(rng: np.random.Generator, like: Sequence[Any]) -> list[np.ndarray]:
    """Signed N(0, 1) arrays of the shapes and dtypes of `like`, both parts of complex ones."""
    width = sum(a.size * (2 if a.dtype.kind == "c" else 1) for a in like)
    return unpack(rng.standard_normal(width), like)


def length(a: np.ndarray) -> float:
    """‖a‖, also for numbers as small as 1e-300 and as large as 1e300, whose squares leave the
    range."""
    largest = float(np.max(np.abs(a), initial=0.0))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(a / largest))


@dataclass(frozen=True)
class Slope:
    """d/dt f(x + t u) at t = 0, one number for each coordinate of f.

    value   the estimate at the fine step
    change  its distance from the coarse step's estimate: truncation and rounding as measured
    size    the largest |f| on the stencil, which sets the rounding that differences do not show
    """

    value: np.ndarray
    change: np.ndarray
    size: np.ndarray


def slope(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, u: np.ndarray, step: float = STEP
) -> Slope:
    """Five-point stencils (error h⁴) at two steps, which share the points ±h.

    f'(0) ≈ [8 (f(h) − f(−h)) − (f(2h) − f(−2h))] / 12h
    """
    h = step / 2
    at = {k: f(x + (k * h) * u) for k in (1, -1, 2, -2, 4, -4)}
    odd = {k: at[k] - at[-k] for k in (1, 2, 4)}
    fine = (8 * odd[1] - odd[2]) / (12 * h)
    coarse = (8 * odd[2] - odd[4]) / (24 * h)
    size = np.max([np.abs(y) for y in at.values()], axis=0)
    return Slope(fine, fine - coarse, size)


def bend(f: Callable[[float], float]) -> float:
    """The largest fourth difference of f: ℝ → ℝ within the stencil's reach, as a slope.

    If f is smooth, that is f⁗h³; a kink adds at least half of the difference of its two slopes.
    """
    h = STEP / 4
    values = [f(k * h) for k in range(-8, 9)]
    return float(np.max(np.abs(np.diff(values, 4)))) / h


def one_sided(f: Callable[[float], float], step: float = 2.0**-14) -> tuple[float, float]:
    """The left and the right derivative of f: ℝ → ℝ at 0, each by three points (error h²)."""
    here, h = f(0.0), step
    right = (-3 * here + 4 * f(h) - f(2 * h)) / (2 * h)
    left = (3 * here - 4 * f(-h) + f(-2 * h)) / (2 * h)
    return left, right
