"""Losses of one number or one vector a sample, accurate at the ends of their ranges."""

from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype, is_differentiable
from ...engine.primitive import elementwise, primitive
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, as_floating, both_arrays, device_of_any, on_host, widen
from ..elementwise.near_one import log_of_1_plus
from ..elementwise.selection import clip
from ..elementwise.support import at_least_0, at_most_0, with_fractions
from ..elementwise.support import in_float32 as in_single
from ..scaling import is_lost, overflow_ignored, power_of_two
from .reduction import check_real, check_reduction, reduced

__all__ = [
    "bce", "bce_with_logits", "cosine_embedding", "hinge", "huber", "kl_div", "l1", "mse",
    "triplet",
]  # fmt: skip


# -- regression ------------------------------------------------------------------------------


def _difference(name: str, x: Any, target: Any) -> Any:
    """x − target; of integers as floats, since theirs may wrap round: 1 − 3 is 254 in uint8."""
    x, target = _of_one_shape(name, x, target)
    return x - target if is_differentiable(target.dtype) else as_floating(x) - target


def _of_one_shape(name: str, x: Any, target: Any) -> tuple:
    """Both as arrays of one shape: a silent broadcast would make every pair an element."""
    x, target = both_arrays(x, target)
    if x.shape != target.shape:
        raise ValueError(
            f"{name}: x {x.shape} and target {target.shape} must have the same shape; reshape one "
            "of them (a (n, 1) prediction and a (n,) target would broadcast to (n, n))"
        )
    return x, target


@composite
@in_float32
def mse(x: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
    """y = (x − target)² weight; the mean is weighted: it divides by the sum of the weights.

    weight: of x's shape.
    """
    y = op.square(_difference("mse", x, target))
    return _weighted("mse", y, weight, reduction)


@composite
@in_float32
def l1(x: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
    """y = |x − target| weight, of gradient 0 where they are equal; mean and weight as in mse."""
    return _weighted("l1", op.abs(_difference("l1", x, target)), weight, reduction)


def _weighted(name: str, y: Any, weight: Any, reduction: str) -> Any:
    """The losses y by their weights, and their weighted mean, or their sum."""
    if weight is None:
        return reduced(name, y, reduction)
    weight = _weights(name, weight, y)
    check_real(name, y)
    if reduction == "mean":
        return op.average(y, weights=weight)
    return reduced(name, y * weight, reduction)


def _weights(name: str, weight: Any, y: Any) -> Any:
    weight = array_like(weight)
    if weight.shape != y.shape:
        raise ValueError(f"{name}: weight must have x's shape {y.shape}, got {weight.shape}")
    return weight


@primitive(kind="elementwise")
@in_single
def huber_terms(d, delta=1.0):
    """y = d²/2 for |d| ≤ delta, else delta (|d| − delta/2) ;  dy/dd = d, but between ±delta"""
    near = np.clip(d, -delta, delta)
    return (near * -0.5 + d) * near + 0  # no d², which could be out of range


@huber_terms.vjp("d")
def huber_terms_dd(g, d, delta):
    return g * clip(d, -delta, delta)


@composite
@in_float32
def huber(
    x: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """y = d²/2 for |d| ≤ delta, else delta (|d| − delta/2), with d = x − target.

    weight, of x's shape, multiplies each; unlike in mse, the mean divides by their number, as
    PyTorch's does.
    """
    if not delta > 0:
        raise ValueError(f"huber: delta must be positive, got {delta}")
    y = huber_terms(_difference("huber", x, target), delta=delta)
    return reduced("huber", y if weight is None else y * _weights("huber", weight, y), reduction)


# -- binary and probabilistic ----------------------------------------------------------------


def _bce_values(p, t):
    """The logarithms are at least −100, as in PyTorch: a loss is never infinite."""
    p = with_fractions(p)
    with np.errstate(divide="ignore"):
        return -(
            t * np.maximum(np.log(p), -100)
            + (1 - with_fractions(t)) * np.maximum(np.log1p(-p), -100)
        )


def _log_odds(p):
    return op.maximum(op.log1p(-p), -100) - op.maximum(op.log(p), -100)


bce_terms = elementwise(
    _bce_values,
    name="bce_terms",
    dp=lambda p, t: widen(p - t) / op.maximum(widen(p * (1 - p)), 1e-12),
    dt=lambda p: _log_odds(with_fractions(p)),
    doc="y = −t log p − (1 − t) log(1 − p) ;  dy/dp = (p − t) / (p (1 − p))",
)


@composite
@in_float32
def bce(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """y = −t log x − (1 − t) log(1 − x) for probabilities x; the logarithms end at −100.

    For logits use bce_with_logits, which loses nothing near 0 and 1.
    """
    x, target = _of_one_shape("bce", x, target)
    if device_of_any(x) == "cpu":  # elsewhere a look at x would wait for the device
        for argument, hint, seen in (
            ("x", ". For logits there is bce_with_logits", on_host(x)),
            ("target", "", on_host(target)),
        ):
            low, high = (seen.min(), seen.max()) if seen.size else (0, 1)
            # an infinite or NaN input makes such a loss, as in every op
            if not (low >= 0 and high <= 1) and np.isfinite([low, high]).all():
                raise ValueError(
                    f"bce: {argument} must hold probabilities, from 0 to 1; got {low} to "
                    f"{high}{hint}"
                )
    y = bce_terms(x, target)
    return reduced("bce", y if weight is None else y * weight, reduction)


def _logit_values(x, t):
    dtype = common_dtype(x, t)
    x, t = widen(as_floating(x)), widen(t)
    y = (
        (1 - with_fractions(t)) * at_least_0(x)
        - t * at_most_0(x)
        + log_of_1_plus(np.exp(-np.abs(x)))
    )
    return y.astype(dtype, copy=False) if dtype.kind not in "biu" else y


logit_terms = elementwise(
    _logit_values,
    name="logit_terms",
    dx=lambda x, t: (1 - with_fractions(t)) * op.sigmoid(x) - t * op.sigmoid(-x),
    dt=lambda x: -with_fractions(x),
    doc=(
        "y = t softplus(−x) + (1 − t) softplus(x), as softplus x = max(x, 0) + log1p(e^−|x|) ;  "
        "dy/dx = (1 − t) σ(x) − t σ(−x), which is σ(x) − t with all its digits"
    ),
)


@composite
@in_float32
def bce_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """y = pos_weight t softplus(−x) + (1 − t) softplus(x): bce of sigmoid(x), without overflow."""
    x, target = _of_one_shape("bce_with_logits", x, target)
    if pos_weight is None:
        y = logit_terms(x, target)
    else:
        x = as_floating(x)
        y = target * pos_weight * op.softplus(-x) + (1 - with_fractions(target)) * op.softplus(x)
    return reduced("bce_with_logits", y if weight is None else y * weight, reduction)


def _times_log(q, l):
    with np.errstate(invalid="ignore"):
        y = np.multiply(q, l)
    return np.where(q == 0, 0, y).astype(y.dtype, copy=False)  # CuPy's is float32 for bfloat16


times_log = elementwise(
    _times_log,
    name="times_log",
    dq=lambda l: l,
    dl=lambda q: q,
    doc="y = q l for a logarithm l; 0 where q is 0, also where l is −∞ ;  ∂y/∂q = l, ∂y/∂l = q",
)


@composite
@in_float32
def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """y = t (log t − x) for log-probabilities x; 'batchmean' divides the sum by x's first length.

    target: probabilities t (0 log 0 = 0), or log t with log_target=True. The mathematical KL
    divergence of a batch is 'batchmean'; 'mean' divides by the number of elements.
    """
    check_reduction("kl_div", reduction, "batchmean")
    x, target = _of_one_shape("kl_div", x, target)
    if log_target:
        nothing = target == -np.inf
        x, target = op.where(nothing, 0, x), op.where(nothing, 0, target)
        y = op.where(nothing, 0, op.exp(target) * (target - x))
    else:
        y = op.xlogy(target, target) - times_log(target, x)
    if reduction == "batchmean":
        return reduced("kl_div", y, "sum") / (x.shape[0] if x.ndim else 1)
    return reduced("kl_div", y, reduction)


# -- margins ---------------------------------------------------------------------------------


@composite
@in_float32
def hinge(x: Any, target: Any, margin: float = 1.0, reduction: str = "mean") -> Any:
    """y = max(0, margin − target x) for targets ±1, of gradient 0 at the kink."""
    x, target = _of_one_shape("hinge", x, target)
    if target.dtype.kind in "iub":  # integers would promote a float32 x
        target = op.astype(target, dtype=x.dtype)
    return reduced("hinge", op.relu(margin - target * x), reduction)


def _unit(x: Any, eps: float) -> Any:
    """x/√(|x|² + eps) along the last axis."""
    with overflow_ignored():
        square = op.sum(x * x, axis=-1, keepdims=True) + eps
    if not is_lost(square):
        return x / op.sqrt(square)
    unit = power_of_two(x, axis=-1)
    x = x / unit
    return x / op.sqrt(op.sum(x * x, axis=-1, keepdims=True) + eps / unit / unit)


@composite
@in_float32
@on_its_gpu
def cosine_embedding(
    a: Any, b: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """y = 1 − cos(a, b) where target is 1, max(0, cos(a, b) − margin) where it is −1, else 0.

    a, b (N, D) or (D,), target (N,) or (): cosines along the last axis, with 1e-12 added to the
    squared lengths.
    """
    a, b, target = as_floating(array_like(a)), as_floating(array_like(b)), array_like(target)
    if not a.ndim or a.shape != b.shape or target.shape not in (a.shape[:-1], ()):
        raise ValueError(
            f"cosine_embedding: a and b must be vectors (..., D) of one shape, and target have "
            f"their leading axes or none; got a {a.shape}, b {b.shape}, target {target.shape}"
        )
    dtype = common_dtype(a.dtype, b.dtype)
    a, b, eps = widen(a), widen(b), 1e-12  # which 16 bits do not hold
    cosine = op.sum(_unit(a, eps) * _unit(b, eps), axis=-1)
    apart = op.where(target == -1, op.relu(cosine - margin), 0)
    y = op.where(target == 1, 1 - cosine, apart)
    return reduced("cosine_embedding", op.astype(y, dtype=dtype, copy=False), reduction)


@composite
@in_float32
def triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """y = max(0, ‖anchor − positive‖ − ‖anchor − negative‖ + margin), p-norms over the last axis.

    eps is added to every difference: the norm of equal vectors then has a gradient. With swap the
    negative's distance is that to the positive where this is smaller (Balntas et al., 2016).
    """
    if not margin >= 0:
        raise ValueError(f"triplet: margin must be 0 or more, got {margin}")

    def distance(a: Any, b: Any) -> Any:
        return op.vector_norm(a - b + eps, axis=-1, ord=p)

    vectors = [as_floating(array_like(x)) for x in (anchor, positive, negative)]
    shapes = [x.shape for x in vectors]
    if vectors[0].ndim == 0 or len({shape[-1:] for shape in shapes}) > 1:
        raise ValueError(
            f"triplet: needs vectors of one length along the last axis, got shapes {shapes}"
        )
    dtype = common_dtype(*[x.real.dtype for x in vectors])  # distances are real
    a, near, far = (widen(x) for x in vectors)  # 16 bits do not hold eps
    away = distance(a, far)
    if swap:
        away = op.minimum(away, distance(near, far))
    y = op.relu(distance(a, near) - away + margin)
    return reduced("triplet", op.astype(y, dtype=dtype, copy=False), reduction)
