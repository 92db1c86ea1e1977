"""Cross entropy and negative log likelihood, on class indices or on probabilities.

On class indices both are fused primitives: the gradient is one pass over the logits, with no
one-hot array.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import accumulator
from ...core.errors import TransformError
from ...core.primitive import composite, linear, primitive
from ...core.registry import op
from ..axes import array_like
from ..batching import full
from .reduction import check_reduction, reduced

__all__ = ["cross_entropy", "nll"]


@primitive(arrays="target weight", differentiable=False, outputs=3)
def class_targets(
    target, weight=None, *, shape=(), dtype=None, ignore_index=-100, reduction="mean"
):
    """(index, kept, scale): which class a sample of x picks, and what its loss is multiplied by.

    target (N, ...), weight (C,), shape and dtype of x (N, C, ...) -> index (N, 1, ...), 0 for
    ignored samples; kept (N, ...), 0 for these and 1 for the others; scale, kept times the weight
    of the target's class. For the mean, both are divided by the sum of scale.
    """
    classes = shape[1]
    if target.shape != (*shape[:1], *shape[2:]):
        raise ValueError(
            f"target must have shape {(*shape[:1], *shape[2:])}, one class index for each sample "
            f"of x {tuple(shape)} (classes along axis 1); got {target.shape}"
        )
    chosen = target != ignore_index
    index = np.where(chosen, target, 0).astype(np.intp, copy=False)
    if index.size and not (0 <= index.min() and index.max() < classes):
        raise ValueError(
            f"target has indices from {index.min()} to {index.max()}, but x {tuple(shape)} has "
            f"{classes} classes: an index must lie in 0..{classes - 1}, or be "
            f"ignore_index={ignore_index}"
        )
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"weight must have shape ({classes},), got {weight.shape}")
    kept = chosen.astype(accumulator(dtype) or dtype)
    scale = kept if weight is None else kept * weight[index].astype(kept.dtype, copy=False)
    if reduction == "mean":
        total = float(scale.sum()) or np.nan  # no sample left: NaN, as the mean of nothing is
        kept, scale = kept / total, scale / total
    return index[:, None], kept, scale


@primitive(constants=["index", "scale"], residuals=["lse"])
def cross_entropy_index(x, index, scale, *, total=True):
    """y = Σ_n scale_n (log Σ_c exp x_nc − x_n,index) ;  gx = g scale (softmax x − onehot index)

    x (N, C, ...), index and scale as class_targets gives them; with total=False one y a sample,
    in scale's dtype. A sample of scale 0 has loss and gradient 0, whatever x holds.
    """
    wide = x.astype(scale.dtype, copy=False)
    top = wide.max(1, keepdims=True)
    e = wide - top
    picked = np.take_along_axis(e, index, 1)
    lse = np.log(np.exp(e, out=e).sum(1, keepdims=True))
    y = np.where(scale == 0, 0, (lse - picked)[:, 0] * scale)
    return (y.sum() if total else y), lse + top


@cross_entropy_index.vjp("x")
def cross_entropy_index_gx(g, x, lse, index, scale):
    return cross_entropy_dx(g * scale, x, lse, index)


@primitive(constants=["lse", "index"])
def cross_entropy_dx(a, x, lse, index):
    """y = a (p − onehot index), p = exp(x − lse) = softmax x ;  a (N, ...), x (N, C, ...)

    ga = Σ_c p g − g_index ;  gx = a p (g − Σ_c p g). lse is there to save a pass; the rules see p
    as the function softmax x, so higher derivatives are right.
    """
    a = a.reshape((len(a), 1, *a.shape[1:]))
    y = np.subtract(x, lse)
    np.exp(y, out=y)
    np.put_along_axis(y, index, np.take_along_axis(y, index, 1) - 1, 1)
    y = y * a if y.dtype != np.result_type(y, a) else np.multiply(y, a, out=y)
    if not a.all():
        y = np.where(a == 0, 0, y)
    return y.astype(x.dtype, copy=False)


@cross_entropy_dx.vjp("a")
def cross_entropy_dx_ga(g, x, index):
    return op.sum(op.softmax(x, axis=1) * g, axis=1) + nll_pick(g, index)


@cross_entropy_dx.vjp("x")
def cross_entropy_dx_gx(g, a, x):
    p = op.softmax(x, axis=1)
    a = a.reshape((a.shape[0], 1, *a.shape[1:]))
    return a * p * (g - op.sum(p * g, axis=1, keepdims=True))


@linear(constants=["index", "scale"])
def nll_index(x, index, scale, *, total=True):
    """y = −Σ_n scale_n x_n,index ;  gx = −g scale onehot index ;  arguments as those above"""
    y = np.where(scale == 0, 0, -np.take_along_axis(x, index, 1)[:, 0] * scale)
    return y.sum() if total else y


@nll_index.vjp("x")
def nll_index_gx(g, x_shape, index, scale):
    return nll_spread(g * scale, index, classes=x_shape[1])


@linear(constants=["index"])
def nll_pick(x, index):
    """y = −x_index: x (N, C, ...), index (N, 1, ...) -> y (N, ...)."""
    return -np.take_along_axis(x, index, 1)[:, 0]


@nll_pick.vjp("x")
def nll_pick_gx(g, index, x_shape):
    return nll_spread(g, index, classes=x_shape[1])


@linear(constants=["index"])
def nll_spread(a, index, *, classes=0):
    """y = −a at index, 0 elsewhere: a (N, ...), index (N, 1, ...) -> y (N, classes, ...)."""
    y = array_module(a).zeros((len(a), classes, *a.shape[1:]), dtype=a.dtype)
    np.put_along_axis(y, index, -a[:, None], 1)
    return y


@nll_spread.vjp("a")
def nll_spread_ga(g, index):
    return nll_pick(g, index)


@primitive(arrays="index kept scale weight", differentiable=False)
def smoothed_targets(index, kept, scale, weight=None, *, classes=0, smoothing=0.0):
    """q (N, C, ...): (1 − ε) scale at the index, plus ε/C times each class's weight everywhere."""
    shape = (len(kept), classes, *kept.shape[1:])
    per_class = (
        scale.dtype.type(1) if weight is None else weight.reshape((-1, *(1,) * (kept.ndim - 1)))
    )
    q = kept[:, None] * np.broadcast_to(per_class, shape) * (smoothing / classes)
    picked = np.take_along_axis(q, index, 1) + (1 - smoothing) * scale[:, None]
    np.put_along_axis(q, index, picked, 1)
    return q


# -- batch rules: the examples are more samples ------------------------------------------------


def _merged(x):
    """(B, N, ...) as (B N, ...)."""
    return op.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _apart(y, like):
    """(B N, ...) as (B, N, ...)."""
    return op.reshape(y, shape=(*like.shape[:2], *y.shape[1:]))


def _samplewise(op_, xs, batched, params):
    """Ops that treat every sample alike."""
    xs = full(xs, batched)
    return _apart(op_(*map(_merged, xs), **params), xs[0])


def _totals(op_, xs, batched, params):
    """The same, with the losses added up for each example; a residual may come along."""
    xs = full(xs, batched)
    ys = op_(*map(_merged, xs), total=False)
    y, *residuals = [_apart(y, xs[0]) for y in (ys if isinstance(ys, tuple) else (ys,))]
    if params["total"]:
        y = op.sum(y, axis=tuple(range(1, y.ndim)))
    return (y, *residuals) if residuals else y


for _op in (cross_entropy_dx, nll_pick, nll_spread):
    _op.batch(_samplewise)
for _op in (cross_entropy_index, nll_index):
    _op.batch(_totals)


@class_targets.batch
def class_targets_batch(op_, xs, batched, params):
    target, *weight = xs
    if any(batched[1:]) or not batched[0]:
        raise TransformError("class weights must be the same for all examples of vmap")
    shape = (target.shape[0] * params["shape"][0], *params["shape"][1:])
    single = {**params, "shape": shape, "reduction": "none"}
    index, kept, scale = (_apart(y, target) for y in op_(_merged(target), *weight, **single))
    if params["reduction"] == "mean":
        total = op.sum(scale, axis=tuple(range(1, scale.ndim)), keepdims=True)
        kept, scale = kept / total, scale / total
    return index, kept, scale


@smoothed_targets.batch
def smoothed_targets_batch(op_, xs, batched, params):
    *samples, weight = (*xs, None)[:4]
    if any(batched[3:]):
        raise TransformError("class weights must be the same for all examples of vmap")
    samples = full(samples, batched[:3])
    return _apart(op_(*map(_merged, samples), weight, **params), samples[0])


# -- what users call -------------------------------------------------------------------------


@composite
def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """y = −Σ_c q_c log softmax(x)_c, where q is the target as a distribution over the classes.

    x (N, C, ...) or (C,): logits. target: class indices (N, ...), or probabilities of x's shape.
    weight (C,) scales each class; label_smoothing ε mixes q with the uniform distribution; indices
    equal to ignore_index count for nothing. 'mean' divides by the sum of the targets' weights (for
    probabilities: by the number of samples). ValueError for an index outside 0..C−1.
    """
    x, target, weight = array_like(x), array_like(target), _maybe(weight)
    check_reduction("cross_entropy", reduction)
    if x.ndim == 1:  # one sample
        x, target = x.reshape((1, -1)), target.reshape((1, *target.shape))
        y = cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing)
        return y.reshape(()) if reduction == "none" else y
    if target.dtype.kind not in "iub":
        return _cross_entropy_of(x, target, weight, reduction, label_smoothing)
    index, kept, scale = class_targets(
        target, weight, shape=x.shape, dtype=x.dtype, ignore_index=ignore_index, reduction=reduction
    )
    total = reduction != "none"
    if label_smoothing == 0:
        y = cross_entropy_index(x, index, scale, total=total)
    else:
        options = {"classes": x.shape[1], "smoothing": label_smoothing}
        q = smoothed_targets(index, kept, scale, weight, **options)
        y = -op.sum(op.log_softmax(x, axis=1) * q, axis=None if total else 1)
    return y if y.dtype == x.dtype else op.astype(y, dtype=x.dtype)


def _cross_entropy_of(x: Any, q: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    """Cross entropy with the probabilities q, in which it is differentiable too."""
    if q.shape != x.shape:
        raise ValueError(
            f"cross_entropy: target must hold class indices, or probabilities of x's shape "
            f"{x.shape}; got {q.dtype} {q.shape}"
        )
    if smoothing != 0:
        q = q * (1 - smoothing) + smoothing / x.shape[1]
    if weight is not None:
        q = q * weight.reshape((-1, *(1,) * (x.ndim - 2)))
    y = -op.sum(op.log_softmax(x, axis=1) * q, axis=1)
    return reduced("cross_entropy", y, reduction)


@composite
def nll(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """y = −weight x[target], the negative log likelihood; x (N, C, ...) or (C,): log-probabilities.

    Arguments as in cross_entropy, which is nll of log_softmax.
    """
    x, target, weight = array_like(x), array_like(target), _maybe(weight)
    check_reduction("nll", reduction)
    if x.ndim == 1:
        x, target = x.reshape((1, -1)), target.reshape((1, *target.shape))
        y = nll(x, target, weight, ignore_index, reduction)
        return y.reshape(()) if reduction == "none" else y
    index, _, scale = class_targets(
        target, weight, shape=x.shape, dtype=x.dtype, ignore_index=ignore_index, reduction=reduction
    )
    y = nll_index(x, index, scale, total=reduction != "none")
    return y if y.dtype == x.dtype else op.astype(y, dtype=x.dtype)


def _maybe(x: Any) -> Any:
    return None if x is None else array_like(x)
