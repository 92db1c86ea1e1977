"""Sums of exponentials, kept in logarithms: no overflow, no lost small terms."""

from operator import index

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import common_dtype, is_differentiable
from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import as_floating, widen
from ..batching import along, both_along, reduction
from ..elementwise.support import are_finite
from .sums import keep_axes

__all__ = ["logcumsumexp", "logsumexp"]  # with weights: mg.special.logsumexp


@primitive
def logsumexp(x, axis=None, keepdims=False):
    """y = log Σ exp x over `axis` ;  gx = g softmax x

    All −inf (also: no elements) gives −inf and the gradient 0; where elements are +inf these share
    g alike.
    """
    z = widen(as_floating(x))  # the difference of two unsigned integers could wrap round
    # of no elements there is no largest; their sum, 0, has the right shape
    top = (op.max if z.size else op.sum).forward(z.real, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):  # log 0 is the −inf that is meant
        y = np.log(op.sum.forward(np.exp(z - top), axis=axis, keepdims=True)) + top
    y = y if index(keepdims) else np.squeeze(y, axis)
    return y.astype(x.dtype) if is_differentiable(x.dtype) else y


@logsumexp.vjp("x")
def logsumexp_dx(g, x, axis, keepdims):
    # not exp(x − y): the rounding of y, 0.25 for a float16 near 1,000, would be an exponent
    softmax = op.softmax.forward if type(x) is np.ndarray else op.softmax  # as a rule of arrays
    share = softmax(widen(x), axis=axis)
    share = share.conj() if share.dtype.kind == "c" else share
    return widen(keep_axes(g, x.shape, axis, keepdims)) * share


@primitive(residuals=["top"])
def weighted_logsumexp(a, b, axis=None, keepdims=False, signed=False):
    """y = log Σ b exp a over `axis`, NaN where the sum is negative; signed: the log of its size.

    ga = g b exp a / Σ, gb = g exp a / Σ, taken relative to the largest a of a weight that is not 0.
    Both are 0 where their numerator is, also where the sum is 0 and y −∞. a and b have one shape.
    """
    if a.shape != b.shape:
        raise ValueError(f"a and b must have one shape, got {a.shape} and {b.shape}")
    total, top = _weighted_sum(a, b, axis)
    with np.errstate(divide="ignore", invalid="ignore"):  # −inf and NaN are what is meant
        y = np.log(np.abs(total) if signed else total) + top
    y = y if keepdims else np.squeeze(y, axis)
    return y.astype(common_dtype(as_floating(a), as_floating(b))), top


@weighted_logsumexp.vjp("a")
def weighted_logsumexp_da(g, a, b, top, axis, keepdims):
    return widen(keep_axes(g, a.shape, axis, keepdims)) * _shares(a, b, top, axis, b)


@weighted_logsumexp.vjp("b")
def weighted_logsumexp_db(g, a, b, top, axis, keepdims):
    return widen(keep_axes(g, a.shape, axis, keepdims)) * _shares(a, b, top, axis, 1)


def _relative(a, b, top):
    """exp(a − top), 1 where both are infinite; where b is 0 it does not overflow and is not NaN,
    that 0 times it be 0."""
    endless = np.logical_and(a == np.inf, top == np.inf)
    z = np.where(endless, 0, a) - np.where(endless, 0, top)
    largest = float(np.log(np.finfo(z.dtype).max))
    return np.exp(np.where((b != 0) | (z <= largest), z, largest))


def _shares(a, b, top, axis, weight):
    """weight exp a / Σ b exp a, and 0 for 0/0."""
    a, b = widen(a), widen(b)
    e = _relative(a, b, top)
    total, part = op.sum(b * e, axis=axis, keepdims=True), weight * e
    return part / np.where((total == 0) & (part == 0), 1, total)


def _weighted_sum(a, b, axis):
    """(Σ b exp(a − top), top), top the largest a of a weight that is not 0, or 0 if −∞ or NaN."""
    a, b = widen(as_floating(a)), widen(as_floating(b))
    counted = np.where(b == 0, -np.inf, a)
    top = (np.max if a.size else np.sum)(counted, axis=axis, keepdims=True)
    top = np.where(top > -np.inf, top, 0)
    return np.sum(b * _relative(a, b, top), axis=axis, keepdims=True), top


@primitive(differentiable=False)
def weighted_sign(a, b, axis=None, keepdims=False):
    """The sign of Σ b exp a over `axis`: 1, 0 or −1. a and b have one shape. No gradient."""
    sign = np.sign(_weighted_sum(a, b, axis)[0])
    sign = sign if keepdims else np.squeeze(sign, axis)
    return sign.astype(common_dtype(as_floating(a), as_floating(b)))


@primitive(residuals=["top"])
def logcumsumexp(x, axis=-1):
    """y_k = log Σ_{j≤k} exp x_j along `axis` (None: of x flattened).

    Relative to t_k, the largest so far: s_k = Σ_{j≤k} exp(x_j − t_k), gx_k = exp(x_k − t_k) r_k,
    r_k = g_k/s_k + exp(t_k − t_{k+1}) r_{k+1}. No exponent is positive, and none is rounded as y
    is; sums have their digits where many small terms follow (log(eʸ + eˣ) would stop at y).
    """
    x = x if is_differentiable(x.dtype) else x.astype(np.float64)
    z, axis = _line(widen(x), axis)
    top = _running_maximum(z.real, axis)
    top = np.where(top == -np.inf, 0, top)  # nothing but −inf so far: 0 terms
    _, _, total = _running_sums(z, top, axis)
    with np.errstate(divide="ignore"):  # log 0 is the −inf that is meant
        return (np.log(total) + top).astype(x.dtype), top


@logcumsumexp.vjp("x")
def logcumsumexp_dx(g, x, top, axis):
    z, axis = _line(widen(x), axis)
    e, fade, total = _running_sums(z, top, axis)
    share = widen(g).conj() / np.where(total == 0, 1, total)  # gx = conj(conj(g)·p), as of a row
    # roll brings the next step's into place; the one that comes round is never read
    later = op.linear_recurrence(op.roll(fade, -1, axis=axis), share, axis=axis, reverse=True)
    return (e * later).conj().reshape(x.shape)


def _line(x, axis):
    """x and the axis to run along: a number or all of x, for None, is one line."""
    x = x.reshape(-1) if axis is None or x.ndim == 0 else x
    return x, 0 if axis is None else axis  # along any but the one of a number, NumPy raises


def _running_maximum(x, axis):
    if array_module(x) is np:
        return np.maximum.accumulate(x, axis)
    y, d = np.moveaxis(x, axis, 0).copy(), 1  # CuPy has no accumulate: log n vectorised steps
    while d < len(y):
        y[d:] = np.maximum(y[d:], y[:-d])
        d *= 2
    return np.moveaxis(y, 0, axis)


def _running_sums(x, top, axis):
    """e_k = exp(x_k − top_k), exp(top_{k−1} − top_k), and the sums Σ_{j≤k} exp(x_j − top_k)."""
    before = np.roll(top, 1, axis)
    with np.errstate(over="ignore"):  # to −∞, of which the exponential is the right 0
        if are_finite(top):
            e, fade = np.exp(x - top), np.exp(np.minimum(before - top, 0))
            return e, fade, op.linear_recurrence(fade, e, axis=axis)
        endless = top == np.inf
        fade = np.exp(np.minimum(np.where(endless, 0, before) - np.where(endless, 0, top), 0))
        fade = np.where(endless, before == np.inf, fade).astype(top.dtype)
        endless = np.logical_and(endless, x == np.inf)
        e = np.exp(np.where(endless, 0, x) - np.where(endless, 0, top))
    return e, fade, op.linear_recurrence(fade, e, axis=axis)


weighted_logsumexp.batch(both_along)
weighted_sign.batch(both_along)
logsumexp.batch(reduction)
logcumsumexp.batch(along)
