"""x̂ weight + bias, x̂ = (x − mean x)/√(var x + eps), with two derivatives that close the family.

They are primitives because their derivatives are short, and because all of one can run at once.
Composed of means, squares and products, a normalisation is ten nodes.
"""

from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype, is_floating
from ...engine.errors import describe
from ...engine.primitive import primitive
from ...engine.registry import op
from ...engine.versions import note_write
from ...errors import TransformError
from ...modes.saving import is_recomputing
from ..axes import constant_of_each, sum_to, widen
from ..batching import behind, full
from .scaled import average, centred_in_units


@primitive(arrays="x weight bias", residuals=["mean", "rstd"])
def standardize(x, weight: Any = None, bias: Any = None, *, axis, eps, centre=True, running=None):
    """y = x̂ weight + bias, x̂ = (x − mean x)·r, r = 1/√(var x + eps), over the axes `axis`

    gx = r (u − mean u − x̂ mean(u x̂)) with u = g weight ;  gweight = Σ g x̂ ;  gbias = Σ g.
    weight and bias broadcast against x. centre=False leaves out the means (rms_norm). running:
    (mean, var, momentum), arrays of one entry for each channel (axis 1), moved in place. 16-bit
    floats are computed in float32. Squares may be beyond the numbers of the dtype: see scaled.py.
    """
    axis = from_front(axis, x)
    check(x, axis, weight=np.shape(weight), bias=np.shape(bias))
    dtype, x = x.dtype, widen(x)
    mean, centred, unit = centred_in_units(x, axis, eps, centre)
    var = average(centred * centred, axis)
    rstd = 1 / np.sqrt(var + float(eps) / unit / unit)
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    if running is not None:
        with np.errstate(over="ignore"):  # the variance itself may be infinite
            move_running(running, mean, var * unit * unit, x)
    return y.astype(dtype, copy=False), mean, rstd / unit


@standardize.vjp("x")
def standardize_gx(g, x, weight, mean, rstd, axis, eps, centre):
    return standardize_dx(g, x, weight, mean, rstd, axis=axis, eps=eps, centre=centre)


@standardize.vjp("weight")
def standardize_gweight(g, x, mean, rstd, weight_shape, axis, eps, centre):
    return standardize_dw(g, x, mean, rstd, shape=weight_shape, axis=axis, eps=eps, centre=centre)


@standardize.vjp("bias")
def standardize_gbias(g, bias_shape):
    return sum_to(g, bias_shape)


# The two derivatives take mean and rstd along to save passes over x. To their own rules these are
# functions of x, so derivatives of every order are right: the family is closed.


@primitive(arrays="a x weight mean rstd", constants=["mean", "rstd"])
def standardize_dx(
    a, x, weight: Any = None, mean: Any = None, rstd: Any = None, *, axis, eps, centre=True
):
    """y = r (u − mean u − x̂ mean(u x̂)), u = a weight: the gradient of x̂ weight in x

    Linear in u and its own transpose: ga = F(g) weight, where F(u) = y.
    gx = −r (x̂ mean(g y) + F(g mean(u x̂) + u mean(g x̂)))
    """
    axis = from_front(axis, x)
    check(x, axis, weight=np.shape(weight), mean=mean.shape, rstd=rstd.shape)
    require_same_shape(a, x)
    xhat, u = normalized(x, mean, rstd), widen(a)
    u = u if weight is None else u * weight
    y = u - xhat * average(u * xhat, axis)
    if centre:
        y = y - average(u, axis)
    return (y * rstd).astype(x.dtype, copy=False)


@standardize_dx.vjp("a")
def standardize_dx_ga(g, x, weight, mean, rstd, axis, eps, centre):
    ga = standardize_dx(g, x, None, mean, rstd, axis=axis, eps=eps, centre=centre)
    return ga if weight is None else ga * weight


@standardize_dx.vjp("weight")
def standardize_dx_gweight(g, a, x, mean, rstd, weight_shape, axis, eps, centre):
    f = standardize_dx(g, x, None, mean, rstd, axis=axis, eps=eps, centre=centre)
    return sum_to(a * f, weight_shape)


@standardize_dx.vjp("x")
def standardize_dx_gx(g, a, x, weight, mean, rstd, y, axis, eps, centre):
    how = {"axis": axis, "eps": eps, "centre": centre}

    def mean_of(c: Any) -> Any:
        return op.mean(c, axis=axis, keepdims=True)

    u = a if weight is None else a * weight
    xhat = standardize(x, None, None, **how)
    units = x * rstd  # of about 1: the squares of x may be out of range
    square = op.var(units, axis=axis, keepdims=True) if centre else mean_of(units * units)
    r = rstd / np.sqrt(square + eps * rstd * rstd)
    mixed = g * mean_of(u * xhat) + u * mean_of(g * xhat)
    return -r * (xhat * mean_of(g * y) + standardize_dx(mixed, x, None, mean, rstd, **how))


@primitive(arrays="a x mean rstd", constants=["mean", "rstd"])
def standardize_dw(a, x, mean: Any = None, rstd: Any = None, *, shape, axis, eps, centre=True):
    """y = Σ a x̂ over the axes along which `shape` is broadcast: the gradient of x̂ weight in weight

    ga = g x̂ ;  gx = r (u − mean u − x̂ mean(u x̂)) with u = a g
    """
    check(x, axis, mean=mean.shape, rstd=rstd.shape, shape=shape)
    require_same_shape(a, x)
    y = widen(a) * normalized(x, mean, rstd)
    y = y.sum(broadcast_axes(shape, x), keepdims=True)
    return y.reshape(shape).astype(common_dtype(a, x), copy=False)


@standardize_dw.vjp("a")
def standardize_dw_ga(g, x, axis, eps, centre):
    return g * standardize(x, None, None, axis=axis, eps=eps, centre=centre)


@standardize_dw.vjp("x")
def standardize_dw_gx(g, a, x, mean, rstd, axis, eps, centre):
    return standardize_dx(a, x, g, mean, rstd, axis=axis, eps=eps, centre=centre)


# -- x̂, axes and checks --------------------------------------------------------------------------


def normalized(x: Any, mean: Any, rstd: Any) -> Any:
    """x̂ = (x − mean)·r, by halves: the difference of two large numbers may be none of the dtype."""
    return (widen(x) / 2 - mean / 2) * rstd * 2


def broadcast_axes(shape: tuple, x: Any) -> tuple:
    """The axes along which an array of this shape is broadcast to x's."""
    return tuple([k for k, n in enumerate((*(1,) * (x.ndim - len(shape)), *shape)) if n == 1])


def from_front(axis: tuple, x: Any) -> tuple:
    """The axes counted from the front."""
    return tuple([k + x.ndim if k < 0 else k for k in axis])


def check(x: Any, axis: tuple, **shapes: tuple) -> None:
    """Refuse whole numbers, axes that x does not have, and shapes that do not broadcast to x's."""
    if not is_floating(x.dtype):
        raise TypeError(f"x must be a real floating array, got {describe(x)}")
    if max(axis, default=0) >= x.ndim:
        raise ValueError(f"axis={axis} names an axis that x {x.shape} does not have")
    for name, shape in shapes.items():
        unlike = any(n not in (1, m) for n, m in zip(shape[::-1], x.shape[::-1], strict=False))
        if len(shape) > x.ndim or unlike:
            raise ValueError(f"{name} {shape} must broadcast against x {x.shape}")


def require_same_shape(a: Any, x: Any) -> None:
    if a.shape != x.shape:
        raise ValueError(f"a {a.shape} and x {x.shape} must have the same shape")


def move_running(running: tuple, mean: Any, var: Any, x: Any) -> None:
    """Move running statistics towards these: mean, and var · n/(n − 1), with n − 1 below its sum.

    Statistics of (examples, channels) are those of vmap, where each example has its own. Where a
    checkpoint computes again they have moved already; no values say nothing about their mean.
    """
    if is_recomputing() or not x.size:
        return
    n = x.size // mean.size
    lead = running[0].ndim - 1
    others = tuple([k for k in range(lead, mean.ndim) if k != lead + 1])
    momentum = running[2]
    for old, new in zip(running, (mean, var * (n / (n - 1))), strict=False):
        old[...] = (1 - momentum) * old + momentum * new.mean(others)
        note_write(old, "the running statistics of batch_norm")


# -- batch rules: the examples are one more axis that is not normalised --------------------------


def _operand(w: Any, batched: bool, ndim: int) -> Any:
    """Another weight for each example, with unit axes to broadcast against them."""
    if w is None or not batched:
        return w
    return op.reshape(w, shape=(w.shape[0], *(1,) * (ndim - w.ndim), *w.shape[1:]))


def _of_examples(running: tuple, level: int) -> tuple:
    """The running statistics below vmap's level: an axis of examples in front, as x has now."""
    if any(getattr(old, "level", 0) <= level for old in running[:2]):
        raise TransformError(
            "vmap: the running statistics would be moved by every example; use running_mean=None "
            "(in a layer track_running_stats=False) or training=False, or give each example "
            "its own (in_dims=0 for them too)"
        )
    mean, var, momentum = running
    return constant_of_each(mean.data), constant_of_each(var.data), momentum


@standardize.batch
def standardize_batch(op_, xs, batched, params):
    x, *operands = xs
    if params["running"] is not None:
        level = max([getattr(a, "level", 0) for a in xs])
        params = {**params, "running": _of_examples(params["running"], level)}
    if not batched[0]:
        x = full([x, *[w for w, b in zip(operands, batched[1:]) if b]], [False, True])[0]
    operands = [_operand(w, b, x.ndim) for w, b in zip(operands, batched[1:], strict=True)]
    return op_(x, *operands, **{**params, "axis": behind(params["axis"], x.ndim - 1)})


@standardize_dx.batch
def standardize_dx_batch(op_, xs, batched, params):
    a, x, weight, mean, rstd = xs
    has = [batched[i] for i in (0, 1, 3, 4)]
    weighty = weight is not None and batched[2]
    a, x, mean, rstd, *_ = full([a, x, mean, rstd, *[weight] * weighty], [*has, *[True] * weighty])
    params = {**params, "axis": behind(params["axis"], x.ndim - 1)}
    return op_(a, x, _operand(weight, batched[2], x.ndim), mean, rstd, **params)


@standardize_dw.batch
def standardize_dw_batch(op_, xs, batched, params):
    a, x, mean, rstd = full(xs, batched)
    own, lead = params["shape"], x.shape[0]
    shape = (lead, *(1,) * (x.ndim - 1 - len(own)), *own)
    params = {**params, "axis": behind(params["axis"], x.ndim - 1), "shape": shape}
    return op.reshape(op_(a, x, mean, rstd, **params), shape=(lead, *own))
