"""Convolution in any number of dimensions, and its two transposes.

    y  = conv(x, w)          y[o,i] = Σ_{c,k} w[o,c,k] x[c, stride·i + dilation·k − padding]
    gx = conv_dx(g, w)       its transpose in x
    gw = conv_dw(g, x)       its transpose in w

The windows of x are copied into the columns of a matrix (im2col), and the weight multiplies it:

    y = W · columns(x)       gx = fold(Wᵀ · g)       gw = g · columns(x)ᵀ

`fold` is the transpose of `columns`: it adds every entry to the pixel that it was copied from. Each
of the three ops is linear in each of its arguments, and their derivatives are the three again. The
family is closed, so derivatives of any order come from these rules. The columns are kernel-size
times as large as x, so the backward computes them again rather than save them.
"""

from math import prod
from typing import Any

from ...backends.dtypes import accumulator, common_dtype
from ...engine.primitive import multilinear, primitive
from ...engine.registry import op
from ..batching import apart, full, merged, of_none
from ..windows import Windows, columns, fold


@primitive(arrays="x w b")
def conv(x, w, b=None, *, how, groups=1):
    """y[n,o,i] = Σ_{c,k} w[o,c,k] x[n,c, stride·i + dilation·k − padding] + b[o]

    gx = conv_dx(g, w̄), gw = conv_dw(g, x̄), gb = Σ g over batch and space ;
    x (N, C, *size), w (O, C/groups, *kernel), b (O,) -> y (N, O, *out)
    """
    (x, w), dtype = widened(x, w)
    out = how.count("conv", x.shape[2:])
    y = weight_matrix(w, groups) @ window_matrix(x, groups, how, out)
    y = as_images(y.reshape((*y.shape[:2], len(x), *out)))
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
def conv_jvp(x, w, y, x_t, w_t, b_t, how, groups):
    t = 0
    if b_t is not None:
        t = op.broadcast_to(b_t.reshape((-1, *(1,) * len(how.kernel))), shape=y.shape)
    t = t if x_t is None else t + conv(x_t, w, None, how=how, groups=groups)
    return t if w_t is None else t + conv(x, w_t, None, how=how, groups=groups)


@multilinear
def conv_dx(a, w, *, size, how, groups=1):
    """y[n,c,j] = Σ a[n,o,i] w[o,c,k] over all stride·i + dilation·k − padding = j

    ga = conv(g, w̄), gw = conv_dw(ā, g);  a (N, O, *out), w (O, C/groups, *kernel) -> (N, C, *size)
    """
    out = windows_of(size, how, a, "conv_dx")
    (a, w), dtype = widened(a, w)
    y = weight_matrix(w, groups).swapaxes(1, 2) @ pixel_matrix(a, groups)
    y = y.reshape((groups, w.shape[1], *how.kernel, len(a), *out))
    return as_images(fold(y, how, size, at=2)).astype(dtype, copy=False)


@conv_dx.vjp("a")
def conv_dx_ga(g, w, how, groups):
    return conv(g, w.conj(), None, how=how, groups=groups)


@conv_dx.vjp("w")
def conv_dx_gw(g, a, how, groups):
    return conv_dw(a.conj(), g, how=how, groups=groups)


@multilinear
def conv_dw(a, x, *, how, groups=1):
    """y[o,c,k] = Σ_{n,i} a[n,o,i] x[n,c, stride·i + dilation·k − padding]

    ga = conv(x̄, g), gx = conv_dx(ā, g);  a (N, O, *out), x (N, C, *size) -> (O, C/groups, *kernel)
    """
    out = windows_of(x.shape[2:], how, a, "conv_dw")
    (a, x), dtype = widened(a, x)
    cols = window_matrix(x, groups, how, out)
    y = pixel_matrix(a, groups) @ cols.swapaxes(1, 2)
    shape = (a.shape[1], x.shape[1] // groups, *how.kernel)
    return y.reshape(shape).astype(dtype, copy=False)


@conv_dw.vjp("a")
def conv_dw_ga(g, x, how, groups):
    return conv(x.conj(), g, None, how=how, groups=groups)


@conv_dw.vjp("x")
def conv_dw_gx(g, a, x_shape, how, groups):
    return conv_dx(a.conj(), g, size=x_shape[2:], how=how, groups=groups)


# -- images and weights as matrices, one for each group --------------------------------------------


def widened(*arrays: Any) -> tuple[list, Any]:
    """(arrays in one dtype that BLAS multiplies, the dtype of the result): 16 bits go to 32."""
    dtype = common_dtype(*arrays)
    wide = accumulator(dtype) or dtype
    return [x.astype(wide, copy=False) for x in arrays], dtype


def windows_of(size: tuple, how: Windows, a: Any, name: str) -> tuple:
    """How many windows images of this size have; ValueError where a has not one entry for each."""
    out = how.count(name, size)
    if a.shape[2:] != out:
        raise ValueError(f"{name}: images of size {size} have {out} windows, a has {a.shape[2:]}")
    return out


def weight_matrix(w: Any, groups: int) -> Any:
    """w (O, C/groups, *kernel) as (groups, O/groups, C/groups · kernel)."""
    return w.reshape((groups, len(w) // groups, prod(w.shape[1:])))


def by_group(x: Any, groups: int) -> Any:
    """Images x (N, C, *size) as (groups, C/groups, N, *size)."""
    x = x.reshape((len(x), groups, x.shape[1] // groups, *x.shape[2:]))
    return x.transpose((1, 2, 0, *range(3, x.ndim)))


def as_images(x: Any) -> Any:
    """The inverse of `by_group`, a new array in C order: (N, C, *size)."""
    x = x.transpose((2, 0, 1, *range(3, x.ndim))).copy()
    return x.reshape((len(x), x.shape[1] * x.shape[2], *x.shape[3:]))


def pixel_matrix(x: Any, groups: int) -> Any:
    """Images x (N, C, *size) as (groups, C/groups, N · pixels)."""
    return by_group(x, groups).reshape((groups, x.shape[1] // groups, len(x) * prod(x.shape[2:])))


def window_matrix(x: Any, groups: int, how: Windows, out: tuple) -> Any:
    """The windows of images x, one a column: (groups, C/groups · kernel, N · windows)."""
    cols = columns(by_group(x, groups), how, out, at=2)
    rows = x.shape[1] // groups * prod(how.kernel)
    return cols.reshape((groups, rows, len(x) * prod(out)))


# -- batch rules: examples as more images of the batch, or, with their own weights, as groups ---


@conv.batch
def conv_batch(op_, xs, batched, params):
    x, w, *b = xs
    if b and b[0] is not None:
        if any(batched[:2]):
            y = _image_batch(conv, x, w, batched, params)
        else:
            y = op.expand_dims(conv(x, w, None, **params), axis=0)
        dims = y.ndim - 3
        lead = b[0].shape[:1] if batched[2] else (1,)
        return y + op.reshape(b[0], shape=(*lead, 1, b[0].shape[-1], *(1,) * dims))
    return _image_batch(conv, x, w, batched, params)


@conv_dx.batch
def conv_dx_batch(op_, xs, batched, params):
    a, w = xs
    return _image_batch(conv_dx, a, w, batched, params)


def _image_batch(which: Any, x, w, batched, params):
    """conv or conv_dx of images x with weights w."""
    if not batched[1]:
        return apart(which(merged(x), w, **params), x.shape[:2])
    x, w = full([x, w], batched)
    size = x.shape[0]
    if not size:
        return of_none(which, [x, w], [True, True], params)
    groups = params["groups"] * size
    y = which(merged(x, at=1), merged(w), **{**params, "groups": groups})
    return apart(y, (size, y.shape[1] // size), at=1)


@conv_dw.batch
def conv_dw_batch(op_, xs, batched, params):
    a, x = full(xs, batched)
    if not len(a):
        return of_none(conv_dw, [a, x], [True, True], params)
    groups = params["groups"] * a.shape[0]
    y = conv_dw(merged(a, at=1), merged(x, at=1), **{**params, "groups": groups})
    return apart(y, (a.shape[0], y.shape[0] // a.shape[0]))
