"""Softmax and its logarithm, with the derivatives of both: one pass over blocks of whole rows each.

Composed of max, exp, sum and products they make five passes over memory and as many arrays.
"""

from typing import Any

import numpy as np

from ..backends.blocks import in_blocks, part, scratch
from ..backends.device import array_module
from ..backends.dtypes import is_floating
from ..backends.image_layout import in_rows
from ..engine.primitive import primitive
from ..engine.registry import op
from .axes import axes_of, widen
from .batching import behind, full, reduction
from .elementwise.selection import keep
from .elementwise.support import are_finite, in_float32
from .row_sums import largest_over, sum_of_product, sum_over

__all__ = ["log_softmax", "softmax"]


def less_the_largest(x: Any, top: Any, out: Any) -> Any:
    """x − top in `out`, top being the largest of each row, so that no exponential overflows; and
    where a row is all −∞, 1 else 0. Such a row stays −∞; the 1 is for the sum that is divided by.

    Where the largest is +∞ the row is its limit: 0 for what is +∞, −∞ for all else.
    """
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


NEARLY_ALL = 0.9  # a share p of its row, from which 1 − p has lost a digit


def nearly_all(p: Any, axis: Any) -> Any:
    """Where one share is nearly all of its row: at one place of a row at most. And only in rows
    that are shares, none below 0, which add up to 1 but for what 16 bits have rounded."""
    whole = np.abs(op.sum(np.abs(p), axis=axis, keepdims=True) - 1) < 1e-3
    return np.logical_and(p > NEARLY_ALL, whole)


def settle(y: Any, p: Any, axis: tuple) -> None:
    """Entries of y, which adds up to 0 along `axis`, where the share p is nearly 1: minus the
    others' sum. Computed as 1 − p they would have few digits, or none.

    In most blocks there is none: so their largest is looked at first, in a fourteenth of the time
    that softmax's gradient takes.
    """
    if p.dtype.kind == "c" or not p.size or (array_module(p) is np and p.max() <= NEARLY_ALL):
        return
    places = nearly_all(p, axis)
    y[...] = np.where(places, 0, y)
    y[...] = np.where(places, -sum_over(y, axis, y.dtype), y)


HIGHEST = 70.0  # e^70 is 3e30: a sum of 10⁸ such exponentials is a float32
LEAST_SUM = 1e-3  # below it an exponential may be 0, or rounded, that is 1e-35 of its row's sum


def _without_shift(x: Any, axis: tuple, out: Any) -> bool:
    """Whether out = softmax x has been found without the largest of each row, which take a third of
    the time: where no exponential can overflow and no row is far below 0. No rounding differs but
    that of x − max x, which is left out.
    """
    if not isinstance(x, np.ndarray) or x.dtype != out.dtype or x.dtype.char not in "fd":
        return False
    if not (x.size and x.max() <= HIGHEST):  # NaN is not
        return False
    sums = sum_over(np.exp(x, out=out), axis, out.dtype)
    if not sums.min() >= LEAST_SUM:
        return False
    out /= sums
    return True


def _floating(x: Any) -> Any:
    """The dtype of the result: x's own, or for integers one of 32 bits or more, as `in_float32`."""
    return x.dtype if is_floating(x.dtype) else np.result_type(x, np.float32)


def _operands(a: Any, p: Any) -> list:
    """Both in float32 at least, and contiguous: their layout does not show in the sums."""
    if a.shape != p.shape:
        raise ValueError(f"a {a.shape} and the result {p.shape} must have the same shape")
    return [x if x.flags.c_contiguous else x.copy() for x in (widen(a), widen(p))]


@primitive
@in_float32
def softmax(x, axis=-1):
    """yᵢ = e^xᵢ / Σⱼ e^xⱼ along `axis` ;  gx = y (g − Σ g y), with all digits where a y is near 1

    A row all −∞ gives 0 and gradient 0; where some are +∞ these share alike, all else gets 0.
    """
    axis, x = axes_of(axis, x.ndim), in_rows(x)
    y = array_module(x).empty(x.shape, _floating(x))

    def work(piece: tuple) -> None:
        block = y[piece]
        if _without_shift(x[piece], axis, block):
            return
        masked = _shifted(x[piece], axis, block)
        np.exp(block, out=block)
        block /= sum_over(block, axis, block.dtype) + masked

    in_blocks(work, y, axis)
    return y


@softmax.vjp("x")
def softmax_gx(g, y, axis):
    return softmax_dx(g, y.conj(), axis=axis)


@primitive
def softmax_dx(a, p, *, axis=-1):
    """y = p (a − Σ a p) along `axis`: the gradient of softmax in x, from its result p

    ga = p (g − Σ g p) ;  gp = g (a − Σ a p) − a Σ g p
    """
    axis, dtype = axes_of(axis, p.ndim), np.result_type(a, p)
    a, p = _operands(a, p)
    y = array_module(p).empty(p.shape, np.result_type(a, p))

    def work(piece: tuple) -> None:
        block = y[piece]
        np.subtract(a[piece], sum_of_product(a[piece], p[piece], axis), out=block)
        block *= p[piece]
        settle(block, p[piece], axis)

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False)


@softmax_dx.vjp("a")
def softmax_dx_ga(g, p, axis):
    return softmax_dx(g, p.conj(), axis=axis)


@softmax_dx.vjp("p")
def softmax_dx_gp(g, a, p, axis):
    a, p = a.conj(), p.conj()
    level = op.sum(a * p, axis=axis, keepdims=True)
    return g * (a - level) - a * op.sum(g * p, axis=axis, keepdims=True)


@primitive(residuals=["masked"])
def log_softmax(x, axis=-1):
    """yᵢ = xᵢ − log Σⱼ e^xⱼ along `axis` ;  gx = g − e^y Σ g, with all digits where e^y is near 1

    A row all −∞ gives −∞ and gradient 0; where n are +∞ these give −log n, all else −∞.
    """
    axis, dtype = axes_of(axis, x.ndim), _floating(x)
    xp, x = array_module(x), widen(x.astype(dtype, copy=False))
    y = xp.empty(x.shape, _floating(x))
    masked = xp.zeros([1 if k in axis else n for k, n in enumerate(x.shape)], bool)

    def work(piece: tuple) -> None:
        block = y[piece]
        rows = part(masked, piece)
        rows[...] = _shifted(x[piece], axis, block)
        e = np.exp(block, out=scratch.empty("block 0", block.shape, block))
        block -= np.log(sum_over(e, axis, e.dtype) + rows)

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False), masked


@log_softmax.vjp("x")
def log_softmax_gx(g, y, masked, axis):
    return log_softmax_dx(g, y.conj(), masked, axis=axis)


@primitive(constants=["masked"])
def log_softmax_dx(a, log_p, masked, *, axis=-1):
    """y = a − p Σ a along `axis`, 0 in masked rows: the gradient of log_softmax from its result

    ga = g − Σ g p ;  glog_p = −g p Σ a, with p = e^log_p
    """
    axis, dtype = axes_of(axis, log_p.ndim), np.result_type(a, log_p)
    a, log_p = _operands(a, log_p)
    y = array_module(a).empty(a.shape, np.result_type(a, log_p))

    def work(piece: tuple) -> None:
        block, rows = y[piece], part(masked, piece)
        shares = np.exp(log_p[piece], out=scratch.empty("block 0", block.shape, block))
        np.multiply(shares, sum_over(a[piece], axis, block.dtype), out=block)
        np.subtract(a[piece], block, out=block)
        settle(block, shares, axis)
        if array_module(rows) is not np or rows.any():
            block[...] = np.where(rows, 0, block)

    in_blocks(work, y, axis)
    return y.astype(dtype, copy=False)


@log_softmax_dx.vjp("a")
def log_softmax_dx_ga(g, log_p, masked, axis):
    g, p = keep(g, np.logical_not(masked)), np.exp(log_p.conj())
    return less_the_mean(g, p, axis)


def less_the_mean(g: Any, p: Any, axis: Any) -> Any:
    """g − Σ g p along `axis`, for shares p; first less the entry of a share that is nearly 1, which
    would leave its own difference no digits."""
    if p.dtype.kind != "c":
        g = g - op.sum(keep(g, nearly_all(p, axis)), axis=axis, keepdims=True)
    return g - op.sum(g * p, axis=axis, keepdims=True)


@log_softmax_dx.vjp("log_p")
def log_softmax_dx_glog_p(g, a, log_p, axis):
    return -(g * np.exp(log_p.conj()) * op.sum(a.conj(), axis=axis, keepdims=True))


softmax.batch(reduction)
log_softmax.batch(reduction)


@softmax_dx.batch
@log_softmax_dx.batch
def derivative_batch(op_, xs, batched, params):
    xs = full(xs, batched)
    return op_(*xs, **{**params, "axis": behind(params["axis"], xs[0].ndim - 1)})
