"""Cross entropy of a linear map's results.

The logits z = x wᵀ + b of N samples and C classes are by far the largest array of a language model.
For 4,096 samples and a vocabulary of 50,000 they take 800 MB, their gradient as much again. The
table's form holds them; fast/loss/linear_classes.py makes them block by block.
"""

from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, common_dtype
from ...engine.primitive import primitive
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, plus, widen
from ..batching import apart, each_in_turn, full, merged
from ..softmax import NEARLY_ALL
from .classes import cross_entropy, cross_entropy_dx_ga, losses_of, shares_of, targets_of
from .reduction import check_reduction

__all__ = ["linear_cross_entropy"]


def check(x: Any, w: Any, index: Any, b: Any) -> None:
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f"x must be (N, n) and w (C, n); got {x.shape} and {w.shape}")
    if index.shape != x.shape[:1] or (b is not None and b.shape != w.shape[:1]):
        given = f"index {index.shape}" + ("" if b is None else f", b {b.shape}")
        raise ValueError(f"index must be (N,) and b (C,) beside x {x.shape}, w {w.shape}: {given}")


def _logits(x: Any, w: Any, b: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """(x wᵀ + b, x, w), computed in this dtype."""
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    z = x @ w.T
    return (z if b is None else z + b.astype(dtype, copy=False)), x, w


@primitive(arrays="x w index b", constants=["index"], outputs=2)
def linear_nll(x, w, index, b: Any = None):
    """(y, lse): y_n = lse_n − z_n,index, lse_n = log Σ_c exp z_nc, of the logits z = x wᵀ + b

    x (N, n), w (C, n), index (N,), b (C,) or None. Gradients: see linear_nll_grads. 16-bit floats
    are computed in float32, and the results stay there. This form holds all logits; that of
    fast/loss/linear_classes.py never does.
    """
    check(x, w, index, b)
    dtype = common_dtype(*[a for a in (x, w, b) if a is not None])
    z, *_ = _logits(x, w, b, accumulator(dtype) or dtype)
    y, lse = losses_of(z, index[:, None])
    return y[:, 0], lse[:, 0]


@linear_nll.vjp
def linear_nll_gradients(g, y, x, w, index, b, needs):
    a, d = (np.zeros_like(y[1]) if v is None else v for v in reversed(g))
    wanted = (needs[0], needs[1], needs[3])
    gx, gw, gb = linear_nll_grads(a, d, x, w, index, y[1], b, wanted=wanted)
    return [v if has else None for v, has in zip((gx, gw, None, gb), needs, strict=True)]


@primitive(arrays="a d x w index lse b", constants=["index", "lse"], outputs=3)
def linear_nll_grads(a, d, x, w, index, lse, b: Any = None, *, wanted=(True, True, True)):
    """(G w, Gᵀ x, Σ_n G), G_nc = a_n p_nc + d_n (p_nc − [c = index_n]), p = exp(z − lse)

    a and d (N,): the cotangents of lse and of y. A result that is not `wanted` is empty. p − 1 near
    0 is minus the sum of the other p. The residual lse saves a pass. The rules see p as the
    function softmax(x wᵀ + b), and hold all logits: derivatives of every order follow from theirs.
    """
    check(x, w, index, b)
    dtypes = x.dtype, w.dtype, w.dtype if b is None else b.dtype
    z, x, w = _logits(x, w, b, lse.dtype)
    a, d, lse, index = (v[:, None] for v in (a, d, lse, index))
    p = shares_of(z, lse)
    near, g = np.take_along_axis(p, index, 1) > NEARLY_ALL, (a + d) * p
    picked = np.take_along_axis(g, index, 1) - d
    np.put_along_axis(g, index, 0, 1)
    others = g.sum(1, keepdims=True)
    np.put_along_axis(g, index, np.where(near, a - others, picked), 1)
    g = np.where((a == 0) & (d == 0), 0, g)  # 0, for any x there
    none = np.zeros_like(g, shape=0)
    gx = g @ w if wanted[0] else none
    gw = g.T @ x if wanted[1] else none
    gb = g.sum(0) if wanted[2] else none
    return tuple(
        [v.astype(dtype, copy=False) for v, dtype in zip((gx, gw, gb), dtypes, strict=True)]
    )


@linear_nll_grads.vjp
def linear_nll_grads_rule(g, a, d, x, w, index, lse, b, wanted, needs):
    """With D the cotangent of G, (g₁ wᵀ + x g₂ᵀ + g₃): ga = Σ_c p D, gd = Σ_c p (D − D_index), and
    of the logits E = (a + d) p (D − Σ p D), which like G goes on to x, w and b.
    """
    gx, gw, gb = (v if wants else None for v, wants in zip(g, wanted, strict=True))
    place = index.reshape((-1, 1))
    z = op.linear(x, w, b)
    p = op.softmax(z, axis=1)
    of_x = None if gx is None else op.matmul(gx, w.T)
    of_w = None if gw is None else op.matmul(x, gw.T)
    both = op.broadcast_to(plus(plus(of_x, of_w), gb), shape=p.shape)
    of_g = op.expand_dims(a, axis=1) * p + op.cross_entropy_dx(
        d, z, op.expand_dims(lse, axis=1), place
    )
    e = op.softmax_dx(op.expand_dims(a + d, axis=1) * both, p, axis=1)
    found = [
        op.sum(p * both, axis=1),
        cross_entropy_dx_ga(both, z, place),
        plus(op.matmul(e, w), None if gw is None else op.matmul(of_g, gw)),
        plus(op.matmul(e.T, x), None if gx is None else op.matmul(of_g.T, gx)),
        None,
        None,
        op.sum(e, axis=0),
    ]
    return [v if has else None for v, has in zip(found, needs, strict=True)]


@linear_nll.batch
def linear_nll_batch(op_, xs, batched, params):
    """The examples are more samples of one map; with different maps each takes a call."""
    x, w, index, b = xs
    if batched[1] or batched[3]:
        return each_in_turn(op_, xs, batched, params)
    x, index = full([x, index], [batched[0], batched[2]])
    return tuple([apart(y, x.shape[:2]) for y in op_(merged(x), w, merged(index), b)])


linear_nll_grads.batch(each_in_turn)


# -- what users call -------------------------------------------------------------------------


@composite
@in_float32
@on_its_gpu
def linear_cross_entropy(
    x: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:  # fmt: skip
    """y = cross_entropy(x wᵀ + b, target), without all logits x wᵀ + b in memory

    x (N, n) or (n,), w = linear_weight (C, n), b = linear_bias (C,) or None. target: class indices
    (N,); for these the logits are made block by block, in the backward once more (in plain mode,
    without minigrad/fast, as a whole). Of probabilities (N, C), or of several maps at once,
    w (C, d₁, …, n) and b (C, d₁, …) with targets (N, d₁, …), they are made as a whole, and so they
    are for derivatives of second order. weight, reduction and
    label_smoothing as in cross_entropy; ignore_index: None for −100, and not with probabilities.
    options, which choose PyTorch's blocks, have no effect.
    """
    name = "linear_cross_entropy"
    if isinstance(options, bool | int | float | complex | str):
        raise TypeError(f"{name}: options are PyTorch's LinearCrossEntropyOptions, got {options!r}")
    x, w, target = array_like(x), array_like(linear_weight), array_like(target)
    b = None if linear_bias is None else array_like(linear_bias)
    _check_arguments(x, w, b, reduction, label_smoothing)
    if x.ndim == 1:  # one sample
        y = linear_cross_entropy(
            x.reshape((1, -1)), w, target.reshape((1, *target.shape)), linear_bias=b,
            weight=weight, reduction=reduction, ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return y.reshape(()) if reduction == "none" else y
    indices = target.dtype.kind in "iub"
    if not indices and ignore_index is not None:
        raise ValueError(
            f"{name}: ignore_index={ignore_index} is for class indices, and the target holds "
            f"probabilities ({target.dtype} {target.shape}); leave those samples out"
        )
    ignored = -100 if ignore_index is None else ignore_index
    if not indices or w.ndim > 2 or not target.size:
        z = op.linear(x, w.reshape((-1, w.shape[-1])), None if b is None else b.reshape(-1))
        z = z.reshape((x.shape[0], *w.shape[:-1]))
        return cross_entropy(z, target, weight, ignored, reduction, label_smoothing)
    weight = None if weight is None else array_like(weight)
    dtype = common_dtype(*[a.dtype for a in (x, w, b) if a is not None])
    logits = {"shape": (x.shape[0], w.shape[0]), "dtype": dtype, "scores": "the logits"}
    index, kept, scale = targets_of(name, x, target, weight, ignored, reduction, **logits)
    if label_smoothing:
        x = op.where(op.expand_dims(kept, axis=1) == 0, 0, x)  # an ignored sample may hold NaN
    y, lse = linear_nll(x, w, index.reshape(-1), b)
    y = op.where(scale == 0, 0, y) * ((1 - label_smoothing) * scale)
    if label_smoothing:
        y = y + (label_smoothing / w.shape[0]) * kept * _over_all_classes(x, w, b, weight, lse)
    y = op.where(index.reshape(-1) < 0, np.nan, y)
    y = y if reduction == "none" else op.sum(y)
    return op.astype(y, dtype=dtype, copy=False)


def _over_all_classes(x: Any, w: Any, b: Any, weight: Any, lse: Any) -> Any:
    """Σ_c v_c (lse_n − z_nc) with the classes' weights v, or 1: Σ v z is a sum over features."""

    def total(a: Any) -> Any:
        a = widen(a)
        return op.sum(a, axis=0) if weight is None else op.matmul(widen(weight), a)

    level = op.matmul(widen(x), total(w))
    level = level if b is None else level + total(b)
    return (w.shape[0] if weight is None else op.sum(widen(weight))) * lse - level


def _check_arguments(x: Any, w: Any, b: Any, reduction: str, smoothing: float) -> None:
    name = "linear_cross_entropy"
    check_reduction(name, reduction)
    if not 0 <= smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be from 0 to 1, got {smoothing}")
    if x.ndim not in (1, 2) or w.ndim < 2 or x.shape[-1] != w.shape[-1]:
        raise ValueError(
            f"{name}: x must be (N, n) or (n,) and linear_weight (C, n), or (C, …, n), with the "
            f"same n; got {x.shape} and {w.shape}"
        )
    if x.ndim == 1 and w.ndim > 2:
        raise ValueError(f"{name}: several maps {w.shape} need a batch x (N, n), got {x.shape}")
    if b is not None and b.shape != w.shape[:-1]:
        raise ValueError(f"{name}: linear_bias must have shape {w.shape[:-1]}, got {b.shape}")
    for argument, a in (("x", x), ("linear_weight", w), ("linear_bias", b)):
        if a is not None and a.dtype.kind in "biuc":
            raise ValueError(f"{name}: {argument} must hold real floats, got {a.dtype} {a.shape}")
