"""Pooling in 1, 2 and 3 dimensions: the maximum or the mean of each window.

The maximum runs pairwise over shifted slices, one axis after the other: for 2 × 2 windows that is
two passes of np.maximum, forty times as fast as `max` over two axes of reshaped windows.
"""

import functools
from collections.abc import Callable, Iterator
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator, is_floating
from ..core.primitive import composite, linear, primitive
from ..core.tensor import Tensor
from .axes import array_like, as_floating
from .batching import full
from .blocks import over_leading
from .elementwise.selection import keep
from .pool_indices import max_pool_indices
from .windows import Windows, every, fold, inside, padded, per_axis, windows


def _slide(combine: Callable, x: Any, how: Windows, out: tuple) -> Any:
    """combine (np.maximum, np.add) over each window of the padded x, one axis after the other."""
    for i, (kernel, stride, _, dilation) in enumerate(how.axes()):
        later = (slice(None),) * (len(out) - 1 - i)
        parts = [x[(..., every(k * dilation, stride, out[i]), *later)] for k in range(kernel)]
        x = combine(parts[0], parts[1]) if kernel > 1 else parts[0].copy()
        for part in parts[2:]:
            combine(x, part, out=x)
    return x


def _places(x: Any, how: Windows, out: tuple) -> Iterator[Any]:
    """For each place in a window, the slice of the padded x that holds it for all windows."""
    for offsets in product(*map(range, how.kernel)):
        axes = zip(offsets, how.axes(), out, strict=True)
        yield x[(..., *(every(k * dilation, stride, n) for k, (_, stride, _, dilation), n in axes))]


def _by_images(forward: Callable) -> Callable:
    """A forward of images (..., *size): many of them in blocks, on all threads."""

    @functools.wraps(forward)
    def in_blocks(*arrays: Any, how: Windows, **params: Any) -> Any:
        return over_leading(lambda *xs: forward(*xs, how=how, **params), len(how.kernel), *arrays)

    return in_blocks


# -- the maximum -----------------------------------------------------------------------------


@primitive
@_by_images
def max_pool(x, *, how):
    """y = max of each window, where padding counts as −∞;  gx: ties of a window share equally

    x (..., *size) -> y (..., *out). A NaN is the maximum of its windows and gets no gradient.
    """
    size = x.shape[-len(how.kernel) :]
    lowest = -np.inf if is_floating(x.dtype) else np.iinfo(x.dtype).min
    return _slide(np.maximum, padded(x, how.padding, lowest), how, how.count("max_pool", size))


@max_pool.vjp("x")
def max_pool_gx(g, x, y, how):
    return max_pool_dx(g, x, y, how=how)


@linear(constants=["x", "y_max"])
@_by_images
def max_pool_dx(a, x, y_max, *, how):
    """Every entry of a, in equal shares, at those places of its window where x is the maximum."""
    hits, ties = _hits(x, y_max, how)
    share = a / ties
    dtype = accumulator(a.dtype) or a.dtype
    y = array_module(x).zeros_like(padded(x, how.padding), dtype=dtype)
    for place, hit in zip(_places(y, how, a.shape[-len(how.kernel) :]), hits, strict=True):
        place += keep(share, hit)  # ten times as fast as np.add with where=
    return y[inside(how.padding, x.shape[-len(how.kernel) :])].astype(a.dtype, copy=False)


@max_pool_dx.vjp("a")
def max_pool_dx_ga(g, x, y_max, how):
    return max_pool_pick(g, x, y_max, how=how)


@linear(constants=["x", "y_max"])
@_by_images
def max_pool_pick(a, x, y_max, *, how):
    """The mean of a (of x's shape) over those places of each window where x is the maximum."""
    hits, ties = _hits(x, y_max, how)
    y = array_module(x).zeros_like(y_max, dtype=accumulator(a.dtype) or a.dtype)
    places = _places(padded(a, how.padding), how, y_max.shape[-len(how.kernel) :])
    for place, hit in zip(places, hits, strict=True):
        y += keep(place, hit)
    return (y / ties).astype(a.dtype, copy=False)


@max_pool_pick.vjp("a")
def max_pool_pick_ga(g, x, y_max, how):
    return max_pool_dx(g, x, y_max, how=how)


@max_pool.jvp
def max_pool_jvp(x, x_t, y, how):
    return max_pool_pick(x_t, x, y, how=how)


def _hits(x: Any, y_max: Any, how: Windows) -> tuple[list, Any]:
    """For each place in a window, where it holds the maximum; and how many do (at least 1)."""
    out = y_max.shape[-len(how.kernel) :]
    filled = padded(x, how.padding, np.nan if is_floating(x.dtype) else 0)  # padding never ties
    hits = [place == y_max for place in _places(filled, how, out)]
    ties = sum((hit.view(np.uint8) for hit in hits[1:]), start=hits[0].astype(np.uint8))
    return hits, np.maximum(ties, 1).astype(x.dtype)


# -- the mean --------------------------------------------------------------------------------


@linear
@_by_images
def sum_pool(x, *, how, divisor=1):
    """y = Σ of each window / divisor, padding counts as 0 ;  gx = g / divisor, spread over windows

    16-bit floats are added up and divided in float32: a sum may be out of range, its mean not.
    """
    wide = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
    out = how.count("sum_pool", x.shape[-len(how.kernel) :])
    y = _slide(np.add, padded(wide, how.padding), how, out)
    return (y if divisor == 1 else y / divisor).astype(x.dtype, copy=False)


@sum_pool.vjp("x")
def sum_pool_gx(g, x_shape, how, divisor):
    return sum_pool_dx(g, size=x_shape[-len(how.kernel) :], how=how, divisor=divisor)


@linear
@_by_images
def sum_pool_dx(a, *, size, how, divisor=1):
    """Every entry of a / divisor, added to all places of its window: the transpose of sum_pool."""
    wide = a.astype(accumulator(a.dtype) or a.dtype, copy=False)
    wide = wide if divisor == 1 else wide / divisor
    lead, out = a.shape[: -len(size)], a.shape[-len(size) :]
    ones = (1,) * len(size)
    spread = np.broadcast_to(wide.reshape((*lead, *ones, *out)), (*lead, *how.kernel, *out))
    y = fold(spread, how, size, at=len(lead))
    return y.astype(a.dtype)


@sum_pool_dx.vjp("a")
def sum_pool_dx_ga(g, how, divisor):
    return sum_pool(g, how=how, divisor=divisor)


def _leading(op_, xs, batched, params):
    """All of these take any number of leading axes; the batch is one more."""
    return op_(*full(xs, batched), **params)


for _op in (max_pool, max_pool_dx, max_pool_pick, sum_pool, sum_pool_dx):
    _op.batch(_leading)


# -- what users call -------------------------------------------------------------------------


def _windows(name, dims, x, kernel_size, stride, padding, dilation, ceil_mode) -> Windows:
    """The windows of a pooling call, checked; ceil_mode is more padding at the end."""
    if x.ndim < dims:
        raise ValueError(f"{name}: x must have at least {dims} axes, got {x.shape}")
    kernel = per_axis(name, "kernel_size", kernel_size, dims, least=1)
    how = windows(name, kernel, kernel if stride is None else stride, padding, dilation)
    if any(2 * max(pair) > k for pair, k in zip(how.padding, kernel, strict=True)):
        raise ValueError(
            f"{name}: padding {how.padding} may be at most half of the kernel {kernel}, so that "
            "no window lies in the padding alone"
        )
    size = x.shape[-dims:]
    how.count(name, size)
    return how if not ceil_mode else how._replace(padding=_padding_to_cover(how, size))


def _padding_to_cover(how: Windows, size: tuple) -> tuple:
    """Padding with which a last, partial window counts, if it starts inside x or before it."""
    pairs = []
    for n, (kernel, stride, (before, after), dilation) in zip(size, how.axes(), strict=True):
        span = dilation * (kernel - 1) + 1
        last = ceil((n + before + after - span) / stride)
        if last * stride >= n + before:
            last -= 1
        pairs.append((before, max(after, last * stride + span - n - before)))
    return tuple(pairs)


def _module_of(x: Any) -> Any:
    """The array module of what lies below all levels of a tensor."""
    while isinstance(x, Tensor):
        x = x.data
    return array_module(x)


def _max_pool(
    dims, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices=False
):  # fmt: skip
    x = array_like(x)
    name = f"max_pool{dims}d"
    how = _windows(name, dims, x, kernel_size, stride, padding, dilation, ceil_mode)
    y = max_pool(x, how=how)
    return (y, max_pool_indices(x, how=how)) if return_indices else y


def _avg_pool(dims, x, kernel_size, stride, padding, ceil_mode, count_include_pad):
    x = as_floating(array_like(x))
    name = f"avg_pool{dims}d"
    how = _windows(name, dims, x, kernel_size, stride, padding, 1, ceil_mode)
    full = prod(how.kernel)
    y = sum_pool(x, how=how, divisor=full)
    asked = windows(name, how.kernel, how.stride, padding).padding
    if how.padding == asked and (count_include_pad or not any(map(any, asked))):
        return y
    # windows at the border cover fewer places: count those in x, or in x and the padding asked for
    ones = _module_of(x).ones(x.shape[-dims:], dtype=y.dtype)
    ends = how.padding
    if count_include_pad:
        ones = padded(ones, asked, 1)
        ends = tuple((0, b - a) for (_, b), (_, a) in zip(ends, asked, strict=True))
    return y / sum_pool(ones, how=how._replace(padding=ends), divisor=full)


@composite
def max_pool1d(
    x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
) -> Any:
    """max_pool2d's form in one dimension: x (..., W) -> (..., ow)."""
    return _max_pool(1, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool2d(
    x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
) -> Any:
    """y = max of each window of x (..., H, W); padding counts as −∞.

    The stride is the kernel's size unless given. Ties of a window share its gradient equally
    (PyTorch gives it to the first one). return_indices: (y, places), the place h·W + w of the first
    maximum of each window, for max_unpool2d.
    """
    return _max_pool(2, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool3d(
    x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
) -> Any:
    """max_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def avg_pool1d(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
) -> Any:
    """avg_pool2d's form in one dimension: x (..., W) -> (..., ow)."""
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@composite
def avg_pool2d(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
) -> Any:
    """y = mean of each window of x (..., H, W). The zeros of the padding count as elements, unless
    count_include_pad=False; what ceil_mode adds never counts.
    """
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@composite
def avg_pool3d(
    x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
) -> Any:
    """avg_pool2d's form in three dimensions: x (..., D, H, W)."""
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip
