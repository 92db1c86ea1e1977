"""Softmax and its logarithm, with the derivatives of both, along one axis or several."""

from typing import Any

import numpy as np

from ..backends.dtypes import is_floating
from ..engine.primitive import primitive
from ..engine.registry import op
from .axes import axes_of, widen
from .batching import behind, full, reduction
from .elementwise.selection import keep
from .elementwise.support import in_float32

__all__ = ["log_softmax", "softmax"]


def less_the_largest(x: Any, axis: tuple) -> tuple[Any, Any, Any]:
    """(x − top, top, where a row is all −∞), top the largest of each row along `axis`: of the
    difference no exponential overflows.

    A row all −∞ stays so. Where the largest is +∞ the row is its limit: 0 for what is +∞, −∞ for
    all else.
    """
    top = (np.max if x.size else np.sum)(x, axis=axis, keepdims=True)  # none has no largest
    masked, endless = top == -np.inf, top == np.inf
    z = x - np.where(masked | endless, 0, top)
    return np.where(endless & (x != np.inf), -np.inf, np.where(endless, 0, z)), top, masked


def log_of_sum(z: Any, axis: tuple) -> Any:
    """log Σ e^z along `axis`, of rows whose largest is 0: log(1 + the others), which has all digits
    where these are little; of a row all −∞ 0."""
    top = z == 0
    others = np.where(top, 0, np.exp(z)).sum(axis, keepdims=True)
    return np.log1p(others + (np.maximum(top.sum(axis, keepdims=True), 1) - 1))


NEARLY_ALL = 0.9  # a share p of its row, from which 1 − p has lost a digit


def nearly_all(p: Any, axis: Any) -> Any:
    """Where one share is nearly all of its row: at one place of a row at most. And only in rows
    that are shares, none below 0, which add up to 1 but for what 16 bits have rounded."""
    whole = np.abs(op.sum(np.abs(p), axis=axis, keepdims=True) - 1) < 1e-3
    return np.logical_and(p > NEARLY_ALL, whole)


def settled(y: Any, p: Any, axis: tuple) -> Any:
    """y, which adds up to 0 along `axis`; where the share p is nearly 1, minus the others' sum.
    Computed as 1 − p that entry would have few digits, or none."""
    if p.dtype.kind == "c":
        return y
    places = nearly_all(p, axis)
    y = np.where(places, 0, y)
    return np.where(places, -y.sum(axis, keepdims=True), y)


def floating(x: Any) -> Any:
    """The dtype of the result: x's own, or for integers one of 32 bits or more, as `in_float32`."""
    return x.dtype if is_floating(x.dtype) else np.result_type(x, np.float32)


def require_same_shape(a: Any, p: Any) -> None:
    if a.shape != p.shape:
        raise ValueError(f"a {a.shape} and the result {p.shape} must have the same shape")


# A row whose largest lies between these needs no difference, which is rounded. No exponential
# overflows (e^70 is 3e30, so a sum of 10⁸ is a float32), and one that becomes 0 would be 1e-35 of
# the sum.
LEAST, HIGHEST = -7.0, 70.0


@primitive
@in_float32
def softmax(x, axis=-1):
    """yᵢ = e^xᵢ / Σⱼ e^xⱼ along `axis` ;  gx = y (g − Σ g y), with all digits where a y is near 1

    A row all −∞ gives 0 and gradient 0; where some are +∞ these share alike, all else gets 0.
    """
    axis, x = axes_of(axis, x.ndim), x.astype(floating(x), copy=False)
    z, top, masked = less_the_largest(x, axis)
    e = np.exp(np.where((top > LEAST) & (top < HIGHEST), x, z))
    return e / (e.sum(axis, keepdims=True) + masked)


@softmax.vjp("x")
def softmax_gx(g, y, axis):
    return softmax_dx(g, y.conj(), axis=axis)


@primitive
def softmax_dx(a, p, *, axis=-1):
    """y = p (a − Σ a p) along `axis`: the gradient of softmax in x, from its result p

    ga = p (g − Σ g p) ;  gp = g (a − Σ a p) − a Σ g p
    """
    require_same_shape(a, p)
    axis, dtype = axes_of(axis, p.ndim), np.result_type(a, p)
    a, p = widen(a), widen(p)
    y = settled(p * (a - (a * p).sum(axis, keepdims=True)), p, axis)
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
    """yᵢ = xᵢ − log Σⱼ e^xⱼ along `axis` ;  gx = g − e^y Σ g

    Both have all digits where e^y is near 1. A row all −∞ gives −∞ and gradient 0; where n are +∞
    these give −log n, all else −∞.
    """
    axis, dtype = axes_of(axis, x.ndim), floating(x)
    z, _, masked = less_the_largest(widen(x.astype(dtype, copy=False)), axis)
    return (z - log_of_sum(z, axis)).astype(dtype, copy=False), masked


@log_softmax.vjp("x")
def log_softmax_gx(g, y, masked, axis):
    return log_softmax_dx(g, y.conj(), masked, axis=axis)


@primitive(constants=["masked"])
def log_softmax_dx(a, log_p, masked, *, axis=-1):
    """y = a − p Σ a along `axis`, 0 in masked rows: the gradient of log_softmax from its result

    ga = g − Σ g p ;  glog_p = −g p Σ a, with p = e^log_p
    """
    require_same_shape(a, log_p)
    axis, dtype = axes_of(axis, log_p.ndim), np.result_type(a, log_p)
    a, p = widen(a), np.exp(widen(log_p))
    y = settled(a - p * a.sum(axis, keepdims=True), p, axis)
    return np.where(masked, 0, y).astype(dtype, copy=False)


@log_softmax_dx.vjp("a")
def log_softmax_dx_ga(g, log_p, masked, axis):
    g, p = keep(g, np.logical_not(masked)), np.exp(log_p.conj())
    return less_the_mean(g, p, axis)


def less_the_mean(g: Any, p: Any, axis: Any) -> Any:
    """g − Σ g p along `axis`, for shares p. The entry of a share that is nearly 1 is subtracted
    first: it would leave its difference no digits."""
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
