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
from .reduction import check_reduction

__all__ = ["cross_entropy", "nll"]


def _targets(x_shape, dtype, target, weight, ignore_index, reduction):
    """(index, kept, scale): which class a sample picks, and what its loss is multiplied by.

    index (N, 1, ...), 0 for ignored samples; kept (N, ...), 0 for these and 1 for the others;
    scale, kept times the target's weight. For the mean, both are divided by the sum of scale.
    """
    if target.shape != (*x_shape[:1], *x_shape[2:]):
        raise ValueError(
            f"target must have shape {(*x_shape[:1], *x_shape[2:])}, one class index for each "
            f"sample of x {tuple(x_shape)} (classes along axis 1); got {target.shape}"
        )
    classes = x_shape[1]
    chosen = target != ignore_index
    index = np.where(chosen, target, 0).astype(np.intp, copy=False)
    if index.size and not (0 <= index.min() and index.max() < classes):
        raise ValueError(
            f"target has indices from {index.min()} to {index.max()}, but x {tuple(x_shape)} has "
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


def _total(y, reduction, dtype):
    """The scaled losses, added up unless one for each sample is wanted."""
    return (y if reduction == "none" else y.sum()).astype(dtype, copy=False)


@primitive(
    arrays="x target weight",
    constants=["target", "weight"],
    residuals=["lse", "index", "scale"],
)
def cross_entropy_index(x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    """y = Σ_n scale_n (log Σ_c exp x_nc − x_n,target) ;  gx = g scale (softmax x − onehot target)

    x (N, C, ...), target (N, ...). An ignored sample has gradient 0, whatever x holds.
    """
    index, _, scale = _targets(x.shape, x.dtype, target, weight, ignore_index, reduction)
    wide = x.astype(scale.dtype, copy=False)
    top = wide.max(1, keepdims=True)
    e = wide - top
    picked = np.take_along_axis(e, index, 1)
    lse = np.log(np.exp(e, out=e).sum(1, keepdims=True))
    y = np.where(scale == 0, 0, (lse - picked)[:, 0] * scale)
    return _total(y, reduction, x.dtype), lse + top, index, scale


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


@primitive(arrays="x target weight", constants=["target", "weight"], residuals=["index", "scale"])
def nll_index(x, target, weight=None, *, ignore_index=-100, reduction="mean"):
    """y = −Σ_n scale_n x_n,target ;  gx = −g scale onehot target ;  x (N, C, ...)"""
    index, _, scale = _targets(x.shape, x.dtype, target, weight, ignore_index, reduction)
    y = np.where(scale == 0, 0, -np.take_along_axis(x, index, 1)[:, 0] * scale)
    return _total(y, reduction, x.dtype), index, scale


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


def _merged(x):
    """(B, N, ...) as (B N, ...)."""
    return op.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _rowwise(op_, xs, batched, params):
    """Ops that treat every sample alike: the examples are more samples."""
    xs = full(xs, batched)
    y = op_(*map(_merged, xs), **params)
    return op.reshape(y, shape=(*xs[0].shape[:2], *y.shape[1:]))


for _op in (cross_entropy_dx, nll_pick, nll_spread):
    _op.batch(_rowwise)


@cross_entropy_index.batch
@nll_index.batch
def class_loss_batch(op_, xs, batched, params):
    """One loss for each sample of all examples; then what `reduction` asks, example by example."""
    x, target, *weight = xs
    if weight and weight[0] is not None:
        if batched[2]:
            raise TransformError(f"{op_.name}: vmap takes one weight for all examples")
    x, target = full([x, target], batched[:2])
    each = {**params, "reduction": "none"}
    y = op_(_merged(x), _merged(target), *weight, **each)
    y = op.reshape(y, shape=(*x.shape[:2], *y.shape[1:]))
    if params["reduction"] == "none":
        return y
    axes = tuple(range(1, y.ndim))
    total = op.sum(y, axis=axes)
    if params["reduction"] == "sum":
        return total
    kept = op.not_equal(target, params["ignore_index"])
    scale = op.astype(kept, dtype=y.dtype)
    if weight and weight[0] is not None:
        scale = scale * op.take(weight[0], op.where(kept, target, 0))
    return total / op.sum(scale, axis=axes)


@primitive(arrays="target weight", differentiable=False)
def smoothed_targets(
    target, weight=None, *, shape=(), dtype=None, ignore_index=-100, reduction="mean", smoothing=0.0
):
    """q (N, C, ...): (1 − ε) scale at the target, plus ε/C times each class's weight everywhere."""
    index, kept, scale = _targets(shape, dtype, target, weight, ignore_index, reduction)
    per_class = (
        scale.dtype.type(1) if weight is None else weight.reshape((1, -1, *(1,) * (len(shape) - 2)))
    )
    q = kept[:, None] * np.broadcast_to(per_class, shape) * (smoothing / shape[1])
    picked = np.take_along_axis(q, index, 1) + (1 - smoothing) * scale[:, None]
    np.put_along_axis(q, index, picked, 1)
    return q


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
    indices = target.dtype.kind in "iub"
    rules = {"ignore_index": ignore_index, "reduction": reduction}
    if indices and label_smoothing == 0:
        return cross_entropy_index(x, target, weight, **rules)
    count = 1
    if indices:
        q = smoothed_targets(
            target, weight, shape=x.shape, dtype=x.dtype, smoothing=label_smoothing, **rules
        )
    elif target.shape != x.shape:
        raise ValueError(
            f"cross_entropy: target must hold class indices, or probabilities of x's shape "
            f"{x.shape}; got {target.dtype} {target.shape}"
        )
    else:
        count = x.size // x.shape[1] if reduction == "mean" else 1
        q = (
            target
            if label_smoothing == 0
            else target * (1 - label_smoothing) + (label_smoothing / x.shape[1])
        )
        q = q if weight is None else q * weight.reshape((-1, *(1,) * (x.ndim - 2)))
    y = -op.sum(op.log_softmax(x, axis=1) * q, axis=1)
    y = y if reduction == "none" else op.sum(y)
    return op.astype(y if count == 1 else y / count, dtype=x.dtype)


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
        x, target = x.reshape((1, -1)), target.reshape((1,))
        y = nll(x, target, weight, ignore_index, reduction)
        return y.reshape(()) if reduction == "none" else y
    return nll_index(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def _maybe(x: Any) -> Any:
    return None if x is None else array_like(x)
