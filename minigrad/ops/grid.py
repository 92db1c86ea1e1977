"""Images sampled at the points of a grid: spatial transformers (Jaderberg et al., 2015).

Places are numbers from −1 to 1 along each axis, x before y (before z). With align_corners −1 and 1
are the centres of the corner entries, else the outer edges of them.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..engine.primitive import primitive
from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import array_like, as_floating, constant_like, module_of, widen
from .batching import one_more_axis
from .elementwise.selection import constant_in

__all__ = ["affine_grid", "grid_places", "grid_sample"]


@composite
def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    """y[n, h, w] = theta[n] · (x, y, 1): the regular grid under an affine map

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
@on_its_gpu
def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """y[n, c, i, j] = x[n, c] at the place grid[n, i, j] = (x, y), between −1 and 1 inside x

    x (N, C, H, W), grid (N, h, w, 2) -> (N, C, h, w); or (N, C, D, H, W), grid (N, d, h, w, 3).
    mode: 'bilinear' between the centres around the place, 'nearest' (half to even; the grid's
    gradient is 0), 'bicubic' (images; Keys, 1981, a = −3/4). padding_mode: the values outside x:
    'zeros', 'border' (the nearest entry) or 'reflection' at the edges, −1 and 1. An infinite place
    lies outside; its reflection is NaN.
    """
    x, grid = as_floating(array_like(x)), as_floating(array_like(grid))
    dtype, x, grid = x.dtype, widen(x), widen(grid)
    _check(x, grid, mode, padding_mode)
    (n, channels, *size), shape = x.shape, grid.shape[1:-1]
    outside, given = _outside(padding_mode, align_corners), _unscaled(grid, size, align_corners)
    place = given
    how: dict[str, Any] = {"size": tuple(size)}
    if padding_mode == "zeros":  # an infinite place has no neighbours: one far enough out has zeros
        last = constant_like(np.array(size, grid.dtype)[:, None], grid)
        place = op.clip(place, -3, last + 2)
    if mode == "bicubic":
        low = op.floor(place)
        weights, steps = cubic_weights(place - low), (-1, 0, 1, 2)
        how |= {"padding_mode": padding_mode, "align_corners": align_corners}
    else:
        if padding_mode != "zeros":
            along = [outside(place[:, i], length) for i, length in enumerate(size)]
            place = op.stack(along, axis=1)
        if mode == "nearest":
            low, weights, steps = op.round(place), None, (0,)
        else:
            low = op.floor(place)
            share, steps = place - low, (0, 1)
            weights = [1 - share, share]
    places = grid_places(low, steps=steps, **how)
    if weights is None:
        ones = module_of(x).ones(places.shape, dtype=x.dtype)
        weights = constant_in(given[:, :1], ones)
    else:
        weights = _products(op.stack(weights, axis=1))
    y = op.weighted_reads(op.reshape(x, shape=(n, channels, prod(size))), weights, places)
    y = op.reshape(y, shape=(n, channels, *shape))
    return op.astype(y, dtype=dtype, copy=False)


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


# -- places -----------------------------------------------------------------------------------


def _unscaled(grid: Any, size: list[int], align_corners: bool) -> Any:
    """The places of a grid (N, …, d) as fractional indices (N, d, P) of axes of these lengths."""
    n, *shape, d = grid.shape
    place = op.reshape(grid, shape=(n, prod(shape), d))[..., ::-1]  # in the order of x's axes
    place = op.contiguous(op.swapaxes(place, axis1=1, axis2=2))
    last = np.array(size, grid.dtype)[:, None] - 1
    scale = last / 2 if align_corners else (last + 1) / 2
    return place * constant_like(scale, grid) + constant_like(last / 2, grid)


@primitive(differentiable=False)
def grid_places(low, *, size, steps, padding_mode="zeros", align_corners=False):
    """The entries around places: low (…, d, P), whole numbers -> (…, K, P), K = len(steps)^d

    Along each axis low + step, then all axes as one; prod(size) for what lies outside of them.
    """
    if low.ndim < 2 or low.shape[-2] != len(size):
        raise ValueError(f"low {low.shape} must be (…, {len(size)}, P), an axis of {size} each")
    flat: Any = None
    valid: Any = True
    outside = _outside(padding_mode, align_corners)
    for axis, n in enumerate(size):
        along = [outside(low[..., axis, :] + step, n) for step in steps]
        with np.errstate(invalid="ignore"):  # NaN as an integer is outside: its weight is NaN
            index = np.clip(np.stack(along, -2), -1, n).astype(np.intp)
        inside = (index >= 0) & (index < n)
        if flat is None:
            flat, valid = index, inside
            continue
        *lead, taps, count = index.shape
        shape = (*lead, flat.shape[-2] * taps, count)
        flat = (flat[..., :, None, :] * n + index[..., None, :, :]).reshape(shape)
        valid = (valid[..., :, None, :] & inside[..., None, :, :]).reshape(shape)
    return np.where(valid, flat, prod(size))


grid_places.batch(one_more_axis)


def _products(weights: Any) -> Any:
    """Weights (N, T, d, P) along each axis as those of all axes together, (N, T^d, P)."""
    n, _, d, count = weights.shape
    y = weights[:, :, 0]
    for axis in range(1, d):
        y = op.expand_dims(y, axis=2) * weights[:, None, :, axis]
        y = op.reshape(y, shape=(n, prod(y.shape[1:3]), count))
    return y


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


def cubic_weights(t: Any) -> list:
    """Weights of the entries at −1, 0, 1, 2 for a place t between 0 and 1: Keys's kernel, a = −¾"""

    def near(s: Any) -> Any:  # |s| ≤ 1
        return (1.25 * s - 2.25) * s * s + 1

    def far(s: Any) -> Any:  # 1 < |s| < 2
        return -0.75 * (s - 1) * (s - 2) * (s - 2)  # multiplied out, it loses digits near its zeros

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
