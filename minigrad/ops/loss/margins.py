"""Losses of margins, of several labels and of distributions: compositions of ops.

Each takes `reduction`: 'mean', 'sum', or 'none' for one loss a sample.
"""

from math import log, pi
from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype
from ...engine.graph import raw
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.tensor import Tensor
from ..axes import (
    array_like,
    as_floating,
    both_arrays,
    constant_like,
    constant_of_each,
    floating_together,
    in_wide,
    widen,
)
from .reduction import check_no_pairs, reduced

__all__ = [
    "gaussian_nll", "margin_ranking", "multi_margin", "multilabel_margin",
    "multilabel_soft_margin", "poisson_nll", "soft_margin",
]  # fmt: skip


def _signs(name: str, target: Any, x: Any) -> Any:
    """Targets that broadcast to x's shape, in x's dtype: integers would promote it."""
    x, target = both_arrays(x, target)
    if np.broadcast_shapes(target.shape, x.shape) != x.shape:
        raise ValueError(
            f"{name}: the target {target.shape} does not broadcast to the inputs' shape {x.shape}"
        )
    return op.astype(target, dtype=x.dtype, copy=False)


@composite
@in_float32
def margin_ranking(
    a: Any, b: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """y = max(0, −target (a − b) + margin): target 1 asks for a > b, −1 for b > a."""
    a, b = as_floating(array_like(a)), as_floating(array_like(b))
    check_no_pairs("margin_ranking", a=a, b=b)
    d = a - b
    if d.dtype.kind == "c":
        raise TypeError(f"margin_ranking: complex numbers have no order; got {d.dtype}")
    y = op.relu(margin - _signs("margin_ranking", target, d) * d)
    return reduced("margin_ranking", y, reduction)


@composite
@in_float32
@on_its_gpu
def soft_margin(x: Any, target: Any, reduction: str = "mean") -> Any:
    """y = log(1 + e^(−target x)) for targets ±1, without overflow."""
    x = as_floating(array_like(x))
    y = op.softplus(-_signs("soft_margin", target, x) * x)
    return reduced("soft_margin", y, reduction)


@composite
@in_float32
def multilabel_soft_margin(x: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """y = the mean over the classes (last axis) of bce_with_logits(x, target), targets 0 or 1.

    weight (c,) scales the classes.
    """
    x = as_floating(array_like(x))
    target = _signs("multilabel_soft_margin", target, x)
    y = op.mean(op.bce_with_logits(x, target, weight, reduction="none"), axis=-1)
    return reduced("multilabel_soft_margin", y, reduction)


def _as_rows(name: str, x: Any) -> Any:
    """Scores (n, c) of (n, c) or (c,)."""
    x = as_floating(array_like(x))
    if x.ndim not in (1, 2):
        raise ValueError(f"{name}: x must be scores (n, c) or (c,), got shape {x.shape}")
    return op.reshape(x, shape=(-1, x.shape[-1]))


@composite
@in_float32
@on_its_gpu
def multi_margin(
    x: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """y = Σ_{j≠t} max(0, margin − x_t + x_j)^p / c for scores x (n, c) and class indices t (n,).

    p is 1 or 2; weight (c,) scales a sample by its class.
    """
    rows, t = _as_rows("multi_margin", x), constant_of_each(array_like(target))
    n, c = rows.shape
    if t.size != n or t.ndim > 1 or t.dtype.kind not in "iu":
        raise ValueError(
            f"multi_margin: target must be {n} class indices for x {array_like(x).shape}, got "
            f"{t.dtype} {t.shape}"
        )
    if (raw(t) < 0).any():  # take would count them from the end
        raise ValueError(
            f"multi_margin: target must be class indices from 0 to {c - 1}, got {raw(t).min()}"
        )
    if p not in (1, 2):
        raise ValueError(f"multi_margin: p must be 1 or 2, got {p}")
    t, whole = t.reshape(-1, 1), t.ndim == 1
    excess = op.relu(margin - op.take_along_axis(rows, t, axis=1) + rows) ** p
    if weight is not None:
        weight = array_like(weight)
        if weight.shape != (c,):
            raise ValueError(f"multi_margin: weight must have shape ({c},), got {weight.shape}")
        excess = excess * op.take(weight, t)
    others = op.where(constant_like(np.arange(c), rows) == t, 0, excess)
    y = op.sum(others, axis=1) / c
    return reduced("multi_margin", y if array_like(x).ndim == 2 or whole else y[0], reduction)


@composite
@in_float32
@on_its_gpu
def multilabel_margin(x: Any, target: Any, reduction: str = "mean") -> Any:
    """y = Σ_{t in target, j not in target} max(0, 1 − x_t + x_j) / c for scores x (n, c).

    target (n, c): class indices, as many as a sample has, then −1; later entries do not count.
    """
    rows, t = _as_rows("multilabel_margin", x), constant_of_each(array_like(target))
    n, c = rows.shape
    if t.shape != array_like(x).shape or t.dtype.kind not in "iu":
        raise ValueError(
            f"multilabel_margin: target must be class indices of x's shape {array_like(x).shape}, "
            f"filled with -1; got {t.dtype} {t.shape}"
        )
    if (raw(t) < -1).any():
        raise ValueError(
            f"multilabel_margin: target must be class indices from 0 to {c - 1}, then -1; got "
            f"{raw(t).min()}"
        )
    t = t.reshape(n, c)
    counts = op.cumsum(t < 0, axis=1) == 0  # before the first −1
    named = (t[:, :, None] == constant_like(np.arange(c), rows)) & counts[:, :, None]
    other = ~op.any(named, axis=1)
    scores = op.take_along_axis(rows, op.clip(t, 0, None), axis=1)
    excess = op.relu(1 - scores[:, :, None] + rows[:, None, :])
    y = op.sum(op.where(counts[:, :, None] & other[:, None, :], excess, 0), axis=(1, 2)) / c
    return reduced("multilabel_margin", y if array_like(x).ndim == 2 else y[0], reduction)


# -- likelihoods -------------------------------------------------------------------------------


@composite
@in_float32
@on_its_gpu
def gaussian_nll(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """y = (log v + (x − target)²/v) / 2, v = max(var, eps); full adds log(2π)/2

    var: a number, or an array that broadcasts to x, also (…,) for x (…, d). Below eps the value is
    taken at eps, and the gradient goes to var as if it were not (PyTorch's convention).
    """
    x, var = floating_together(x, var)
    x, target = both_arrays(x, target)
    check_no_pairs("gaussian_nll", x=x, target=target)
    if var.shape == x.shape[:-1] and x.ndim > var.ndim > 0:
        var = op.expand_dims(var, axis=-1)
    if (raw(var) < 0).any():
        raise ValueError("gaussian_nll: var holds negative numbers; give variances")
    held = var.detach() if isinstance(var, Tensor) else var
    v = var + op.maximum(eps - held, 0)
    y = in_wide(lambda x, t, v: 0.5 * (op.log(v) + op.square(x - t) / v), x, target, v)
    return reduced("gaussian_nll", y + 0.5 * log(2 * pi) if full else y, reduction)


@composite
@in_float32
def poisson_nll(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """y = e^x − target x for a log-rate x; log_input=False: y = x − target log(x + eps) for a rate

    full adds Stirling's target log target − target + log(2π target)/2 for targets above 1.
    """
    x, target = both_arrays(x, target)
    check_no_pairs("poisson_nll", x=x, target=target)
    x = as_floating(x)
    dtype = common_dtype(x.dtype, target.dtype)
    x, target = widen(x), widen(target)  # 16 bits do not hold eps
    y = op.exp(x) - target * x if log_input else x - target * op.log(x + eps)
    if full:
        whole = target.dtype.kind in "biu"  # the logarithm of a uint8 would be a float16
        large = op.where(target > 1, target.astype(x.dtype) if whole else target, 1)
        rest = large * op.log(large) - large + 0.5 * op.log(2 * pi * large)
        y = y + op.where(target > 1, rest, 0)
    return reduced("poisson_nll", op.astype(y, dtype=dtype, copy=False), reduction)
