"""Convolution in any number of dimensions, and its two transposes.

    y  = conv(x, w)          y[o,i] = Σ_{c,k} w[o,c,k] x[c, stride·i + dilation·k − padding]
    gx = conv_dx(g, w)       its transpose in x
    gw = conv_dw(g, x)       its transpose in w

Windows are copied into the columns of a matrix, then there is one matrix product. Each of the
three is linear in each of its arguments, and their derivatives are the three again: the family is
closed, so derivatives of any order come from these rules.

The columns are made in blocks of the batch that stay in the cache. They are kernel-size times as
large as x, so the backward computes them again rather than save them. Kernels of 3 × 3 (× 3) over
many channels need no columns and fewer products: see winograd.py; for the rest direct.py.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import multilinear, primitive
from ...engine.registry import op
from ..batching import apart, full, merged, of_none
from ..image_layout import empty, in_rows, pays, places_first, turned
from . import depthwise, direct, gathered, phases, pointwise, thin, winograd
from .images import beside, widened


@primitive(arrays="x w b")
def conv(x, w, b=None, *, how, groups=1):
    """y[n,o,i] = Σ_{c,k} w[o,c,k] x[n,c, stride·i + dilation·k − padding] + b[o]

    gx = conv_dx(g, w̄), gw = conv_dw(g, x̄), gb = Σ g over batch and space ;
    x (N, C, *size), w (O, C/groups, *kernel), b (O,) -> y (N, O, *out)
    """
    (x, w), dtype = widened(x, w)
    out = how.count("conv", x.shape[2:])
    shape = (len(x), len(w), *out)
    form = _turned_form((thin, pointwise, gathered), how, groups, x, len(w), w, b)
    if depthwise.is_depthwise(x, x.shape[1], len(w), groups):
        y = array_module(x).empty(shape, x.dtype)
        depthwise.forward(in_rows(x), w, beside(b, out), how, y)
    elif winograd.suits(how, out, groups, x, w.shape[:2], w, b):
        x, y = _before_winograd(x, w, shape)
        left = winograd.forward(x, w, b, how, y)
        y = in_rows(y) if left else y
        direct.forward(x, w, b, how, groups, y, left)
    elif form is not None:
        y = empty(shape, x.dtype)
        form.forward(x, w, b, how, y)
    else:
        y = array_module(x).empty(shape, x.dtype)
        direct.forward(in_rows(x), w, b, how, groups, y)
    return y.astype(dtype, copy=False)


def _turned_form(forms: tuple, how: Any, groups: int, x: Any, outputs: int, *others: Any) -> Any:
    """The first of these files' forms for images and results places first that is for x."""
    return next((f for f in forms if f.suits(how, groups, x, outputs, *others)), None)


def _before_winograd(x: Any, w: Any, shape: tuple) -> tuple:
    """x and an array for the results, places first if that pays."""
    if pays(len(x), *w.shape[:2]):
        return places_first(x), empty(shape, x.dtype)
    return x, np.empty(shape, x.dtype)


def _tiled(a: Any, w: Any, size: tuple) -> tuple:
    """Of which size Winograd's form of conv_dx has tiles: a's, where images lie places first."""
    return a.shape[2:] if pays(len(a), *w.shape[:2]) else size


@conv.vjp("x", "w")
def conv_gx_and_gw(g, x, w, how, groups):
    """Both at once, where what they share is worth it; None: each by its own rule."""
    if not _both_pay(g, x, w, how, groups):
        return None
    g, x, gx = places_first(g), places_first(x), empty(x.shape, x.dtype)
    gw = winograd.both(g, x, w, how, gx)
    return None if gw is None else (gx, gw)


def _both_pay(g: Any, x: Any, w: Any, how: Any, groups: int) -> bool:
    """Whether conv_dx and conv_dw of these would both be Winograd's, of images places first."""
    return (
        winograd.suits(how, g.shape[2:], groups, x, w.shape[:2], w, g)
        and x.dtype == w.dtype == g.dtype
        and pays(len(x), *w.shape[:2])
    )


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

    The transpose of conv in x. Along an axis of stride 1 that is again a window sum, with the
    kernel flipped. It is taken so along all such axes but the last, and by `fold` along the others:
    so neither side of the product exceeds its image by more than one axis of the kernel.
    """
    (a, w), dtype = widened(a, w)
    channels = w.shape[1] * groups
    shape = (len(a), channels, *size)
    form = _turned_form((pointwise, phases, gathered), how, groups, a, channels, w)
    if depthwise.is_depthwise(a, channels, a.shape[1], groups):
        y = array_module(a).empty(shape, a.dtype)
        depthwise.transposed(in_rows(a), w, how, y)
    elif winograd.suits(how, _tiled(a, w, size), groups, a, w.shape[:2], w):
        a, y = _before_winograd(a, w, shape)
        left = winograd.transposed(a, w, how, y)
        y = in_rows(y) if left else y
        direct.transposed(a, w, how, groups, y, left)
    elif form is not None:
        y = empty(shape, a.dtype)
        form.transposed(places_first(a), w, how, y)
        y = y if turned(a) else in_rows(y)  # what rows meet next is in rows, too
    else:
        y = array_module(a).empty(shape, a.dtype)
        direct.transposed(in_rows(a), w, how, groups, y)
    return y.astype(dtype, copy=False)


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
    (a, x), dtype = widened(a, x)
    out = a.shape[2:]
    inputs = x.shape[1] // groups
    weight_shape = (a.shape[1], inputs, *how.kernel)
    if depthwise.is_depthwise(x, x.shape[1], a.shape[1], groups):
        y = depthwise.of_weight(in_rows(a), in_rows(x), how)
        return y.reshape(weight_shape).astype(dtype, copy=False)
    if winograd.suits(how, out, groups, x, (a.shape[1], inputs), a):
        if pays(len(x), a.shape[1], inputs):
            a, x = places_first(a), places_first(x)
        y = winograd.of_weight(a, x, how)
        if y is not None:
            return y.astype(dtype, copy=False)
    form = _turned_form((thin, pointwise, gathered), how, groups, x, a.shape[1], a)
    if form is not None:
        return form.of_weight(a, x, how).reshape(weight_shape).astype(dtype, copy=False)
    y = direct.of_weight(in_rows(a), in_rows(x), how, groups)
    return y.reshape(weight_shape).astype(dtype, copy=False)


@conv_dw.vjp("a")
def conv_dw_ga(g, x, how, groups):
    return conv(x.conj(), g, None, how=how, groups=groups)


@conv_dw.vjp("x")
def conv_dw_gx(g, a, x_shape, how, groups):
    return conv_dx(a.conj(), g, size=x_shape[2:], how=how, groups=groups)


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
