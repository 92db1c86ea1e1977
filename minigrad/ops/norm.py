"""B11: normalisation. One primitive, `standardize`, stands behind all of them.

    batch_norm     over batch and space, one mean for each channel
    layer_norm     over the last axes, one mean for each of the others
    group_norm     over space and the channels of one group, one mean for each example
    instance_norm  over space, one mean for each example and channel
    rms_norm       as layer_norm without the mean

It and its two derivatives are primitives because they run in blocks that stay in the cache, each
reading its arrays once; composed of mean, var and products they make ten passes over memory.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator, finfo, is_floating
from ..core.errors import TransformError, describe
from ..core.primitive import composite, primitive
from ..core.registry import op
from ..core.tensor import raw
from .axes import array_like, sum_to
from .batching import behind, full
from .blocks import part, spans

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

BLOCK_BYTES = 1 << 19  # of x at a time; half a megabyte measured best with 1 MB of L2 a core


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


def _mean_product(a: Any, b: Any, axis: tuple) -> Any:
    """The mean of a b over `axis`, which keeps its place with length 1."""
    if axis == (a.ndim - 1,) and array_module(a) is np:  # BLAS, and no array of the products
        return np.vecdot(a, b)[..., None] / max(a.shape[-1], 1)
    return (a * b).mean(axis, keepdims=True)


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
def standardize(x, weight=None, bias=None, *, axis, eps, centre=True, running=None):
    """y = x̂ weight + bias, x̂ = (x − mean x)·r, r = 1/√(var x + eps), over the axes `axis`

    gx = r (u − mean u − x̂ mean(u x̂)) with u = g weight ;  gweight = Σ g x̂ ;  gbias = Σ g
    weight and bias broadcast against x. centre=False leaves out the means (rms_norm). running:
    (mean, var, momentum), arrays of one entry for each channel (axis 1), moved in place. 16-bit
    floats are computed in float32.
    """
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    y = xp.empty(x.shape, x.dtype)
    kept = tuple([1 if k in axis else n for k, n in enumerate(x.shape)])
    mean, rstd = xp.zeros(kept, wide), xp.ones(kept, wide)
    for piece in _pieces(x, axis) if x.size else ():
        block, out = x[piece], _workspace(y, piece, wide)
        m, r = part(mean, piece), part(rstd, piece)
        if centre:
            m[...] = block.mean(axis, keepdims=True, dtype=wide)
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
def standardize_dx(a, x, weight=None, mean=None, rstd=None, *, axis, eps, centre=True):
    """y = r (u − mean u − x̂ mean(u x̂)), u = a weight: the gradient of x̂ weight in x

    Linear in u and its own transpose: ga = F(g) weight, where F(u) = y.
    gx = −r (x̂ mean(g y) + F(g mean(u x̂) + u mean(g x̂)))
    """
    wide = accumulator(x.dtype) or x.dtype
    y = array_module(x).empty(x.shape, x.dtype)
    for piece in _pieces(x, axis) if x.size else ():
        m, r = part(mean, piece), part(rstd, piece)
        block = x[piece]
        xhat = _centred(block, m, centre, array_module(x).empty(block.shape, wide))
        xhat *= r
        u = _workspace(y, piece, wide)
        if weight is None:
            u[...] = a[piece]
        else:
            np.multiply(a[piece], part(weight, piece), out=u, casting="same_kind")
        along = _mean_product(u, xhat, axis)
        if centre:
            u -= u.mean(axis, keepdims=True)
        xhat *= along
        u -= xhat
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
def standardize_dw(a, x, mean=None, rstd=None, *, shape, axis, eps, centre=True):
    """y = Σ a x̂ over the axes along which `shape` is broadcast: the gradient of x̂ weight in weight

    ga = g x̂ ;  gx = r (u − mean u − x̂ mean(u x̂)) with u = a g
    """
    wide, xp = accumulator(x.dtype) or x.dtype, array_module(x)
    over = tuple([k for k, n in enumerate((*(1,) * (x.ndim - len(shape)), *shape)) if n == 1])
    y = xp.zeros([1 if k in over else n for k, n in enumerate(x.shape)], wide)
    for piece in _pieces(x, axis) if x.size else ():
        block = x[piece]
        xhat = _centred(block, part(mean, piece), centre, xp.empty(block.shape, wide))
        xhat *= part(rstd, piece)
        xhat *= a[piece]
        part(y, piece)[...] += xhat.sum(over, keepdims=True)
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


# -- what users call -----------------------------------------------------------------------------


def _floating(name: str, x: Any) -> Any:
    x = array_like(x)
    if not is_floating(x.dtype):
        raise TypeError(f"{name}: x must be a real floating array, got {describe(x)}")
    return x


def _channels(name: str, x: Any, *given: tuple[str, Any]) -> list:
    """The arrays of one entry for each channel (axis 1 of x), checked; None stays None."""
    if x.ndim < 2:
        raise ValueError(f"{name}: x must be (batch, channels, ...), got shape {x.shape}")
    for argument, w in given:
        if w is not None and np.shape(w) != (x.shape[1],):
            raise ValueError(
                f"{name}: {argument} must have shape ({x.shape[1]},), one entry for each channel "
                f"(axis 1 of x {x.shape}); got {np.shape(w)}"
            )
    return [None if w is None else array_like(w) for _, w in given]


def _by_channel(w: Any, ndim: int) -> Any:
    """w (C,) as (C, 1, ...), which broadcasts against x (N, C, ...)."""
    return w if w is None or ndim == 2 else op.reshape(w, shape=(-1, *(1,) * (ndim - 2)))


def _trailing(name: str, x: Any, normalized_shape: Any, *given: tuple[str, Any]) -> tuple:
    """The axes that normalized_shape stands for, after checks of it and of weight and bias."""
    one = isinstance(normalized_shape, int | np.integer)
    shape = (int(normalized_shape),) if one else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"{name}: normalized_shape={shape} must be the last axes of x, whose shape is {x.shape}"
        )
    for argument, w in given:
        if w is not None and np.shape(w) != shape:
            raise ValueError(
                f"{name}: {argument} must have shape normalized_shape={shape}, got {np.shape(w)}"
            )
    return tuple(range(x.ndim - len(shape), x.ndim))


@composite
def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias, mean and var over the last axes of x

    normalized_shape: the shape of these axes (an int: the last one), which weight and bias have.
    Ba et al., Layer normalization, 2016.
    """
    x = _floating("layer_norm", x)
    axis = _trailing("layer_norm", x, normalized_shape, ("weight", weight), ("bias", bias))
    return standardize(x, weight, bias, axis=axis, eps=eps)


@composite
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """y = x/√(mean x² + eps) · weight over the last axes of x; eps: None for the dtype's ε

    Zhang and Sennrich, Root mean square layer normalization, 2019.
    """
    x = _floating("rms_norm", x)
    axis = _trailing("rms_norm", x, normalized_shape, ("weight", weight))
    eps = float(finfo(x.dtype).eps) if eps is None else eps
    return standardize(x, weight, None, axis=axis, eps=eps, centre=False)


@composite
def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias for each channel: x (N, C, ...), the rest (C,)

    training: mean and var over batch and space; running statistics that are given move in place
    to (1 − momentum) old + momentum new, the new var with n − 1 below its sum. Else mean and var
    are the running ones, constants. ValueError where training has one value a channel.
    Ioffe and Szegedy, Batch normalization, 2015.
    """
    x = _floating("batch_norm", x)
    running = ("running_mean", running_mean), ("running_var", running_var)
    weight, bias, *_ = _channels("batch_norm", x, ("weight", weight), ("bias", bias), *running)
    if not training:
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    if x.size == x.shape[1]:
        raise ValueError(
            f"batch_norm: training=True needs more than one value for each channel; x has shape "
            f"{x.shape}. Use a larger batch, or training=False"
        )
    axis = (0, *range(2, x.ndim))
    return standardize(
        x, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim), axis=axis, eps=eps,
        running=_running(running_mean, running_var, momentum),
    )  # fmt: skip


def _running(mean: Any, var: Any, momentum: float) -> tuple | None:
    """The arrays to move in place."""
    return None if mean is None or var is None else (raw(mean), raw(var), momentum)


def _by_running(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """One product and one sum an element, with scale = weight/√(var + eps)."""
    if mean is None or var is None:
        raise ValueError(
            "batch_norm: training=False takes its statistics from running_mean and running_var; "
            "give both"
        )
    mean, var = array_like(raw(mean)), array_like(raw(var))
    scale = 1 / np.sqrt(var + eps)
    scale = scale if weight is None else weight * scale
    shift = -mean * scale if bias is None else bias - mean * scale
    y = x * _by_channel(scale, x.ndim) + _by_channel(shift, x.ndim)
    return op.astype(y, dtype=x.dtype)


@composite
def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias for each example and channel, over space

    x (N, C, ...), weight and bias (C,). Running statistics move towards the average over the batch;
    with use_input_stats=False they are used, as in batch_norm. Ulyanov et al. 2016.
    """
    x = _floating("instance_norm", x)
    running = ("running_mean", running_mean), ("running_var", running_var)
    weight, bias, *_ = _channels("instance_norm", x, ("weight", weight), ("bias", bias), *running)
    if not use_input_stats:
        return _by_running(x, running_mean, running_var, weight, bias, eps)
    if prod(x.shape[2:]) == 1:
        raise ValueError(
            f"instance_norm needs more than one place for each channel; x has shape {x.shape}, "
            f"of which {x.shape[2:]} is space"
        )
    return standardize(
        x, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim), axis=tuple(range(2, x.ndim)),
        eps=eps, running=_running(running_mean, running_var, momentum),
    )  # fmt: skip


@composite
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias over each group of channels and space

    x (N, C, ...), weight and bias (C,); num_groups must divide C. Wu and He 2018.
    """
    x = _floating("group_norm", x)
    weight, bias = _channels("group_norm", x, ("weight", weight), ("bias", bias))
    n, channels, *space = x.shape
    if num_groups < 1 or channels % num_groups:
        raise ValueError(
            f"group_norm: num_groups={num_groups} must divide the {channels} channels (axis 1 of "
            f"x {x.shape})"
        )
    grouped = (num_groups, channels // num_groups, prod(space))
    weight, bias = (
        None if w is None else op.reshape(w, shape=(*grouped[:2], 1)) for w in (weight, bias)
    )
    parts = op.reshape(x, shape=(n, *grouped))
    y = standardize(parts, weight, bias, axis=(2, 3), eps=eps)
    return op.reshape(y, shape=x.shape)
