"""The forms of conv, conv_dx and conv_dw that are faster than columns of the whole batch.

They are variants of the ops. A call asks them in the order of this file, and the first suitable one
computes it. Each returns its fastest memory layout (backends/image_layout.py).

widened          two dtypes, or 16 bits: one of the others, in the dtype that BLAS multiplies
banded           one kernel per channel, short rows or large kernels: banded matrices
depthwise        one kernel per channel: sums of shifted images
winograd         3 × 3 (× 3) over many channels and tiles: Winograd's minimal filtering
im2row           few channels: windows of all images as rows
pointwise        1 × 1 kernels, images pixels first: one product
sub-pixel        the transpose with a stride: a convolution for each phase
im2col HWNC      images pixels first: columns in their order
strided scatter  the transpose with a stride, in rows: each phase's contributions added up
im2col           everything else: columns of some images at a time, on all threads
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator
from ...backends.image_layout import empty, in_rows, pays, places_first, turned
from ...custom.rule_variants import vjp_variant
from ...ops.conv.primitives import conv, conv_dw, conv_dx, widened
from ...ops.windows import Windows
from ..forms import Forms
from . import (
    banded,
    depthwise,
    im2col,
    im2col_hwnc,
    im2row,
    pointwise,
    strided_scatter,
    subpixel,
    winograd,
)
from .images import beside, mirrored
from .winograd_tiles import all_finite

form = Forms()


# -- the dtype that BLAS multiplies --------------------------------------------------------------


def _unlike(x: Any, w: Any, *_: Any, **params: Any) -> bool:
    return x.dtype != w.dtype or not x.dtype.isnative or accumulator(x.dtype) is not None


def _widen(op: Any) -> None:
    @form(op, "widened", _unlike)
    def by_another_form(x: Any, w: Any, *b: Any, **params: Any) -> Any:
        (x, w), dtype = widened(x, w)
        return op.forward(x, w, *b, **params).astype(dtype, copy=False)


for _op in (conv, conv_dx, conv_dw):
    _widen(_op)


# -- y = conv(x, w, b) ---------------------------------------------------------------------------


def _shape(x: Any, w: Any, how: Windows) -> tuple:
    return (len(x), len(w), *how.count("conv", x.shape[2:]))


def _one_kernel_per_channel(x: Any, w: Any, b: Any = None, *, how: Any, groups: int = 1) -> bool:
    return depthwise.is_depthwise(x, x.shape[1], len(w), groups)


@form(conv, "banded", _one_kernel_per_channel)
def banded_conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    x, shape = in_rows(x), _shape(x, w, how)
    if not banded.suits(how, x, w, shape[2:]) or not all_finite(x):
        return None
    y = np.empty(shape, x.dtype)
    banded.forward(x, w, beside(b, shape[2:]), how, y)
    return y


@form(conv, "depthwise", _one_kernel_per_channel)
def depthwise_conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    y = np.empty(_shape(x, w, how), x.dtype)
    depthwise.forward(in_rows(x), w, beside(b, y.shape[2:]), how, y)
    return y


@form(
    conv,
    "winograd",
    lambda x, w, b=None, *, how, groups=1: winograd.suits(
        how, how.count("conv", x.shape[2:]), groups, x, w.shape[:2], w, b
    ),
)
def winograd_conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    x, y = _laid(x, w, _shape(x, w, how))
    left = winograd.forward(x, w, b, how, y)
    if left:
        y = in_rows(y)
        im2col.forward(x, w, b, how, groups, y, left)
    return y


def _laid(x: Any, w: Any, shape: tuple) -> tuple:
    """x and an array for Winograd's results, pixels first if that pays."""
    if pays(len(x), *w.shape[:2]):
        return places_first(x), empty(shape, x.dtype)
    return x, np.empty(shape, x.dtype)


def _places_first(which: Any, name: str) -> None:
    """A form for images and results pixels first, computed by one of this folder's modules."""

    def suits(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> bool:
        return which.suits(how, groups, x, len(w), w, b)

    @form(conv, name, suits)
    def run(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
        y = empty(_shape(x, w, how), x.dtype)
        which.forward(x, w, b, how, y)
        return y


_places_first(im2row, "im2row")
_places_first(pointwise, "pointwise")
_places_first(im2col_hwnc, "im2col HWNC")


@form(conv, "im2col", on="cuda")
@form(conv, "im2col")
def blocked_conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    (x, w), dtype = widened(x, w)  # on a GPU no earlier form has widened them
    y = array_module(x).empty(_shape(x, w, how), x.dtype)
    im2col.forward(in_rows(x), w, b, how, groups, y)
    return y.astype(dtype, copy=False)


# -- y = conv_dx(a, w) ---------------------------------------------------------------------------


def _shape_dx(a: Any, w: Any, size: tuple, groups: int) -> tuple:
    return (len(a), w.shape[1] * groups, *size)


def _one_kernel_per_channel_dx(
    a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1
) -> bool:
    return depthwise.is_depthwise(a, w.shape[1] * groups, a.shape[1], groups)


@form(conv_dx, "banded", _one_kernel_per_channel_dx)
def banded_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    a = in_rows(a)
    finite = (a,) if mirrored(how) is not None else (a, w)
    if not banded.suits_transposed(how, a, w, size) or not all_finite(*finite):
        return None
    y = np.empty(_shape_dx(a, w, size, groups), a.dtype)
    banded.transposed(a, w, how, y)
    return y


@form(conv_dx, "depthwise", _one_kernel_per_channel_dx)
def depthwise_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    y = np.empty(_shape_dx(a, w, size, groups), a.dtype)
    depthwise.transposed(in_rows(a), w, how, y)
    return y


def _suits_winograd_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> bool:
    tiled = a.shape[2:] if pays(len(a), *w.shape[:2]) else size  # tiles of a, if pixels first
    return winograd.suits(how, tiled, groups, a, w.shape[:2], w)


@form(conv_dx, "winograd", _suits_winograd_dx)
def winograd_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    a, y = _laid(a, w, _shape_dx(a, w, size, groups))
    left = winograd.transposed(a, w, how, y)
    if left:
        y = in_rows(y)
        im2col.transposed(a, w, how, groups, y, left)
    return y


def _places_first_dx(which: Any, name: str) -> None:
    """The same for conv_dx."""

    def suits(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> bool:
        return which.suits(how, groups, a, w.shape[1] * groups, w)

    @form(conv_dx, name, suits)
    def run(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
        y = empty(_shape_dx(a, w, size, groups), a.dtype)
        which.transposed(places_first(a), w, how, y)
        return y if turned(a) else in_rows(y)  # the op after an input in rows expects rows


_places_first_dx(pointwise, "pointwise")
_places_first_dx(subpixel, "sub-pixel")
_places_first_dx(im2col_hwnc, "im2col HWNC")


@form(conv_dx, "strided scatter", lambda a, w, *, how, **_: strided_scatter.suits(how, a))
def scattered_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    y = np.empty(_shape_dx(a, w, size, groups), a.dtype)
    strided_scatter.transposed(in_rows(a), w, how, groups, y)
    return y


@form(conv_dx, "im2col", on="cuda")
@form(conv_dx, "im2col")
def blocked_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    (a, w), dtype = widened(a, w)
    y = array_module(a).empty(_shape_dx(a, w, size, groups), a.dtype)
    im2col.transposed(in_rows(a), w, how, groups, y)
    return y.astype(dtype, copy=False)


# -- y = conv_dw(a, x) ---------------------------------------------------------------------------


def _shape_dw(a: Any, x: Any, how: Windows, groups: int) -> tuple:
    return (a.shape[1], x.shape[1] // groups, *how.kernel)


def _one_kernel_per_channel_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> bool:
    return depthwise.is_depthwise(x, x.shape[1], a.shape[1], groups)


@form(conv_dw, "banded", _one_kernel_per_channel_dw)
def banded_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    a, x = in_rows(a), in_rows(x)
    if not banded.suits_weight(how, a, x) or not all_finite(a, x):
        return None
    return banded.of_weight(a, x, how).reshape(_shape_dw(a, x, how, groups))


@form(conv_dw, "depthwise", _one_kernel_per_channel_dw)
def depthwise_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    y = depthwise.of_weight(in_rows(a), in_rows(x), how)
    return y.reshape(_shape_dw(a, x, how, groups))


def _suits_winograd_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> bool:
    return winograd.suits(how, a.shape[2:], groups, x, (a.shape[1], x.shape[1] // groups), a)


@form(conv_dw, "winograd", _suits_winograd_dw)
def winograd_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    if pays(len(x), a.shape[1], x.shape[1]):
        a, x = places_first(a), places_first(x)
    y = winograd.of_weight(a, x, how)  # None where this is not finite
    if y is None and im2col_hwnc.suits(how, groups, x, a.shape[1], a):  # in their present layout
        return im2col_hwnc.of_weight(a, x, how)
    return y


def _places_first_dw(which: Any, name: str) -> None:
    """The same for conv_dw."""

    def suits(a: Any, x: Any, *, how: Windows, groups: int = 1) -> bool:
        return which.suits(how, groups, x, a.shape[1], a)

    @form(conv_dw, name, suits)
    def run(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
        return which.of_weight(a, x, how).reshape(_shape_dw(a, x, how, groups))


_places_first_dw(im2row, "im2row")
_places_first_dw(pointwise, "pointwise")
_places_first_dw(im2col_hwnc, "im2col HWNC")


@form(conv_dw, "im2col", on="cuda")
@form(conv_dw, "im2col")
def blocked_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    (a, x), dtype = widened(a, x)
    y = im2col.of_weight(in_rows(a), in_rows(x), how, groups)
    return y.reshape(_shape_dw(a, x, how, groups)).astype(dtype, copy=False)


# -- both gradients at once ------------------------------------------------------------------------


@vjp_variant(conv, "x", "w", name="winograd of both rules", on=("cpu",))
def conv_gx_and_gw(g, x, w, how, groups):
    """Both gradients by Winograd's form, which transforms g once; None: each by its own rule."""
    if not _both_pay(g, x, w, how, groups):
        return None
    g, x, gx = places_first(g), places_first(x), empty(x.shape, x.dtype)
    gw = winograd.both(g, x, w, how, gx)
    return None if gw is None else (gx, gw)


def _both_pay(g: Any, x: Any, w: Any, how: Windows, groups: int) -> bool:
    """Whether Winograd's form would compute both conv_dx and conv_dw, with images pixels first."""
    return (
        winograd.suits(how, g.shape[2:], groups, x, w.shape[:2], w, g)
        and x.dtype == w.dtype == g.dtype
        and pays(len(x), *w.shape[:2])
    )


form.install()
