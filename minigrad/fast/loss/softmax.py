"""Softmax, its logarithm and the derivatives of both: one pass each over blocks of whole rows.

Composed of max, exp, sum and products, each would make five passes over memory and five arrays.
"""

from typing import Any

import numpy as np

from ...backends.blocks import in_blocks, part, scratch
from ...backends.device import array_module
from ...backends.image_layout import in_rows
from ...custom.variants import ANY
from ...ops.axes import axes_of, widen
from ...ops.elementwise.support import are_finite, in_float32
from ...ops.softmax import (
    HIGHEST,
    NEARLY_ALL,
    floating,
    log_softmax,
    log_softmax_dx,
    nearly_all,
    require_same_shape,
    softmax,
    softmax_dx,
)
from ..forms import Forms
from ..row_sums import largest_over, sum_of_product, sum_over

form = Forms()


def less_the_largest(x: Any, top: Any, out: Any) -> Any:
    """x − top in `out`, where top has each row's maximum. Returns 1 for rows that are all −∞, else
    0."""
    if are_finite(top):
        np.subtract(x, top, out=out)
        return False
    masked, endless = top == -np.inf, top == np.inf
    limit = np.where(x == np.inf, 0, -np.inf)  # before x is written over
    np.subtract(x, np.where(masked | endless, 0, top), out=out)
    out[...] = np.where(endless, limit, out)
    return masked


def _shifted(x: Any, axis: tuple, out: Any) -> Any:
    return less_the_largest(x, largest_over(x, axis), out)


def _settle(y: Any, p: Any, axis: tuple) -> None:
    """`settled` in place. In most blocks no share is nearly 1: their maximum, a quick test, comes
    first."""
    if p.dtype.kind == "c" or not p.size or (array_module(p) is np and p.max() <= NEARLY_ALL):
        return
    places = nearly_all(p, axis)
    y[...] = np.where(places, 0, y)
    y[...] = np.where(places, -sum_over(y, axis, y.dtype), y)


LEAST_SUM = 1e-3  # below, an exponential of 1e-35 of its row's sum may be 0 or rounded


def _without_shift(x: Any, axis: tuple, out: Any) -> bool:
    """Try out = softmax x without the maxima of rows, which take a third of the time; whether it
    worked.

    It does where no exponential can overflow and no row is far below 0. The result differs only by
    the rounding of x − max x, which is omitted.
    """
    if not isinstance(x, np.ndarray) or x.dtype != out.dtype or x.dtype.char not in "fd":
        return False
    if not (x.size and x.max() <= HIGHEST):  # false for NaN
        return False
    sums = sum_over(np.exp(x, out=out), axis, out.dtype)
    if not sums.min() >= LEAST_SUM:
        return False
    out /= sums
    return True


@form(softmax, "blocks", on=ANY)
@in_float32
def softmax_by_blocks(x: Any, axis: Any = -1) -> Any:
    axis, x = axes_of(axis, x.ndim), in_rows(x)
    y = array_module(x).empty(x.shape, floating(x))

    def work(piece: tuple) -> None:
        block = y[piece]
        if _without_shift(x[piece], axis, block):
            return
        masked = _shifted(x[piece], axis, block)
        np.exp(block, out=block)
        block /= sum_over(block, axis, block.dtype) + masked

    in_blocks(work, y, axis)
    return y


def _operands(a: Any, p: Any) -> list:
    """Both in float32 at least, and contiguous: sums then do not depend on their layout."""
    require_same_shape(a, p)
    return [x if x.flags.c_contiguous else x.copy() for x in (widen(a), widen(p))]


@form(softmax_dx, "blocks", on=ANY)
def softmax_dx_by_blocks(a: Any, p: Any, *, axis: Any = -1) -> Any:
    axis, dtype = axes_of(axis, p.ndim), np.result_type(a, p)
    a, p = _operands(a, p)
    y = array_module(p).empty(p.shape, np.result_type(a, p))

    def work(piece: tuple) -> None:
        block = y[piece]
        np.subtract(a[piece], sum_of_product(a[piece], p[piece], axis), out=block)
        block *= p[piece]
        _settle(block, p[piece], axis)

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False)


# If the sum of a row's exponentials, the largest of which is 1, is below this, it holds too few
# digits of the others for log_softmax.
SURE = 1.01


@form(log_softmax, "blocks", on=ANY)
def log_softmax_by_blocks(x: Any, axis: Any = -1) -> tuple:
    axis, dtype = axes_of(axis, x.ndim), floating(x)
    xp, x = array_module(x), widen(x.astype(dtype, copy=False))
    y = xp.empty(x.shape, x.dtype)
    masked = xp.zeros([1 if k in axis else n for k, n in enumerate(x.shape)], bool)

    def work(piece: tuple) -> None:
        block = y[piece]
        rows = _shifted(x[piece], axis, block)
        e = np.exp(block, out=scratch.empty("block 0", block.shape, block))
        total = sum_over(e, axis, e.dtype)
        if rows is not False:
            part(masked, piece)[...] = rows
            total = total + rows
        log = np.log(total)
        if e.dtype.kind != "c" and not (xp is np and total.item(total.argmin()) >= SURE):
            e -= np.floor(e, out=scratch.empty("block 1", e.shape, e))  # removes the largest, 1
            log = np.where(total < SURE, np.log1p(sum_over(e, axis, e.dtype)), log)
        block -= log

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False), masked


@form(log_softmax_dx, "blocks", on=ANY)
def log_softmax_dx_by_blocks(a: Any, log_p: Any, masked: Any, *, axis: Any = -1) -> Any:
    axis, dtype = axes_of(axis, log_p.ndim), np.result_type(a, log_p)
    a, log_p = _operands(a, log_p)
    y = array_module(a).empty(a.shape, np.result_type(a, log_p))

    def work(piece: tuple) -> None:
        block, rows = y[piece], part(masked, piece)
        shares = np.exp(log_p[piece], out=scratch.empty("block 0", block.shape, block))
        np.multiply(shares, sum_over(a[piece], axis, block.dtype), out=block)
        np.subtract(a[piece], block, out=block)
        _settle(block, shares, axis)
        if array_module(rows) is not np or rows.any():
            block[...] = np.where(rows, 0, block)

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False)


form.install()
