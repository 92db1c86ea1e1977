"""Losses. Each takes `reduction`: 'mean' (the default), 'sum', or 'none' for one loss an element.

Cross entropy on class indices and nll are fused primitives: their gradient is one pass over the
logits, with no one-hot array. The others are compositions, written to be accurate at their ends.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator
from ..core.primitive import composite, elementwise, linear, primitive
from ..core.registry import op
from .axes import array_like


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _reduced(name: str, y: Any, reduction: str) -> Any:
    """The losses y, or their mean or sum."""
    _check_reduction(name, reduction)
    return y if reduction == "none" else op.mean(y) if reduction == "mean" else op.sum(y)


# -- classification --------------------------------------------------------------------------


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
    _check_reduction("cross_entropy", reduction)
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
    _check_reduction("nll", reduction)
    if x.ndim == 1:
        x, target = x.reshape((1, -1)), target.reshape((1,))
        y = nll(x, target, weight, ignore_index, reduction)
        return y.reshape(()) if reduction == "none" else y
    return nll_index(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def _maybe(x: Any) -> Any:
    return None if x is None else array_like(x)


# -- regression ------------------------------------------------------------------------------


def _difference(name: str, x: Any, target: Any) -> Any:
    """x − target, of one shape: a silent broadcast would make every pair an element."""
    x, target = array_like(x), array_like(target)
    if x.shape != target.shape:
        raise ValueError(
            f"{name}: x {x.shape} and target {target.shape} must have the same shape; reshape one "
            "of them (a (n, 1) prediction and a (n,) target would broadcast to (n, n))"
        )
    return x - target


@composite
def mse(x: Any, target: Any, reduction: str = "mean") -> Any:
    """y = (x − target)²"""
    return _reduced("mse", op.square(_difference("mse", x, target)), reduction)


@composite
def l1(x: Any, target: Any, reduction: str = "mean") -> Any:
    """y = |x − target|, of gradient 0 where they are equal."""
    return _reduced("l1", op.abs(_difference("l1", x, target)), reduction)


@composite
def huber(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """y = d²/2 for |d| ≤ delta, else delta (|d| − delta/2), with d = x − target."""
    d = _difference("huber", x, target)
    size = op.abs(d)
    y = op.where(size <= delta, op.square(d) * 0.5, (size - 0.5 * delta) * delta)
    return _reduced("huber", y, reduction)


# -- binary and probabilistic ----------------------------------------------------------------


def _bce_values(p, t):
    """The logarithms are not let below −100, as in PyTorch, so that a loss is never infinite."""
    with np.errstate(divide="ignore"):
        return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))


bce_terms = elementwise(
    _bce_values,
    name="bce_terms",
    dp=lambda p, t: (p - t) / op.maximum(p * (1 - p), 1e-12),
    dt=lambda p: op.maximum(op.log1p(-p), -100) - op.maximum(op.log(p), -100),
    doc="y = −t log p − (1 − t) log(1 − p) ;  dy/dp = (p − t) / (p (1 − p))",
)


@composite
def bce(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """y = −t log x − (1 − t) log(1 − x) for probabilities x; the logarithms end at −100.

    For logits use bce_with_logits, which loses nothing near 0 and 1.
    """
    y = bce_terms(array_like(x), array_like(target))
    return _reduced("bce", y if weight is None else y * weight, reduction)


@composite
def bce_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """y = pos_weight t softplus(−x) + (1 − t) softplus(x): bce of sigmoid(x), without overflow."""
    x, target = array_like(x), array_like(target)
    positive = target if pos_weight is None else target * pos_weight
    y = positive * op.softplus(-x) + (1 - target) * op.softplus(x)
    return _reduced("bce_with_logits", y if weight is None else y * weight, reduction)


@composite
def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """y = t (log t − x) for log-probabilities x; 'batchmean' divides the sum by x's first length.

    target: probabilities t (0 log 0 = 0), or log t with log_target=True. The mathematical KL
    divergence of a batch is 'batchmean'; 'mean' divides by the number of elements.
    """
    x, target = array_like(x), array_like(target)
    if log_target:
        y = op.exp(target) * (target - x)
    else:
        y = op.xlogy(target, target) - target * x
    if reduction == "batchmean":
        return op.sum(y) / x.shape[0]
    return _reduced("kl_div", y, reduction)


# -- margins ---------------------------------------------------------------------------------


@composite
def hinge(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """y = max(0, margin − target x) for targets ±1, of gradient 0 at the kink."""
    x, target = array_like(x), array_like(target)
    if target.dtype.kind in "iub":  # whole numbers would promote a float32 x
        target = op.astype(target, dtype=x.dtype)
    return _reduced("hinge", op.relu(margin - target * x), reduction)


@composite
def cosine_embedding(
    a: Any, b: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """y = 1 − cos(a, b) where target is 1, max(0, cos(a, b) − margin) where it is −1.

    a, b (N, D) or (D,), target (N,) or (): cosines along the last axis, with 1e-12 added to the
    squared lengths.
    """
    a, b, target = array_like(a), array_like(b), array_like(target)
    if a.ndim == 0:
        raise ValueError("cosine_embedding: needs vectors along the last axis, got a number as a")
    eps = 1e-12
    lengths = (op.sum(a * a, axis=-1) + eps) * (op.sum(b * b, axis=-1) + eps)
    cosine = op.sum(a * b, axis=-1) / op.sqrt(lengths)
    y = op.where(target == 1, 1 - cosine, op.relu(cosine - margin))
    return _reduced("cosine_embedding", y, reduction)


@composite
def triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """y = max(0, ‖anchor − positive‖ − ‖anchor − negative‖ + margin), p-norms over the last axis.

    eps is added to every difference, so that the norm of equal vectors has a gradient.
    """

    def distance(a: Any, b: Any) -> Any:
        d = a - b + eps
        if p == 2:
            return op.sqrt(op.sum(d * d, axis=-1))
        return op.sum(op.abs(d) ** p, axis=-1) ** (1 / p)

    anchor, positive, negative = array_like(anchor), array_like(positive), array_like(negative)
    if anchor.ndim == 0:
        raise ValueError("triplet: needs vectors along the last axis, got a number as anchor")
    y = op.relu(distance(anchor, positive) - distance(anchor, negative) + margin)
    return _reduced("triplet", y, reduction)


__all__ = [
    "bce", "bce_with_logits", "cosine_embedding", "cross_entropy", "hinge", "huber", "kl_div",
    "l1", "mse", "nll", "triplet",
]  # fmt: skip
