"""Where the maxima of pooling lie, and the way back: max_unpool.

A place is counted through the spatial axes of x alone, row by row, as PyTorch counts it: with x
(..., H, W), place h·W + w.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import is_floating
from ...engine.primitive import linear, primitive
from ...tensor_api.composite import composite
from ..axes import array_beside, array_like
from ..batching import one_more_of_all
from ..index.scattering import along_key, last_writes, write_at
from ..windows import Padding, Sizes, padded, per_axis, positions, windows

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


@primitive(differentiable=False)
def max_pool_indices(x, *, how):
    """The place of each window's maximum in x (..., *size): the first one of equals, or of NaNs.

    int64, of max_pool's shape. Places in the padding never count.
    """
    size = x.shape[-len(how.kernel) :]
    numbers = array_module(x).arange(prod(size)).reshape(size)
    image, numbers = padded(x, how.padding), padded(numbers, how.padding, -1)
    first, *others = positions(how, how.count("max_pool", size))
    best, places = image[first], np.broadcast_to(numbers[first], image[first].shape)
    found = numbers[first] >= 0
    for at in others:
        value, place, inside = image[at], numbers[at], numbers[at] >= 0
        higher = value > best
        if is_floating(x.dtype):
            higher = (higher | (value != value)) & (best == best)
        taken = (higher | ~found) & inside
        best, places = np.where(taken, value, best), np.where(taken, place, places)
        found = found | inside
    return places.astype(np.int64)


# -- back --------------------------------------------------------------------------------------


@primitive(differentiable=False)
def unpool_places(indices, *, size):
    """Places in an image of this size, checked, with the spatial axes made one: (..., n)."""
    places = prod(size)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices must hold integers, got {indices.dtype}")
    if indices.size and not (0 <= int(indices.min()) and int(indices.max()) < places):
        raise ValueError(
            f"indices run from {int(indices.min())} to {int(indices.max())}, but the result of "
            f"size {tuple(size)} has the places 0..{places - 1}; give the output_size that was "
            "pooled"
        )
    lead = indices.shape[: indices.ndim - len(size)]
    # a copy: a program makes views only once, and would then check only once
    return indices.reshape((*lead, prod(indices.shape[len(lead) :]))).copy()


@linear(constants=["places"])
def write_places(x, places, *, count):
    """Zeros (..., count) with x (..., n) written at the places (..., n); the last write wins.

    gx = read_places(g): g at the places, and 0 for a write that has lost.
    """
    y = array_module(x).zeros((*x.shape[:-1], count), dtype=x.dtype)
    write_at(y, along_key(places, -1, y.shape), x)
    return y


@write_places.vjp("x")
def write_places_gx(g, places):
    return read_places(g, places)


@linear(constants=["places"])
def read_places(x, places):
    """The transpose of write_places: x (..., count) at the places, 0 for those that lose."""
    won = last_writes(along_key(places, -1, x.shape), x.shape, array_module(x))
    return np.where(won, np.take_along_axis(x, places, -1), 0).astype(x.dtype, copy=False)


@read_places.vjp("x")
def read_places_gx(g, places, x_shape):
    return write_places(g, places, count=x_shape[-1])


for _op in (max_pool_indices, unpool_places, write_places, read_places):
    _op.batch(one_more_of_all)


def _unpool(
    dims: int, x: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None, padding: Padding,
    output_size: Sizes | None,
) -> Any:  # fmt: skip
    name = f"max_unpool{dims}d"
    x = array_like(x)
    indices = array_beside(indices, x)
    if x.ndim < dims or indices.shape != x.shape:
        raise ValueError(
            f"{name}: x (..., *size) must have at least {dims} axes, and indices its shape; got "
            f"x {x.shape}, indices {indices.shape}"
        )
    size = _unpooled_size(name, dims, x, kernel_size, stride, padding, output_size)
    lead = x.shape[:-dims]
    places = unpool_places(indices, size=size)
    y = write_places(x.reshape((*lead, prod(x.shape[-dims:]))), places, count=prod(size))
    return y.reshape((*lead, *size))


def _unpooled_size(
    name: str, dims: int, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Padding,
    output_size: Sizes | None,
) -> tuple[int, ...]:  # fmt: skip
    """The spatial size of the result: as given, or the smallest that pools to x's."""
    kernel = per_axis(name, "kernel_size", kernel_size, dims, least=1)
    how = windows(name, kernel, kernel if stride is None else stride, padding)
    least = tuple(
        (n - 1) * stride - sum(pair) + k
        for n, (k, stride, pair, _) in zip(x.shape[-dims:], how.axes(), strict=True)
    )
    if output_size is None:
        if min(least) < 1:
            raise ValueError(
                f"{name}: padding {how.padding} leaves nothing of the result, whose size would be "
                f"{least}; use less padding, or give output_size"
            )
        return least
    given = output_size if isinstance(output_size, int) else tuple(output_size)[-dims:]
    given = per_axis(name, "output_size", given, dims, least=1)
    if any(abs(n - m) >= s for n, m, s in zip(given, least, how.stride, strict=True)):
        raise ValueError(
            f"{name}: output_size {output_size!r} must end in {dims} lengths, each less than the "
            f"stride {how.stride} away from {least}"
        )
    return given


@composite
def max_unpool1d(
    x: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    output_size: Sizes | None = None,
) -> Any:  # fmt: skip
    """max_unpool2d's form in one dimension: x (..., ow) -> (..., W)."""
    return _unpool(1, x, indices, kernel_size, stride, padding, output_size)


@composite
def max_unpool2d(
    x: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    output_size: Sizes | None = None,
) -> Any:  # fmt: skip
    """y = zeros, with the entries of x (..., oh, ow) at the places that `indices` names.

    indices, of x's shape, as max_pool2d(..., return_indices=True) gives them: h·W + w of y
    (..., H, W). Where two entries go to one place, the last one is written and gets the gradient.
    The size is the smallest that pools to x's, or output_size. gx = g at the indices.
    """
    return _unpool(2, x, indices, kernel_size, stride, padding, output_size)


@composite
def max_unpool3d(
    x: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Padding = 0,
    output_size: Sizes | None = None,
) -> Any:  # fmt: skip
    """max_unpool2d's form in three dimensions: x (..., od, oh, ow) -> (..., D, H, W)."""
    return _unpool(3, x, indices, kernel_size, stride, padding, output_size)
