"""Images read at places that a grid names: spatial transformers (Jaderberg et al., 2015).

Places are numbers from −1 to 1 along each axis, x before y (before z). With align_corners −1 and 1
are the centres of the corner entries, else the outer edges of them.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from ..core.primitive import composite
from ..core.registry import op
from .axes import array_like, as_floating, constant_like, widen

__all__ = ["affine_grid", "grid_sample"]


@composite
def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    """y[n, h, w] = theta[n] · (x, y, 1): the places that an affine map sends the regular ones to

    theta (N, 2, 3) with size (N, C, H, W) -> (N, H, W, 2); theta (N, 3, 4) with (N, C, D, H, W) ->
    (N, D, H, W, 3).
    """
    theta, size = as_floating(array_like(theta)), tuple(size)
    d = len(size) - 2
    if d not in (2, 3) or theta.shape != (size[0], d, d + 1):
        raise ValueError(
            f"affine_grid: theta (N, 2, 3) goes with size (N, C, H, W), theta (N, 3, 4) with "
            f"(N, C, D, H, W); got theta {theta.shape}, size {size}"
        )
    lines = [_centres(n, align_corners) for n in reversed(size[2:])]  # x first
    places = np.meshgrid(*lines[::-1], indexing="ij")[::-1]
    regular = np.stack([*places, np.ones(size[2:])], -1).reshape(-1, d + 1).astype(theta.dtype)
    y = op.matmul(constant_like(regular, theta), op.swapaxes(theta, axis1=1, axis2=2))
    return op.reshape(y, shape=(size[0], *size[2:], d))


def _centres(n: int, align_corners: bool) -> np.ndarray:
    """Where n entries lie between −1 and 1."""
    if n == 1:
        return np.zeros(1)
    line = np.linspace(-1, 1, n)
    return line if align_corners else line * ((n - 1) / n)


@composite
def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """y[n, c, i, j] = x[n, c] at the place grid[n, i, j] = (x, y), between −1 and 1 inside x

    x (N, C, H, W), grid (N, h, w, 2) -> (N, C, h, w); or (N, C, D, H, W), grid (N, d, h, w, 3).
    mode: 'bilinear' between the centres around the place, 'nearest' (half to even; no gradient for
    the grid), 'bicubic' (images; Keys, 1981, a = −3/4). padding_mode: what lies outside x:
    'zeros', 'border' (the nearest entry) or 'reflection' at the edges, −1 and 1.
    """
    x, grid = as_floating(array_like(x)), as_floating(array_like(grid))
    dtype, x, grid = x.dtype, widen(x), widen(grid)
    d = x.ndim - 2
    _check(x, grid, mode, padding_mode)
    size = x.shape[2:]
    places = [
        _unscaled(grid[..., d - 1 - i], n, align_corners) for i, n in enumerate(size)
    ]  # of each axis of x, in its order
    outside = _outside(padding_mode, align_corners)
    taps = {"bilinear": _linear_taps, "nearest": _nearest_taps, "bicubic": _cubic_taps}[mode]
    along = [taps(p, n, outside) for p, n in zip(places, size, strict=True)]
    rows = op.reshape(x, shape=(*x.shape[:2], -1))
    terms = []
    for corner in product(*along):
        weight, place, inside = 1, 0, True
        for (w, i, within), n in zip(corner, size, strict=True):
            weight, place, inside = weight * w, place * n + i, within & inside
        place = op.reshape(place, shape=(x.shape[0], 1, -1))
        values = op.reshape(
            op.take_along_axis(rows, place, axis=2), shape=(*x.shape[:2], *grid.shape[1:-1])
        )
        # outside is selected, not multiplied: 0 times an infinite entry would be NaN
        terms.append(op.where(op.expand_dims(inside, axis=1), values, 0) * _of_channels(weight))
    y = sum(terms[1:], terms[0])
    return y if y.dtype == dtype else op.astype(y, dtype=dtype)


def _of_channels(weight: Any) -> Any:
    return weight if isinstance(weight, int) else op.expand_dims(weight, axis=1)


def _check(x: Any, grid: Any, mode: str, padding_mode: str) -> None:
    d = x.ndim - 2
    fits = grid.ndim == x.ndim and grid.shape[0] == x.shape[0] and grid.shape[-1] == d
    if d not in (2, 3) or not fits or 0 in x.shape[2:]:
        raise ValueError(
            "grid_sample: x (N, C, H, W) takes a grid (N, h, w, 2), x (N, C, D, H, W) one of "
            f"(N, d, h, w, 3); got x {x.shape}, grid {grid.shape}"
        )
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and d == 3):
        raise ValueError(
            "grid_sample: mode must be 'bilinear', 'nearest' or, for images, 'bicubic'; got "
            f"{mode!r} for x {x.shape}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got "
            f"{padding_mode!r}"
        )


# -- places along one axis ---------------------------------------------------------------------


def _unscaled(place: Any, n: int, align_corners: bool) -> Any:
    """A place between −1 and 1 as a fractional index of n entries."""
    return (place + 1) * ((n - 1) / 2) if align_corners else ((place + 1) * n - 1) / 2


def _outside(padding_mode: str, align_corners: bool) -> Callable:
    """(a fractional index, n) -> the index that is read in its place."""
    if padding_mode == "zeros":
        return lambda p, n: p
    if padding_mode == "border":
        return lambda p, n: op.clip(p, 0, n - 1)

    def reflected(p: Any, n: int) -> Any:
        low, span = (0, n - 1) if align_corners else (-0.5, n)
        if not span:
            return op.zeros_like(p)
        p = op.abs(p - low)
        turns = op.floor(p / span)
        rest = p - turns * span
        return op.clip(op.where(turns % 2 == 0, rest, span - rest) + low, 0, n - 1)

    return reflected


def _read(i: Any, n: int) -> tuple:
    """(i as an index of n entries, whether it is one)."""
    return op.astype(op.clip(i, 0, n - 1), dtype=np.intp), (i >= 0) & (i < n)


def _nearest_taps(p: Any, n: int, outside: Callable) -> list:
    return [(1, *_read(op.round(outside(p, n)), n))]


def _linear_taps(p: Any, n: int, outside: Callable) -> list:
    p = outside(p, n)
    low = op.floor(p)
    share = p - low
    return [(1 - share, *_read(low, n)), (share, *_read(low + 1, n))]


def _cubic_taps(p: Any, n: int, outside: Callable) -> list:
    low = op.floor(p)
    weights = cubic_weights(p - low)
    return [(w, *_read(outside(low + (k - 1), n), n)) for k, w in enumerate(weights)]


def cubic_weights(t: Any) -> list:
    """Weights of the entries at −1, 0, 1, 2 for a place t between 0 and 1: Keys's kernel, a = −¾"""

    def near(s: Any) -> Any:  # |s| ≤ 1
        return (1.25 * s - 2.25) * s * s + 1

    def far(s: Any) -> Any:  # 1 < |s| < 2
        return ((-0.75 * s + 3.75) * s - 6) * s + 3

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
