"""Images in another size: adaptive pooling and upsampling, one axis after the other."""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import is_floating
from ..core.primitive import composite
from ..core.registry import op
from ..core.tensor import Tensor
from .axes import array_like, as_floating, module_of
from .pool import sum_pool
from .windows import per_axis, windows

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "upsample",
]  # fmt: skip


def _checked(name: str, x: Any, size: Any, axes: int) -> tuple[Any, tuple]:
    x = array_like(x)
    if x.ndim < axes or 0 in x.shape[-axes:]:
        raise ValueError(f"{name}: x must end in {axes} non-empty axes, got shape {x.shape}")
    if isinstance(size, tuple | list) and len(size) == axes:  # None leaves an axis as it is
        size = tuple(n if m is None else m for n, m in zip(x.shape[-axes:], size, strict=True))
    return x, per_axis(name, "output size", size, axes, least=1)


# -- adaptive pooling ------------------------------------------------------------------------


def _adaptive(x: Any, size: tuple) -> Any:
    """The mean of each of `size` windows spread over the last axes.

    Where the windows divide an axis they are pooled. Else the means are a product with a matrix of
    weights; its zeros make NaN of an infinite entry, for all windows along that axis.
    """
    x = as_floating(x)
    old = x.shape[-len(size) :]
    if all(n % m == 0 for n, m in zip(old, size, strict=True)):
        kernel = tuple(n // m for n, m in zip(old, size, strict=True))
        return sum_pool(x, how=windows("adaptive", kernel, kernel), divisor=prod(kernel))
    data = x
    while isinstance(data, Tensor):
        data = data.data
    xp = array_module(data)
    for axis, n, m in zip(range(-len(size), 0), old, size, strict=True):
        means = xp.asarray(_means(n, m), dtype=x.dtype)
        x = op.matmul(op.swapaxes(x, axis1=axis, axis2=-1), means.T)
        x = op.swapaxes(x, axis1=axis, axis2=-1)
    return x


def _means(old: int, new: int) -> np.ndarray:
    """Row i averages the entries from ⌊i old / new⌋ up to ⌈(i + 1) old / new⌉."""
    i, k = np.arange(new)[:, None], np.arange(old)
    covered = (i * old // new <= k) & (k < -((-(i + 1) * old) // new))
    return covered / covered.sum(1, keepdims=True)


@composite
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    """adaptive_avg_pool2d's form in one dimension: x (..., W) -> (..., output_size)."""
    return _adaptive(*_checked("adaptive_avg_pool1d", x, output_size, 1))


@composite
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
    """y = means of windows spread evenly over x (..., H, W), as many as output_size asks.

    Window i of m over n entries goes from ⌊i n / m⌋ up to ⌈(i + 1) n / m⌉; windows may overlap.
    """
    return _adaptive(*_checked("adaptive_avg_pool2d", x, output_size, 2))


@composite
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Any:
    """adaptive_avg_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _adaptive(*_checked("adaptive_avg_pool3d", x, output_size, 3))


def _adaptive_max(dims: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    """The maximum of each window, of all windows copied side by side with −∞ where one ends."""
    x, size = _checked(f"adaptive_max_pool{dims}d", x, output_size, dims)
    xp, old, lead = module_of(x), x.shape[-dims:], x.ndim - dims
    key: list = []
    place: Any = 0
    inside: Any = True
    for axis, (n, m) in enumerate(zip(old, size, strict=True)):
        start, stop = np.arange(m) * n // m, -((-(np.arange(m) + 1) * n) // m)
        along = start[:, None] + np.arange((stop - start).max())
        shape = [1] * (2 * dims)
        shape[axis], shape[dims + axis] = along.shape
        here = xp.asarray(np.minimum(along, n - 1).reshape(shape))
        key.append(here)
        inside = inside & xp.asarray((along < stop[:, None]).reshape(shape))
        place = place * n + here
    lowest = -np.inf if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)
    windows = op.where(inside, x[(..., *key)], lowest)
    covers = prod(inside.shape[dims:])
    windows = op.reshape(windows, shape=(*x.shape[:lead], *size, covers))
    y = op.max(windows, axis=-1)
    if not return_indices:
        return y
    first = op.argmax(op.where(windows != windows, np.inf, windows), axis=-1)
    places = op.broadcast_to(place.reshape((*size, covers)), shape=windows.shape)
    return y, op.take_along_axis(places, first[..., None], axis=-1)[..., 0]


@composite
def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d's form in one dimension: x (..., W) -> (..., output_size)."""
    return _adaptive_max(1, x, output_size, return_indices)


@composite
def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """y = maxima of windows spread evenly over x (..., H, W): those of adaptive_avg_pool2d.

    Ties of a window share its gradient equally. return_indices: (y, places), the place h·W + w in x
    of the first maximum of each window. An entry None of output_size leaves its axis as it is.
    """
    return _adaptive_max(2, x, output_size, return_indices)


@composite
def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _adaptive_max(3, x, output_size, return_indices)


# -- upsampling ------------------------------------------------------------------------------


def _nearest(x: Any, axis: int, new: int) -> Any:
    """Entry i is x's entry ⌊i old / new⌋."""
    return op.take(x, module_of(x).arange(new) * x.shape[axis] // new, axis=axis)


def _linear(x: Any, axis: int, new: int, align_corners: bool) -> Any:
    """Entry i lies between two entries of x, by its distance from each."""
    old, steps = x.shape[axis], module_of(x).arange(new)
    if align_corners:
        place = steps * ((old - 1) / max(new - 1, 1))
    else:
        place = (steps + 0.5) * (old / new) - 0.5
    place = np.clip(place, 0, old - 1)
    low = np.minimum(place.astype(np.intp), max(old - 2, 0))
    share = (place - low).reshape((-1, *(1,) * (x.ndim - 1 - axis)))
    below = op.take(x, low, axis=axis)
    above = op.take(x, np.minimum(low + 1, old - 1), axis=axis)
    return below + (above - below) * share.astype(x.dtype)


@composite
def upsample(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """x (N, C, *size) with its spatial axes in the new `size`, or `scale_factor` times as long.

    mode 'nearest' repeats entries; 'linear' (also written 'bilinear') interpolates between entry
    centres, or, with align_corners=True, so that the corner entries stay where they are.
    """
    x = array_like(x)
    axes = x.ndim - 2
    if axes < 1 or (size is None) == (scale_factor is None):
        raise ValueError(
            f"upsample: x must be (N, C, *size), and size or scale_factor given, not both; got x "
            f"{x.shape}, size={size!r}, scale_factor={scale_factor!r}"
        )
    if size is None:
        scales = (scale_factor,) * axes if np.ndim(scale_factor) == 0 else tuple(scale_factor)
        if len(scales) != axes or not all(s > 0 for s in scales):
            raise ValueError(
                f"upsample: scale_factor must be a positive number, or {axes} of them for x "
                f"{x.shape}; got {scale_factor!r}"
            )
        size = tuple(int(n * s) for n, s in zip(x.shape[2:], scales, strict=True))
    x, size = _checked("upsample", x, size, axes)
    if mode not in ("nearest", "linear", "bilinear"):
        raise ValueError(f"upsample: mode must be 'nearest', 'linear' or 'bilinear', got {mode!r}")
    x = x if mode == "nearest" else as_floating(x)
    for axis, new in enumerate(size, start=2):
        if new != x.shape[axis]:
            nearest = mode == "nearest"
            x = _nearest(x, axis, new) if nearest else _linear(x, axis, new, align_corners)
    return x
