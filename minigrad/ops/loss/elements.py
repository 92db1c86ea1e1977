"""Losses of one number or one vector a sample, as compositions that are accurate at their ends."""

from typing import Any

import numpy as np

from ...core.primitive import composite, elementwise
from ...core.registry import op
from ..axes import array_like
from .reduction import reduced

__all__ = [
    "bce", "bce_with_logits", "cosine_embedding", "hinge", "huber", "kl_div", "l1", "mse",
    "triplet",
]  # fmt: skip


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
    return reduced("mse", op.square(_difference("mse", x, target)), reduction)


@composite
def l1(x: Any, target: Any, reduction: str = "mean") -> Any:
    """y = |x − target|, of gradient 0 where they are equal."""
    return reduced("l1", op.abs(_difference("l1", x, target)), reduction)


@composite
def huber(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """y = d²/2 for |d| ≤ delta, else delta (|d| − delta/2), with d = x − target."""
    d = _difference("huber", x, target)
    size = op.abs(d)
    y = op.where(size <= delta, op.square(d) * 0.5, (size - 0.5 * delta) * delta)
    return reduced("huber", y, reduction)


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
    return reduced("bce", y if weight is None else y * weight, reduction)


@composite
def bce_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """y = pos_weight t softplus(−x) + (1 − t) softplus(x): bce of sigmoid(x), without overflow."""
    x, target = array_like(x), array_like(target)
    positive = target if pos_weight is None else target * pos_weight
    y = positive * op.softplus(-x) + (1 - target) * op.softplus(x)
    return reduced("bce_with_logits", y if weight is None else y * weight, reduction)


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
    return reduced("kl_div", y, reduction)


# -- margins ---------------------------------------------------------------------------------


@composite
def hinge(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """y = max(0, margin − target x) for targets ±1, of gradient 0 at the kink."""
    x, target = array_like(x), array_like(target)
    if target.dtype.kind in "iub":  # whole numbers would promote a float32 x
        target = op.astype(target, dtype=x.dtype)
    return reduced("hinge", op.relu(margin - target * x), reduction)


@composite
def cosine_embedding(
    a: Any, b: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """y = 1 − cos(a, b) where target is 1, max(0, cos(a, b) − margin) where it is −1.

    a, b (N, D) or (D,), target (N,) or (): cosines along the last axis, with 1e-12 added to the
    squared lengths.
    """
    a, b, target = array_like(a), array_like(b), array_like(target)
    if not (a.ndim and b.ndim):
        raise ValueError(
            f"cosine_embedding: needs vectors along the last axis, got a {a.shape}, b {b.shape}"
        )
    eps = 1e-12
    lengths = (op.sum(a * a, axis=-1) + eps) * (op.sum(b * b, axis=-1) + eps)
    cosine = op.sum(a * b, axis=-1) / op.sqrt(lengths)
    y = op.where(target == 1, 1 - cosine, op.relu(cosine - margin))
    return reduced("cosine_embedding", y, reduction)


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
    return reduced("triplet", y, reduction)
