"""x̂ weight + bias, x̂ = (x − mean x)/√(var x + eps), with two derivatives that close the family.

They are primitives because they run in blocks that stay in the cache, each reading its arrays
once; composed of mean, var and products they make ten passes over memory.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator, common_dtype
from ...engine.primitive import primitive
from ...engine.registry import op
from ...engine.versions import note_write
from ...errors import TransformError
from ...modes.saving import is_recomputing
from ..axes import constant_of_each, sum_to
from ..batching import behind, full
from ..blocks import part, scratch
from ..image_layout import in_rows
from ..row_sums import sum_of_product, sum_over
from . import rows, scaled
from .images import images, standardized
from .joint import gradients
from .means import Blocks


def _from_front(axis: tuple, x: Any) -> tuple:
    """The axes counted from the front, as all that works in blocks compares them with these."""
    return tuple([k + x.ndim if k < 0 else k for k in axis])


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


# -- blocks ------------------------------------------------------------------------------------


def _uniform(weight: Any, axis: tuple, ndim: int) -> bool:
    """Whether a weight is one number for all that is averaged, as in batch_norm."""
    shape = (*(1,) * (ndim - weight.ndim), *weight.shape)
    return all(shape[k] == 1 for k in axis)


def _scaled(y: Any, r: Any, weight: Any, axis: tuple) -> None:
    """y r weight, in place: a uniform weight goes into r, which is small."""
    if weight is not None and _uniform(weight, axis, y.ndim):
        r, weight = r * weight, None
    y *= r
    if weight is not None:
        y *= weight


def _empty(x: Any, piece: tuple, wide: Any, name: str = "block 0") -> Any:
    """Scratch memory for a block of x."""
    return scratch.empty(name, x[piece].shape, x, wide)


def _workspace(y: Any, piece: tuple, wide: Any) -> Any:
    """Where a block is computed: in y itself, or in scratch memory of the wider dtype."""
    return y[piece] if y.dtype == wide else _empty(y, piece, wide, "block 1")


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

    gx = r (u − mean u − x̂ mean(u x̂)) with u = g weight ;  gweight = Σ g x̂ ;  gbias = Σ g.
    weight and bias broadcast against x. centre=False leaves out the means (rms_norm). running:
    (mean, var, momentum), arrays of one entry for each channel (axis 1), moved in place. 16-bit
    floats are computed in float32. Squares may be beyond the numbers of the dtype: see scaled.py.
    """
    axis = _from_front(axis, x)
    args = x, weight, bias, axis, eps, centre
    if scaled.is_ordinary(x, eps):
        y, mean, var, rstd = _standardized(*args, running is not None)
    else:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # done again, if lost
            y, mean, var, rstd = _standardized(*args, running is not None)
            if scaled.is_lost(rstd, eps):
                y, mean, rstd = scaled.standardized(*args, (y, mean, rstd))
                var = 1 / rstd / rstd - eps
    if running is not None and x.size:  # no values say nothing about their mean
        move_running(running, mean, var, x.size // mean.size)
    return y, mean, rstd


def _standardized(
    x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool, moves: bool
) -> tuple:
    """(y, mean, var, rstd) in the form that takes least time; var is None where nothing `moves`."""
    if not moves and rows.suits(x, axis, *[a.shape for a in (weight, bias) if a is not None]):
        y, mean, rstd = rows.standardized(x, weight, bias, axis, eps, centre)
        return y, mean, None, rstd
    _check(x, axis, weight=np.shape(weight), bias=np.shape(bias))
    of = images(x, axis, np.shape(weight), np.shape(bias))
    if of is not None:
        return standardized(of, weight, bias, eps, centre)
    x = in_rows(x)
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    y = xp.empty(x.shape, x.dtype)
    kept = tuple([1 if k in axis else n for k, n in enumerate(x.shape)])
    mean, var, rstd = xp.zeros(kept, wide), xp.ones(kept, wide), xp.ones(kept, wide)
    blocks = Blocks(x, axis)
    if not blocks.complete:
        _moments(x, axis, centre, blocks, mean, var)
        rstd[...] = 1 / np.sqrt(var + eps)

    def work(piece: tuple) -> None:
        block, out = x[piece], _workspace(y, piece, wide)
        m, v, r = part(mean, piece), part(var, piece), part(rstd, piece)
        if blocks.complete and centre:
            m[...] = sum_over(block, axis, wide) / blocks.count
        _centred(block, m, centre, out)
        if blocks.complete:
            v[...] = sum_of_product(out, out, axis) / blocks.count
            r[...] = 1 / np.sqrt(v + eps)
        _scaled(out, r, None if weight is None else part(weight, piece), axis)
        if bias is not None:
            out += part(bias, piece)
        if y.dtype != wide:
            y[piece] = out

    blocks.run(work)
    return y, mean, var, rstd


def _moments(x: Any, axis: tuple, centre: bool, blocks: Blocks, mean: Any, var: Any) -> None:
    """Fill mean and var from sums of all blocks."""
    wide = mean.dtype
    if centre:
        mean[...] = blocks.totals(lambda piece: (sum_over(x[piece], axis, wide),))[0] / blocks.count

    def squares(piece: tuple) -> tuple:
        centred = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        return (sum_of_product(centred, centred, axis),)

    var[...] = blocks.totals(squares)[0] / blocks.count


def move_running(running: tuple, mean: Any, var: Any, n: int) -> None:
    """Move running statistics towards these: mean, and var · n/(n − 1), with n − 1 below its sum.

    Statistics of (examples, channels) are those of vmap, where each example has its own. Where a
    checkpoint computes again they have moved already.
    """
    if is_recomputing():
        return
    lead = running[0].ndim - 1
    others = tuple([k for k in range(lead, mean.ndim) if k != lead + 1])
    momentum = running[2]
    for old, new in zip(running, (mean, var * (n / (n - 1))), strict=False):
        old[...] = (1 - momentum) * old + momentum * new.mean(others)
        note_write(old, "the running statistics of batch_norm")


@standardize.vjp
def standardize_gradients(
    g, x, weight, mean, rstd, weight_shape, bias_shape, needs, axis, eps, centre
):
    """All in one pass where the gradients are plain numbers; else by ops with derivatives."""
    axis, shapes = _from_front(axis, x), (weight_shape, bias_shape)
    found = gradients(g, x, weight, mean, rstd, shapes, needs, axis, eps, centre)
    if found is not None:
        return found
    how = {"axis": axis, "eps": eps, "centre": centre}
    return [
        standardize_dx(g, x, weight, mean, rstd, **how) if needs[0] else None,
        standardize_dw(g, x, mean, rstd, shape=weight_shape, **how) if needs[1] else None,
        sum_to(g, bias_shape) if needs[2] else None,
    ]


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
    axis = _from_front(axis, x)
    _check(x, axis, weight=np.shape(weight), mean=mean.shape, rstd=rstd.shape)
    _same_shape(a, x)
    if (scale := scaled.scale_of(x, rstd, eps)) is not None:
        how = {"axis": axis, "eps": eps, "centre": centre}
        narrow, (x, mean, rstd) = x.dtype, scaled.rescaled(scale, x, mean, rstd)
        y = standardize_dx.forward(a, x, weight, mean, rstd, **how)
        return (y / scale).astype(narrow, copy=False)
    a, x = in_rows(a), in_rows(x)
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    y = xp.empty(x.shape, x.dtype)
    blocks = Blocks(x, axis)
    # an infinite weight gives NaN here, as it does where u is formed first (on a GPU nobody looks)
    uniform = False
    if weight is not None and xp is np and _uniform(weight, axis, x.ndim):
        uniform = bool(np.isfinite(weight).all())

    def prepared(piece: tuple, u: Any) -> tuple:
        """(x − mean, u, weight that remains): a uniform weight waits until the end."""
        w: Any = None if weight is None else part(weight, piece)
        centred = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        if uniform or w is None:
            u[...] = a[piece]
        else:
            np.multiply(a[piece], w, out=u, dtype=wide, casting="same_kind")
            w = None
        return centred, u, w

    def sums(piece: tuple) -> tuple:
        centred, u, _ = prepared(piece, _empty(x, piece, wide, "block 1"))
        return sum_over(u, axis, wide), sum_of_product(u, centred, axis)

    totals = None if blocks.complete else blocks.totals(sums)

    def work(piece: tuple) -> None:
        r = part(rstd, piece)
        centred, u, w = prepared(piece, _workspace(y, piece, wide))
        total, product = totals or (sum_over(u, axis, wide), sum_of_product(u, centred, axis))
        centred *= product * (r * r) / blocks.count  # x̂ mean(u x̂), as x̂ = centred r
        if centre:
            centred += total / blocks.count
        u -= centred
        _scaled(u, r, w, axis)
        if y.dtype != wide:
            y[piece] = u

    blocks.run(work)
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
    units = x * rstd  # of about 1: the squares of x may be out of range
    square = op.var(units, axis=axis, keepdims=True) if centre else average(units * units)
    r = rstd / np.sqrt(square + eps * rstd * rstd)
    mixed = g * average(u * xhat) + u * average(g * xhat)
    return -r * (xhat * average(g * y) + standardize_dx(mixed, x, None, mean, rstd, **how))


@primitive(arrays="a x mean rstd", constants=["mean", "rstd"])
def standardize_dw(a, x, mean: Any = None, rstd: Any = None, *, shape, axis, eps, centre=True):
    """y = Σ a x̂ over the axes along which `shape` is broadcast: the gradient of x̂ weight in weight

    ga = g x̂ ;  gx = r (u − mean u − x̂ mean(u x̂)) with u = a g
    """
    _check(x, axis, mean=mean.shape, rstd=rstd.shape, shape=shape)
    _same_shape(a, x)
    if (scale := scaled.scale_of(x, rstd, eps)) is not None:
        how = {"shape": shape, "axis": axis, "eps": eps, "centre": centre}
        y = standardize_dw.forward(a, *scaled.rescaled(scale, x, mean, rstd), **how)
        return y.astype(common_dtype(a, x), copy=False)
    a, x = in_rows(a), in_rows(x)
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    over = tuple([k for k, n in enumerate((*(1,) * (x.ndim - len(shape)), *shape)) if n == 1])
    y = xp.zeros([1 if k in over else n for k, n in enumerate(x.shape)], wide)
    blocks = Blocks(x, over)

    def sums(piece: tuple) -> tuple:
        product = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        product *= a[piece]
        product *= part(rstd, piece)
        return (sum_over(product, over, wide),)

    def work(piece: tuple) -> None:
        part(y, piece)[...] = sums(piece)[0]

    if blocks.complete:
        blocks.run(work)
    else:
        y = blocks.totals(sums)[0]
    return y.reshape(shape).astype(common_dtype(a, x), copy=False)


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
