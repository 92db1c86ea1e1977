"""x̂ weight + bias, x̂ = (x − mean x)/√(var x + eps), with two derivatives that close the family.

They are primitives because they run in blocks that stay in the cache, each reading its arrays
once; composed of mean, var and products they make ten passes over memory.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator
from ...core.errors import TransformError
from ...core.primitive import primitive
from ...core.registry import op
from ...core.versions import note_write
from ..axes import sum_to
from ..batching import behind, full
from ..blocks import part, spans

BLOCK_BYTES = 1 << 18  # of x at a time; a quarter of a megabyte measured best with 1 MB of L2


# -- blocks ------------------------------------------------------------------------------------


def _pieces(x: Any, axis: tuple) -> list[tuple]:
    """Indices that cut x into blocks along its longest axis that is not normalised."""
    kept = [k for k in range(x.ndim) if k not in axis]
    if not kept or x.nbytes <= BLOCK_BYTES or array_module(x) is not np:
        return [(slice(None),) * x.ndim]
    k = max(kept, key=lambda k: x.shape[k])
    step = max(1, BLOCK_BYTES * x.shape[k] // x.nbytes)
    before, after = (slice(None),) * k, (slice(None),) * (x.ndim - k - 1)
    return [(*before, span, *after) for span in spans(x.shape[k], step)]


def _check(x: Any, axis: tuple, **shapes: tuple) -> None:
    """Refuse shapes that do not broadcast against x's, and axes that x does not have."""
    if max(axis, default=0) >= x.ndim:
        raise ValueError(f"axis={axis} names an axis that x {x.shape} does not have")
    for name, shape in shapes.items():
        unlike = any(n not in (1, m) for n, m in zip(shape[::-1], x.shape[::-1], strict=False))
        if len(shape) > x.ndim or unlike:
            raise ValueError(f"{name} {shape} must broadcast against x {x.shape}")


def _same_shape(a: Any, x: Any) -> None:
    if a.shape != x.shape:
        raise ValueError(f"a {a.shape} and x {x.shape} must have the same shape")


def _mean_product(a: Any, b: Any, axis: tuple) -> Any:
    """The mean of a b over `axis`, which keeps its place with length 1; no array of a b is made."""
    if axis == (a.ndim - 1,) and array_module(a) is np:  # BLAS
        return np.vecdot(a, b)[..., None] / max(a.shape[-1], 1)
    kept = [k for k in range(a.ndim) if k not in axis]
    total = np.einsum(a, list(range(a.ndim)), b, list(range(a.ndim)), kept)
    shape = [1 if k in axis else n for k, n in enumerate(a.shape)]
    return np.reshape(total, shape) / (a.size // max(total.size, 1))


def _mean(a: Any, axis: tuple, wide: Any) -> Any:
    """The mean over `axis`: along rows a product with ones, at a third of the time of a sum."""
    if a.dtype == wide and axis == (a.ndim - 1,) and array_module(a) is np:
        return _mean_product(a, np.ones(a.shape[-1], wide), axis)
    return a.mean(axis, keepdims=True, dtype=wide)


def _workspace(y: Any, piece: tuple, wide: Any) -> Any:
    """Where a block is computed: in y itself, or in an array of the wider dtype."""
    block = y[piece]
    return block if y.dtype == wide else array_module(y).empty(block.shape, wide)


def _centred(x: Any, mean: Any, centre: bool, out: Any) -> Any:
    """x − mean, or for rms_norm x alone, in `out`."""
    if centre:
        return np.subtract(x, mean, out=out)
    out[...] = x
    return out


# -- the primitive and its derivatives -----------------------------------------------------------


@primitive(arrays="x weight bias", residuals=["mean", "rstd"])
def standardize(x, weight: Any = None, bias: Any = None, *, axis, eps, centre=True, running=None):
    """y = x̂ weight + bias, x̂ = (x − mean x)·r, r = 1/√(var x + eps), over the axes `axis`

    gx = r (u − mean u − x̂ mean(u x̂)) with u = g weight ;  gweight = Σ g x̂ ;  gbias = Σ g
    weight and bias broadcast against x. centre=False leaves out the means (rms_norm). running:
    (mean, var, momentum), arrays of one entry for each channel (axis 1), moved in place. 16-bit
    floats are computed in float32.
    """
    _check(x, axis, weight=np.shape(weight), bias=np.shape(bias))
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    y = xp.empty(x.shape, x.dtype)
    kept = tuple([1 if k in axis else n for k, n in enumerate(x.shape)])
    mean, rstd = xp.zeros(kept, wide), xp.ones(kept, wide)
    for piece in _pieces(x, axis) if x.size else ():
        block, out = x[piece], _workspace(y, piece, wide)
        m, r = part(mean, piece), part(rstd, piece)
        if centre:
            m[...] = _mean(block, axis, wide)
        out = _centred(block, m, centre, out)
        r[...] = 1 / np.sqrt(_mean_product(out, out, axis) + eps)
        out *= r
        if weight is not None:
            out *= part(weight, piece)
        if bias is not None:
            out += part(bias, piece)
        if y.dtype != wide:
            y[piece] = out
    if running is not None:
        _move(running, mean, rstd, eps, x.size // prod(kept))
    return y, mean, rstd


def _move(running: tuple, mean: Any, rstd: Any, eps: float, n: int) -> None:
    """Move running statistics towards these: mean, and variance with n − 1 below the sum."""
    others = tuple([k for k in range(mean.ndim) if k != 1])
    var = (1 / (rstd * rstd) - eps) * (n / (n - 1))
    momentum = running[2]
    for old, new in zip(running, (mean, var), strict=False):
        old[...] = (1 - momentum) * old + momentum * new.mean(others)
        note_write(old, "the running statistics of batch_norm")


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
    _check(x, axis, weight=np.shape(weight), mean=mean.shape, rstd=rstd.shape)
    _same_shape(a, x)
    wide = accumulator(x.dtype) or x.dtype
    y = array_module(x).empty(x.shape, x.dtype)
    for piece in _pieces(x, axis) if x.size else ():
        m, r = part(mean, piece), part(rstd, piece)
        block = x[piece]
        centred = _centred(block, m, centre, array_module(x).empty(block.shape, wide))
        u = _workspace(y, piece, wide)
        if weight is None:
            u[...] = a[piece]
        else:
            np.multiply(a[piece], part(weight, piece), out=u, casting="same_kind")
        centred *= _mean_product(u, centred, axis) * (r * r)  # x̂ mean(u x̂), as x̂ = centred r
        if centre:
            u -= _mean(u, axis, wide)
        u -= centred
        u *= r
        if y.dtype != wide:
            y[piece] = u
    return y


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

    def average(c: Any) -> Any:
        return op.mean(c, axis=axis, keepdims=True)

    u = a if weight is None else a * weight
    xhat = standardize(x, None, None, **how)
    square = op.var(x, axis=axis, keepdims=True) if centre else average(x * x)
    r = 1 / np.sqrt(square + eps)
    mixed = g * average(u * xhat) + u * average(g * xhat)
    return -r * (xhat * average(g * y) + standardize_dx(mixed, x, None, mean, rstd, **how))


@primitive(arrays="a x mean rstd", constants=["mean", "rstd"])
def standardize_dw(a, x, mean: Any = None, rstd: Any = None, *, shape, axis, eps, centre=True):
    """y = Σ a x̂ over the axes along which `shape` is broadcast: the gradient of x̂ weight in weight

    ga = g x̂ ;  gx = r (u − mean u − x̂ mean(u x̂)) with u = a g
    """
    _check(x, axis, mean=mean.shape, rstd=rstd.shape, shape=shape)
    _same_shape(a, x)
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    over = tuple([k for k, n in enumerate((*(1,) * (x.ndim - len(shape)), *shape)) if n == 1])
    y = xp.zeros([1 if k in over else n for k, n in enumerate(x.shape)], wide)
    rows = axis == (x.ndim - 1,) and over == tuple(range(x.ndim - 1))
    for piece in _pieces(x, axis) if x.size else ():
        block, r = x[piece], part(rstd, piece)
        centred = _centred(block, part(mean, piece), centre, xp.empty(block.shape, wide))
        centred *= a[piece]
        if rows:  # Σ over rows of r (x − mean) a is one product of BLAS
            y += r.reshape(-1) @ centred.reshape((r.size, x.shape[-1]))
        else:
            centred *= r
            part(y, piece)[...] += centred.sum(over, keepdims=True)
    return y.reshape(shape).astype(np.result_type(a, x), copy=False)


@standardize_dw.vjp("a")
def standardize_dw_ga(g, x, axis, eps, centre):
    return g * standardize(x, None, None, axis=axis, eps=eps, centre=centre)


@standardize_dw.vjp("x")
def standardize_dw_gx(g, a, x, mean, rstd, axis, eps, centre):
    return standardize_dx(a, x, g, mean, rstd, axis=axis, eps=eps, centre=centre)


# -- batch rules: the examples are one more axis that is not normalised --------------------------


def _operand(w: Any, batched: bool, ndim: int) -> Any:
    """A weight of its own for each example, with unit axes so that it broadcasts against them."""
    if w is None or not batched:
        return w
    return op.reshape(w, shape=(w.shape[0], *(1,) * (ndim - w.ndim), *w.shape[1:]))


@standardize.batch
def standardize_batch(op_, xs, batched, params):
    if params["running"] is not None:
        raise TransformError(
            "vmap: the running statistics would be moved by every example; use running_mean=None, "
            "or training=False"
        )
    x, *operands = xs
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
