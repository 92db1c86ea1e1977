"""Fractional max-pooling: windows of one size at places that are drawn, as many as are asked for.

Window i of m begins at ⌊(i + u) a⌋ − ⌊u a⌋ with a = (n − k)/(m − 1), the last one at n − k: with u
in [0, 1) the steps are ⌊a⌋ or ⌈a⌉, in an order that u decides (B. Graham, "Fractional Max-Pooling",
2014, the pseudo-random kind). Each plane of an image has a u for each axis.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, is_floating
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.create import rand
from ..axes import array_beside, array_like, constant_like, device_of_any
from ..elementwise.support import ordered
from ..windows import per_axis

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d"]


def _fractional(
    dims: int, x: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Any,
) -> Any:  # fmt: skip
    name = f"fractional_max_pool{dims}d"
    x = ordered(array_like(x), name)
    if x.ndim < dims:
        raise ValueError(f"{name}: x (..., *size) must have at least {dims} axes, got {x.shape}")
    lead, size = x.shape[:-dims], x.shape[-dims:]
    kernel = per_axis(name, "kernel_size", kernel_size, dims, least=1)
    out = _output_size(name, size, output_size, output_ratio)
    if any(m + k - 1 > n for n, k, m in zip(size, kernel, out, strict=True)):
        raise ValueError(
            f"{name}: {out} windows of {kernel} have no room in x {x.shape}: an axis of n holds at "
            "most n − kernel_size + 1 that begin at different places"
        )
    places = _places(size, kernel, out, _samples(name, x, dims, samples))
    covers = prod(kernel)
    places = op.reshape(places, shape=(*lead, prod(out) * covers))
    windows = op.take_along_axis(op.reshape(x, shape=(*lead, prod(size))), places, axis=-1)
    windows = op.reshape(windows, shape=(*lead, *out, covers))
    y = op.max(windows, axis=-1)
    if not return_indices:
        return y
    first = op.argmax(op.where(windows != windows, np.inf, windows), axis=-1)[..., None]
    places = op.reshape(places, shape=windows.shape)
    return y, op.take_along_axis(places, first, axis=-1)[..., 0]


def _output_size(name: str, size: tuple, output_size: Any, output_ratio: Any) -> tuple:
    """As given, or ⌊n · ratio⌋ for each axis."""
    dims = len(size)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}: give either output_size or output_ratio")
    if output_size is not None:
        return per_axis(name, "output_size", output_size, dims, least=1)
    ratios = (output_ratio,) * dims if np.ndim(output_ratio) == 0 else tuple(output_ratio)
    if len(ratios) != dims or not all(0 < ratio < 1 for ratio in ratios):
        raise ValueError(
            f"{name}: output_ratio must lie between 0 and 1, one number or {dims}, got "
            f"{output_ratio!r}"
        )
    out = tuple(int(n * ratio) for n, ratio in zip(size, ratios, strict=True))
    if 0 in out:
        raise ValueError(f"{name}: output_ratio {output_ratio!r} of {size} leaves no window")
    return out


def _samples(name: str, x: Any, dims: int, samples: Any) -> Any:
    """u for each plane and axis, (..., dims): drawn, or those given, which are constants."""
    lead = x.shape[:-dims]
    if samples is None:
        narrow = not is_floating(x.dtype) or accumulator(x.dtype) is not None
        dtype = np.float32 if narrow else x.dtype
        return rand(*lead, dims, dtype=dtype, device=device_of_any(x))
    samples = array_beside(samples, x)
    if samples.shape not in {(*lead, dims), (1, *lead, dims)}:
        raise ValueError(
            f"{name}: _random_samples must hold a number for each plane and axis, "
            f"{(*lead, dims)} for x {x.shape}; got {samples.shape}"
        )
    return op.reshape(samples, shape=(*lead, dims))


def _places(size: tuple, kernel: tuple, out: tuple, samples: Any) -> Any:
    """The numbers of all places of all windows, counted row by row: (..., *out, *kernel)."""
    dims = len(size)
    place: Any = 0
    for axis, (n, k, m) in enumerate(zip(size, kernel, out, strict=True)):
        u = samples[..., 1 - axis if dims == 2 else axis, None]  # in PyTorch's order: W, H in 2-d
        step = (n - k) / max(m - 1, 1)
        first = constant_like(np.arange(m, dtype=samples.dtype), samples)
        starts = np.floor((first + u) * step) - np.floor(u * step)
        starts = op.where(first == m - 1, n - k, starts).astype(np.int64)
        along = starts[..., None] + constant_like(np.arange(k), samples)
        shape = [1] * (2 * dims)
        shape[axis], shape[dims + axis] = m, k
        place = place * n + op.reshape(along, shape=(*samples.shape[:-1], *shape))
    return place


@composite
@on_its_gpu
def fractional_max_pool2d(
    x: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """y = max of each of output_size windows of kernel_size, at places drawn, of x (..., H, W)

    The size is output_size (oh, ow), or output_ratio times x's, rounded down. Each plane draws two
    numbers in [0, 1), for W and for H (mg.manual_seed), unless _random_samples (..., 2) has them.
    Windows may overlap. Ties of a window share its gradient equally (PyTorch gives it to one).
    return_indices: (y, places), the place h·W + w of the first maximum of each window.
    """
    return _fractional(
        2, x, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@composite
@on_its_gpu
def fractional_max_pool3d(
    x: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """fractional_max_pool2d's form in three dimensions: x (..., D, H, W).

    _random_samples (..., 3): the numbers for D, H and W, in this order.
    """
    return _fractional(
        3, x, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
