"""Convolution in 1, 2 and 3 dimensions: windows copied into columns, then one matrix product.

    y  = conv(x, w)          y[o,i] = Σ_{c,k} w[o,c,k] x[c, stride·i + dilation·k − padding]
    gx = conv_dx(g, w)       its transpose in x
    gw = conv_dw(g, x)       its transpose in w

Each of the three is linear in each of its arguments, and their derivatives are the three again:
the family is closed, so derivatives of any order come from these rules.

The columns are made in blocks of the batch that stay in the cache. They are kernel-size times as
large as x, so the backward computes them again rather than save them.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..core.primitive import composite, multilinear, primitive
from ..core.registry import op
from .windows import Windows, columns, fold, windows

BLOCK_BYTES = 1 << 22  # of columns made at a time: a few MB measured best with 1 MB of L2
FEW_WINDOWS = 64  # images with fewer windows than this are multiplied together, not one by one


@primitive(arrays="x w b")
def conv(x, w, b=None, *, how=None, groups=1):
    """y[n,o,i] = Σ_{c,k} w[o,c,k] x[n,c, stride·i + dilation·k − padding] + b[o]

    gx = conv_dx(g, w̄), gw = conv_dw(g, x̄), gb = Σ g over batch and space
    x (N, C, *size), w (O, C/groups, *kernel), b (O,) -> y (N, O, *out)
    """
    (x, w), dtype = _widened(x, w)
    out = how.count("conv", x.shape[2:])
    y = array_module(x).empty((len(x), len(w), *out), dtype=x.dtype)
    weight = w.reshape((groups, len(w) // groups, prod(w.shape[1:])))
    images = _Images(groups, prod(out))
    for block in _blocks(len(x), x.shape[1] * prod(how.kernel) * prod(out) * x.itemsize):
        images.product(weight, images.columns(x[block], how, out), y[block])
    if b is not None:
        y += b.reshape((-1, *(1,) * len(out)))
    return y.astype(dtype, copy=False)


@conv.vjp("x")
def conv_gx(g, w, x_shape, how, groups):
    return conv_dx(g, w.conj(), size=x_shape[2:], how=how, groups=groups)


@conv.vjp("w")
def conv_gw(g, x, how, groups):
    return conv_dw(g, x.conj(), how=how, groups=groups)


@conv.vjp("b")
def conv_gb(g):
    return op.sum(g, axis=(0, *range(2, g.ndim)))


@conv.jvp
def conv_jvp(x, w, x_t, w_t, b_t, how, groups):
    t = 0 if b_t is None else b_t.reshape((-1, *(1,) * len(how.kernel)))
    t = t if x_t is None else t + conv(x_t, w, how=how, groups=groups)
    return t if w_t is None else t + conv(x, w_t, how=how, groups=groups)


@multilinear
def conv_dx(a, w, *, size=(), how=None, groups=1):
    """y[n,c,j] = Σ a[n,o,i] w[o,c,k] over all stride·i + dilation·k − padding = j

    ga = conv(g, w̄), gw = conv_dw(ā, g);  a (N, O, *out), w (O, C/groups, *kernel) -> (N, C, *size)

    The transpose of conv in x. Along an axis of stride 1 that is again a window sum, with the
    kernel flipped. It is taken so along all such axes but the last, and by `fold` along the others:
    so neither side of the product exceeds its image by more than one axis of the kernel.
    """
    (a, w), dtype = _widened(a, w)
    flips, gather, scatter, middle = _transposed(how, a.shape[2:], size)
    channels = w.shape[1] * groups
    y = array_module(a).empty((len(a), channels, *size), dtype=a.dtype)
    weight = _transposed_weight(w, flips, groups)
    images = _Images(groups, prod(middle))
    widest = max(a.shape[1] * prod(gather.kernel), channels * prod(scatter.kernel))
    for block in _blocks(len(a), widest * prod(middle) * a.itemsize):
        cols = weight @ images.columns(a[block], gather, middle)
        images.fold(cols, scatter, middle, y[block])
    return y.astype(dtype, copy=False)


@conv_dx.vjp("a")
def conv_dx_ga(g, w, how, groups):
    return conv(g, w.conj(), how=how, groups=groups)


@conv_dx.vjp("w")
def conv_dx_gw(g, a, how, groups):
    return conv_dw(a.conj(), g, how=how, groups=groups)


@multilinear
def conv_dw(a, x, *, how=None, groups=1):
    """y[o,c,k] = Σ_{n,i} a[n,o,i] x[n,c, stride·i + dilation·k − padding]

    ga = conv(x̄, g), gx = conv_dx(ā, g);  a (N, O, *out), x (N, C, *size) -> (O, C/groups, *kernel)
    """
    (a, x), dtype = _widened(a, x)
    out = a.shape[2:]
    inputs = x.shape[1] // groups
    y = array_module(x).zeros((groups, a.shape[1] // groups, inputs * prod(how.kernel)), x.dtype)
    images = _Images(groups, prod(out))
    for block in _blocks(len(x), x.shape[1] * prod(how.kernel) * prod(out) * x.itemsize):
        cols = images.columns(x[block], how, out)
        part = images.matrix(a[block]) @ cols.swapaxes(-1, -2)
        y += part if images.merged else part.sum(0)
    return y.reshape((a.shape[1], inputs, *how.kernel)).astype(dtype, copy=False)


@conv_dw.vjp("a")
def conv_dw_ga(g, x, how, groups):
    return conv(x.conj(), g, how=how, groups=groups)


@conv_dw.vjp("x")
def conv_dw_gx(g, a, x_shape, how, groups):
    return conv_dx(a.conj(), g, size=x_shape[2:], how=how, groups=groups)


# -- on plain arrays: how images become matrices ---------------------------------------------


class _Images:
    """Images (n, groups · c, *size) as matrices whose columns are places.

    One matrix (c, places) for each image and group; or, where an image has few places, one for
    each group with the places of all images side by side: a product of tiny matrices is slow.
    """

    def __init__(self, groups: int, places: int):
        self.groups = groups
        self.merged = places < FEW_WINDOWS
        self.at = 2 if self.merged else 3  # where the kernel's axes go: behind the channels

    def split(self, x):
        """(n, groups, c, *size), or (groups, c, n, *size) where images are merged. A view."""
        x = x.reshape((len(x), self.groups, x.shape[1] // self.groups, *x.shape[2:]))
        return x.transpose((1, 2, 0, *range(3, x.ndim))) if self.merged else x

    def matrix(self, x):
        """(n, groups, c, places) or (groups, c, n · places)."""
        x = self.split(x)
        lead = x.shape[: self.at]
        return x.reshape((*lead, prod(x.shape[self.at :])))

    def columns(self, x, how: Windows, out: tuple):
        """The windows of x, one column each: (n, groups, c · kernel, windows) or merged."""
        cols = columns(self.split(x), how, out, self.at)
        lead, rest = cols.shape[: self.at - 1], cols.shape[self.at + len(out) :]
        return cols.reshape((*lead, cols.shape[self.at - 1] * prod(how.kernel), prod(rest)))

    def product(self, weight, cols, y) -> None:
        """y = weight · cols, in the images' own order."""
        if self.merged:
            view = self.split(y)
            view[...] = (weight @ cols).reshape(view.shape)
        else:
            lead = (len(y), self.groups, y.shape[1] // self.groups)
            np.matmul(weight, cols, out=y.reshape((*lead, prod(y.shape[2:]))))

    def fold(self, cols, how: Windows, middle: tuple, y) -> None:
        """y = the images that `columns` would take these columns from, windows added up."""
        view = self.split(y)
        lead, batch = view.shape[: self.at], view.shape[self.at : -len(middle)]
        x = cols.reshape((*lead, *how.kernel, *batch, *middle))
        view[...] = fold(x, how, y.shape[2:], self.at)


def _transposed(how: Windows, out: tuple, size: tuple) -> tuple:
    """How conv_dx goes along each axis: (flips, windows to gather, windows to scatter, the size
    between the two), where a flip says that the axis is gathered.
    """
    flips, gather, scatter, middle = [], [], [], []
    idle = (1, 1, (0, 0), 1)
    for i, (kernel, stride, (before, after), dilation) in enumerate(how.axes()):
        span = dilation * (kernel - 1)
        mirrored = (span - before, span - after)
        flip = stride == 1 and min(mirrored) >= 0 and i < len(out) - 1
        flips.append(flip)
        gather.append((kernel, 1, mirrored, dilation) if flip else idle)
        scatter.append(idle if flip else (kernel, stride, (before, after), dilation))
        middle.append(size[i] if flip else out[i])
    return flips, Windows.from_axes(gather), Windows.from_axes(scatter), tuple(middle)


def _transposed_weight(w, flips: list, groups: int):
    """w (groups · o, c, *kernel) as (groups, c · scattered kernel, o · flipped gathered kernel)."""
    o, c, kernel = len(w) // groups, w.shape[1], w.shape[2:]
    w = w[(..., *(slice(None, None, -1 if flip else 1) for flip in flips))]
    w = w.reshape((groups, o, c, *kernel))
    gathered = [3 + i for i, flip in enumerate(flips) if flip]
    scattered = [3 + i for i, flip in enumerate(flips) if not flip]
    w = w.transpose((0, 2, *scattered, 1, *gathered))
    rows = c * prod(kernel[i - 3] for i in scattered)
    return w.reshape((groups, rows, -1))


def _blocks(count: int, nbytes: int) -> Iterator[slice]:
    """Slices of the batch whose columns take about BLOCK_BYTES each."""
    step = max(1, BLOCK_BYTES // max(1, nbytes))
    return (slice(start, start + step) for start in range(0, count, step))


def _widened(*arrays):
    """(arrays in one dtype that BLAS multiplies, the dtype of the result): 16 bits go to 32."""
    dtype = np.result_type(*arrays)
    wide = accumulator(dtype) or dtype
    return [x.astype(wide, copy=False) for x in arrays], dtype


# -- what users call -------------------------------------------------------------------------


def _convolve(name, dims, x, w, b, stride, padding, dilation, groups):
    """conv with its arguments checked; an image without batch axis gets one for the while."""
    x, w = (v if hasattr(v, "ndim") else np.asarray(v) for v in (x, w))
    if w.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: x must have {dims + 2} axes (N, C, *size) or {dims + 1}, and w {dims + 2} "
            f"(O, C/groups, *kernel); got x {x.shape}, w {w.shape}"
        )
    channels = x.shape[-dims - 1]
    if channels != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"{name}: with groups={groups}, x {x.shape} of {channels} channels needs w of shape "
            f"(O, {channels}/{groups}, *kernel) with O divisible by groups; got w {w.shape}"
        )
    if b is not None and b.shape != (w.shape[0],):
        raise ValueError(f"{name}: b must have shape ({w.shape[0]},), got {b.shape}")
    how = windows(name, w.shape[2:], stride, padding, dilation)
    how.count(name, x.shape[-dims:])
    if x.ndim == dims + 2:
        return conv(x, w, b, how=how, groups=groups)
    y = conv(x.reshape((1, *x.shape)), w, b, how=how, groups=groups)
    return y.reshape(y.shape[1:])


@composite
def conv1d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1) -> Any:
    """conv2d's form in one dimension: x (N, C, W), w (O, C/groups, kw) -> (N, O, ow)."""
    return _convolve("conv1d", 1, x, w, b, stride, padding, dilation, groups)


@composite
def conv2d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1) -> Any:
    """y[n,o,i] = b[o] + Σ_{c,k} w[o,c,k] x[n,c, stride·i + dilation·k − padding], no flip.

    x (N, C, H, W) or (C, H, W), w (O, C/groups, kh, kw), b (O,) -> (N, O, oh, ow). stride and
    dilation: an int or one for each axis; padding: these, (before, after) pairs, 'same' (stride 1;
    an odd total has the extra zero at the end) or 'valid'. ValueError names what does not fit.
    """
    return _convolve("conv2d", 2, x, w, b, stride, padding, dilation, groups)


@composite
def conv3d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1) -> Any:
    """conv2d's form in three dimensions: x (N, C, D, H, W), w (O, C/groups, kd, kh, kw)."""
    return _convolve("conv3d", 3, x, w, b, stride, padding, dilation, groups)


__all__ = ["conv", "conv1d", "conv2d", "conv3d", "conv_dw", "conv_dx"]
