"""Resizing images: adaptive pooling and upsampling, one axis after the other."""

from math import prod
from typing import Any

import numpy as np

from ..backends.dtypes import lowest
from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import array_like, as_floating, module_of, widen
from .elementwise.support import ordered
from .grid import cubic_weights
from .pool.primitives import max_pool, sum_pool
from .windows import Windows, per_axis, windows

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "upsample",
]  # fmt: skip


def _checked(name: str, x: Any, size: Any, axes: int) -> tuple[Any, tuple]:
    x = array_like(x)
    if x.ndim < axes or 0 in x.shape[-axes:]:
        raise ValueError(f"{name}: x must end in {axes} non-empty axes, got shape {x.shape}")
    size = (None,) * axes if size is None else size
    if isinstance(size, tuple | list) and len(size) == axes:  # None leaves an axis as it is
        size = tuple(n if m is None else m for n, m in zip(x.shape[-axes:], size, strict=True))
    return x, per_axis(name, "output size", size, axes, least=1)


# -- adaptive pooling ------------------------------------------------------------------------


def _adaptive(x: Any, size: tuple) -> Any:
    """The mean of each of `size` windows spread over the last axes.

    Where the windows divide an axis they are pooled. Else the means are sums with a matrix of
    weights; 16 bits are rounded once, at the end.
    """
    x = as_floating(x)
    old = x.shape[-len(size) :]
    tiles = _tiles(old, size)
    if tiles is not None:
        return sum_pool(x, how=tiles, divisor=prod(tiles.kernel))
    y = widen(x)
    for axis, n, m in zip(range(-len(size), 0), old, size, strict=True):
        y = _weighted(y, axis, _means(n, m))
    return op.astype(y, dtype=x.dtype, copy=False)


def _tiles(old: tuple, size: tuple) -> Windows | None:
    """The windows as tiles, where their number divides each axis."""
    if any(n % m or not n for n, m in zip(old, size, strict=True)):
        return None
    kernel = tuple([n // m for n, m in zip(old, size, strict=True)])
    return windows("adaptive", kernel, kernel)


def _weighted(x: Any, axis: int, weights: np.ndarray) -> Any:
    """x with sums in place of one axis, by weights (new, old): a row of them for each new entry."""
    weights = module_of(x).asarray(weights, dtype=x.dtype)
    y = op.windowed_sums(op.swapaxes(x, axis1=axis, axis2=-1), weights)
    return op.swapaxes(y, axis1=axis, axis2=-1)


def _means(old: int, new: int) -> np.ndarray:
    """Row i averages the entries from ⌊i old / new⌋ up to ⌈(i + 1) old / new⌉."""
    i, k = np.arange(new)[:, None], np.arange(old)
    covered = (i * old // new <= k) & (k < -((-(i + 1) * old) // new))
    return covered / covered.sum(1, keepdims=True)


@composite
@on_its_gpu
def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    """adaptive_avg_pool2d's form in one dimension: x (..., W) -> (..., output_size)."""
    return _adaptive(*_checked("adaptive_avg_pool1d", x, output_size, 1))


@composite
@on_its_gpu
def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
    """y = means of windows spread evenly over x (..., H, W), as many as output_size asks.

    Window i of m over n entries goes from ⌊i n / m⌋ up to ⌈(i + 1) n / m⌉; windows may overlap.
    """
    return _adaptive(*_checked("adaptive_avg_pool2d", x, output_size, 2))


@composite
@on_its_gpu
def adaptive_avg_pool3d(x: Any, output_size: Any) -> Any:
    """adaptive_avg_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _adaptive(*_checked("adaptive_avg_pool3d", x, output_size, 3))


def _adaptive_max(dims: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    """The maximum of each window, of all windows copied side by side with −∞ where one ends."""
    name = f"adaptive_max_pool{dims}d"
    x, size = _checked(name, x, output_size, dims)
    x = ordered(x, name)
    tiles = _tiles(x.shape[-dims:], size)
    if tiles is not None and not return_indices:
        return max_pool(x, how=tiles)
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
    windows = op.where(inside, x[(..., *key)], lowest(x.dtype))
    covers = prod(inside.shape[dims:])
    windows = op.reshape(windows, shape=(*x.shape[:lead], *size, covers))
    y = op.max(windows, axis=-1)
    if not return_indices:
        return y
    first = op.argmax(op.where(windows != windows, np.inf, windows), axis=-1)
    places = op.broadcast_to(place.reshape((*size, covers)), shape=windows.shape)
    return y, op.take_along_axis(places, first[..., None], axis=-1)[..., 0]


@composite
@on_its_gpu
def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d's form in one dimension: x (..., W) -> (..., output_size)."""
    return _adaptive_max(1, x, output_size, return_indices)


@composite
@on_its_gpu
def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """y = maxima of windows spread evenly over x (..., H, W): those of adaptive_avg_pool2d.

    Ties of a window share its gradient equally. return_indices: (y, places), the place h·W + w in x
    of the first maximum of each window. None in output_size leaves that axis as it is.
    """
    return _adaptive_max(2, x, output_size, return_indices)


@composite
@on_its_gpu
def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _adaptive_max(3, x, output_size, return_indices)


# -- upsampling ------------------------------------------------------------------------------


def _nearest(x: Any, axis: int, new: int, step: float, centre: float) -> Any:
    """Entry i is x's entry ⌊(i + centre) step⌋, where step entries of x make one of y. A place that
    is a whole number but for rounding is that number: entry 55 of 77 made of 21 is entry 15 of x.

    For a few times the length it is copies of x, whose gradient adds up slices.
    """
    times, old = round(1 / step), x.shape[axis]
    if times in (2, 4) and times * step == 1 and times * old == new and module_of(x) is np:
        y = op.stack([x] * times, axis=axis + 1)
        return op.reshape(y, shape=(*x.shape[:axis], new, *x.shape[axis + 1 :]))
    place = (module_of(x).arange(new) + centre) * (step * (1 + 2**-50))
    return op.take(x, np.minimum(np.floor(place).astype(np.intp), old - 1), axis=axis)


def _places(x: Any, axis: int, new: int, step: float, align_corners: bool) -> Any:
    """Where the new entries lie among the old ones: fractional indices."""
    steps = module_of(x).arange(new)
    if align_corners:
        return steps * ((x.shape[axis] - 1) / max(new - 1, 1))
    return (steps + 0.5) * step - 0.5


def _column(weights: Any, x: Any, axis: int) -> Any:
    """One weight for each entry along an axis of x."""
    return weights.reshape((-1, *(1,) * (x.ndim - 1 - axis))).astype(x.dtype)


def _linear(x: Any, axis: int, new: int, step: float, align_corners: bool) -> Any:
    """Entry i lies between two entries of x, by its distance from each."""
    old = x.shape[axis]
    place = np.clip(_places(x, axis, new, step, align_corners), 0, old - 1)
    low = place.astype(np.intp)
    below = op.take(x, low, axis=axis)
    above = op.take(x, np.minimum(low + 1, old - 1), axis=axis)
    share = place - low
    # not below + share (above - below), which is NaN next to an infinite entry
    return below * _column(1 - share, x, axis) + above * _column(share, x, axis)


def _cubic(x: Any, axis: int, new: int, step: float, align_corners: bool) -> Any:
    """Entry i is a sum over four entries of x, those beyond the ends being the last ones again."""
    place = _places(x, axis, new, step, align_corners)
    low = np.floor(place)
    terms = [
        op.take(x, np.clip(low + (k - 1), 0, x.shape[axis] - 1).astype(np.intp), axis=axis)
        * _column(weights, x, axis)
        for k, weights in enumerate(cubic_weights(place - low))
    ]
    return sum(terms[1:], terms[0])


def _smooth(x: Any, axis: int, new: int, step: float, kernel: tuple) -> Any:
    """Entry i is the mean of x's entries around its place, weighted by an interpolation kernel.

    The kernel is as wide as `step` entries of x, or as one entry where y is longer: no entry of x
    is skipped. Weights are cut at the ends and add up to 1.
    """
    old = x.shape[axis]
    wide, (weight, reach) = max(step, 1), kernel
    place = (np.arange(new)[:, None] + 0.5) * step
    entry = np.arange(old)
    first, last = (np.floor(place + side * wide + 0.5) for side in (-reach, reach))
    weights = weight(np.abs(entry + 0.5 - place) / wide)
    weights = np.where((first <= entry) & (entry < last), weights, 0)
    return _weighted(x, axis, weights / weights.sum(1, keepdims=True))


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1 - distance, 0)


def _keys(t: np.ndarray) -> np.ndarray:
    """The cubic convolution kernel with a = −1/2 at the distances t ≥ 0: Keys, 1981"""
    near = (1.5 * t - 2.5) * t * t + 1
    far = -0.5 * (t - 1) * (t - 2) * (t - 2)
    return np.where(t < 1, near, np.where(t < 2, far, 0))


@composite
@on_its_gpu
def upsample(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:  # fmt: skip
    """x (N, C, *size) with its spatial axes in the new `size`, or `scale_factor` times as long.

    mode: 'nearest' (the entry at or before the place) and 'nearest-exact' repeat entries; 'linear'
    (also 'bilinear', 'trilinear') and 'bicubic' (Keys, 1981, a = −3/4) interpolate between entry
    centres; with align_corners=True the corner entries stay in place. 'area' is adaptive average
    pooling. Places are computed with the scale even if it does not divide the size, unless
    recompute_scale_factor. With antialias, where y is smaller, linear and cubic modes widen their
    kernel (here a = −1/2): every entry of x counts, as in an image library's resize.
    """
    x = array_like(x)
    axes = x.ndim - 2
    if axes < 1 or (size is None) == (scale_factor is None):
        raise ValueError(
            f"upsample: x must be (N, C, *size), and size or scale_factor given, not both; got x "
            f"{x.shape}, size={size!r}, scale_factor={scale_factor!r}"
        )
    if size is not None and recompute_scale_factor:
        raise ValueError(
            "upsample: recompute_scale_factor is for scale_factor; places always follow from a "
            f"size, here {size!r}, so leave it out"
        )
    steps: list | None = None  # how many entries of x one of y is long
    if size is None:
        scales = (scale_factor,) * axes if np.ndim(scale_factor) == 0 else tuple(scale_factor)
        if len(scales) != axes or not all(s > 0 for s in scales):
            raise ValueError(
                f"upsample: scale_factor must be a positive number, or {axes} of them for x "
                f"{x.shape}; got {scale_factor!r}"
            )
        size = tuple(int(n * float(s)) for n, s in zip(x.shape[2:], scales, strict=True))
        steps = None if recompute_scale_factor else [1 / s for s in scales]
    x, size = _checked("upsample", x, size, axes)
    _check_mode(mode, align_corners, antialias)
    if mode == "area":
        return _adaptive(x, size)
    kernel = _KERNELS.get(mode)
    x = x if kernel is None else as_floating(x)
    dtype, x = x.dtype, x if kernel is None else widen(x)  # 16 bits are rounded once, at the end
    steps = steps or [old / new for old, new in zip(x.shape[2:], size, strict=True)]
    resize, last = _MODES[mode]
    last = bool(align_corners) if last is None else last
    for axis, (new, step) in enumerate(zip(size, steps, strict=True), start=2):
        old = x.shape[axis]
        step = _exact_step(old, new, mode, axes) or step
        if not antialias or kernel is None:
            x = x if (new, step) == (old, 1) else resize(x, axis, new, step, last)
        elif new != old:
            step = (old - 1) / (new - 1 or np.inf) if align_corners else step
            x = _smooth(x, axis, new, step, kernel)
    return op.astype(x, dtype=dtype, copy=False)


def _check_mode(mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _MODES:
        raise ValueError(f"upsample: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    for name, given in (("align_corners", align_corners), ("antialias", antialias)):
        if given and mode not in _KERNELS:
            raise ValueError(
                f"upsample: {name} is for the modes {', '.join(_KERNELS)}, and mode is {mode!r}; "
                "leave it out"
            )


def _exact_step(old: int, new: int, mode: str, axes: int) -> float | None:
    """The step along an axis whatever the scale was, where PyTorch goes by the lengths: an axis
    that keeps its length stays as it is in the linear modes, and in the plane also with 'nearest',
    where one of twice the length repeats every entry.
    """
    if new == old and "linear" in mode:
        return 1.0
    plane = mode == "nearest" and axes == 2 and new in (old, 2 * old)
    return old / new if plane else None


# mode: (how one axis is resized, its last argument; None: align_corners)
_MODES: dict[str, Any] = {
    "nearest": (_nearest, 0.0), "nearest-exact": (_nearest, 0.5), "linear": (_linear, None),
    "bilinear": (_linear, None), "trilinear": (_linear, None), "bicubic": (_cubic, None),
    "area": (None, None),
}  # fmt: skip
# mode: (the kernel over distances, how far it reaches)
_KERNELS: dict[str, Any] = {
    "linear": (_triangle, 1), "bilinear": (_triangle, 1), "trilinear": (_triangle, 1),
    "bicubic": (_keys, 2),
}  # fmt: skip
