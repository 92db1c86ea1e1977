"""Cross entropy and negative log likelihood, on class indices or on probabilities.

On class indices both are primitives: the gradient is made of the logits, with no one-hot array.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import refuse_gradient
from ...engine import modes
from ...engine.errors import describe
from ...engine.primitive import linear, primitive
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.tensor import Tensor
from ..axes import array_like, module_of
from ..batching import apart, full, merged
from ..elementwise.selection import keep
from ..softmax import NEARLY_ALL, less_the_largest, softmax_dx
from .reduction import check_reduction, reduced
from .targets import check_weight, class_targets, smoothed_targets

__all__ = ["cross_entropy", "nll"]


@primitive(constants=["index", "scale"], residuals=["lse"])
def cross_entropy_index(x, index, scale, *, total=True):
    """y = Σ_n scale_n (log Σ_c exp x_nc − x_n,index) ;  gx = g scale (softmax x − onehot index)

    x (N, C, ...), index and scale as class_targets gives them; with total=False one y a sample,
    in scale's dtype. A sample of scale 0 has loss and gradient 0, for any x; at index −1 the loss
    is NaN.
    """
    losses, lse = losses_of(x.astype(scale.dtype, copy=False), index)
    y = counted(losses[:, 0] * scale, index, scale)
    return (y.sum() if total else y), lse


def losses_of(x: Any, index: Any) -> tuple[Any, Any]:
    """(lse − x_n,index, lse), (N, 1, ...) both, lse = log Σ_c exp x_nc."""
    z, top, _ = less_the_largest(x, (1,))
    log = np.log(np.exp(z).sum(1, keepdims=True))
    return log - np.take_along_axis(z, index, 1), log + top


def counted(y: Any, index: Any, scale: Any) -> Any:
    """The losses y, but 0 for samples of scale 0, and NaN where the mean is that of no sample."""
    return np.where(index[:, 0] < 0, np.nan, np.where(scale == 0, 0, y))


@cross_entropy_index.vjp("x")
def cross_entropy_index_gx(g, x, lse, index, scale):
    return cross_entropy_dx(g * scale, x, lse, index)


@primitive(constants=["lse", "index"])
def cross_entropy_dx(a, x, lse, index):
    """y = a (p − onehot index), p = exp(x − lse) = softmax x ;  a (N, ...), x (N, C, ...)

    p − 1 near 0 is minus the sum of the other p. ga = Σ_c p g − g_index ;  gx = a p (g − Σ_c p g).
    lse is there to save a pass; the rules see p as the function softmax x, so higher derivatives
    are right.
    """
    a = a.reshape((len(a), 1, *a.shape[1:]))
    y = shares_of(x, lse)
    picked = np.take_along_axis(y, index, 1)
    np.put_along_axis(y, index, 0, 1)
    others = y.sum(1, keepdims=True)
    np.put_along_axis(y, index, np.where(picked > NEARLY_ALL, -others, picked - 1), 1)
    return np.where(a == 0, 0, a * y).astype(x.dtype, copy=False)  # 0, for any x there


def shares_of(x: Any, lse: Any) -> Any:
    """exp(x − lse); where lse is +∞, the logits that are so share alike."""
    infinite, endless = x == np.inf, lse == np.inf
    count = infinite.sum(1, keepdims=True)
    p = np.exp(x - np.where(endless, 0, lse))
    return np.where(endless, infinite / np.where(endless, count, 1), p).astype(p.dtype)


@cross_entropy_dx.vjp("a")
def cross_entropy_dx_ga(g, x, index):
    # Σ over the others of p (g − g_index): p − 1 has no digits where p is near 1
    g = g + op.expand_dims(nll_pick(g, index), axis=1)
    classes = module_of(x).arange(x.shape[1]).reshape((-1, *(1,) * (x.ndim - 2)))
    return op.sum(keep(op.softmax(x, axis=1), classes != index) * g, axis=1)


@cross_entropy_dx.vjp("x")
def cross_entropy_dx_gx(g, a, x):
    a = a.reshape((a.shape[0], 1, *a.shape[1:]))
    return softmax_dx(a * g, op.softmax(x, axis=1), axis=1)


@primitive(constants=["index", "scale"])
def nll_index(x, index, scale, *, total=True):
    """y = −Σ_n scale_n x_n,index ;  gx = −g scale onehot index

    Arguments as in cross_entropy_index; x are log-probabilities.
    """
    y = counted(-np.take_along_axis(x, index, 1)[:, 0] * scale, index, scale)
    return y.sum() if total else y


@nll_index.vjp("x")
def nll_index_gx(g, x_shape, index, scale):
    return nll_spread(g * scale, index, classes=x_shape[1])


@linear(constants=["index"])
def nll_pick(x, index):
    """y = −x_index: x (N, C, ...), index (N, 1, ...) -> y (N, ...)."""
    if index.shape != (len(x), 1, *x.shape[2:]):
        raise ValueError(f"index must be (N, 1, ...) beside x {x.shape}; got {index.shape}")
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


# -- batch rules: the examples are more samples ------------------------------------------------


def _samplewise(op_, xs, batched, params):
    """Ops that treat every sample alike."""
    xs = full(xs, batched)
    return apart(op_(*map(merged, xs), **params), xs[0].shape[:2])


def _totals(op_, xs, batched, params):
    """The same, with the losses added up for each example; a residual may come along."""
    xs = full(xs, batched)
    ys = op_(*map(merged, xs), total=False)
    y, *residuals = [apart(y, xs[0].shape[:2]) for y in (ys if isinstance(ys, tuple) else (ys,))]
    if params["total"]:
        y = op.sum(y, axis=tuple(range(1, y.ndim)))
    return (y, *residuals) if residuals else y


for _op in (cross_entropy_dx, nll_pick, nll_spread):
    _op.batch(_samplewise)
for _op in (cross_entropy_index, nll_index):
    _op.batch(_totals)


# -- what users call -------------------------------------------------------------------------


@composite
@in_float32
@on_its_gpu
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
    probabilities: by the number of samples). Where no target counts it is NaN and its gradient 0;
    where all that count have weight 0 both are NaN. ValueError for an index outside 0..C−1.
    """
    x, target, weight = array_like(x), array_like(target), _maybe(weight)
    check_reduction("cross_entropy", reduction)
    _check_scores("cross_entropy", x)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}"
        )
    if x.ndim == 1:  # one sample
        x, target = x.reshape((1, -1)), target.reshape((1, *target.shape))
        y = cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing)
        return y.reshape(()) if reduction == "none" else y
    if target.dtype.kind not in "iub":
        if ignore_index >= 0:
            raise ValueError(
                f"cross_entropy: ignore_index={ignore_index} is for class indices, and the target "
                f"holds probabilities ({target.dtype} {target.shape}); leave those samples out"
            )
        return _cross_entropy_of(x, target, weight, reduction, label_smoothing)
    index, kept, scale = targets_of(
        "cross_entropy", x, target, weight, ignore_index, reduction, plainly=label_smoothing == 0
    )
    if not target.size:  # no sample: the mean of no loss is NaN
        return reduced("cross_entropy", op.sum(x, axis=1), reduction)
    total = reduction != "none"
    if label_smoothing == 0:
        # a call would take what ends in an array for one of arrays alone
        y = cross_entropy_index.apply(x, index, scale, total=total)
    else:
        options = {"classes": x.shape[1], "smoothing": label_smoothing}
        q = smoothed_targets(index, kept, scale, weight, **options)
        x = op.where(op.expand_dims(kept, axis=1) == 0, 0, x)  # an ignored sample may hold NaN
        y = -op.sum(op.log_softmax(x, axis=1) * q, axis=1)
        y = op.where(index[:, 0] < 0, np.nan, y)
        y = op.sum(y) if total else y
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
        check_weight(weight.shape, x.shape[1])
        q = q * weight.reshape((-1, *(1,) * (x.ndim - 2)))
    y = -op.sum(op.times_log(q, op.log_softmax(x, axis=1)), axis=1)
    return reduced("cross_entropy", y, reduction)


@composite
@in_float32
@on_its_gpu
def nll(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """y = −weight x[target], the negative log likelihood; x (N, C, ...) or (C,): log-probabilities.

    Arguments as in cross_entropy, which is nll of log_softmax.
    """
    x, target, weight = array_like(x), array_like(target), _maybe(weight)
    check_reduction("nll", reduction)
    _check_scores("nll", x)
    if target.dtype.kind not in "iub":
        raise TypeError(f"nll: target must hold class indices, integers; got {target.dtype}")
    if x.ndim == 1:
        x, target = x.reshape((1, -1)), target.reshape((1, *target.shape))
        y = nll(x, target, weight, ignore_index, reduction)
        return y.reshape(()) if reduction == "none" else y
    index, _, scale = targets_of("nll", x, target, weight, ignore_index, reduction)
    if not target.size:
        return reduced("nll", op.sum(x, axis=1), reduction)
    y = nll_index(x, index, scale, total=reduction != "none")
    return op.astype(y, dtype=x.dtype, copy=False)


def targets_of(
    loss: str, x: Any, target: Any, weight: Any, ignore_index: int, reduction: str,
    plainly: bool = False, **scores: Any,
) -> tuple:  # fmt: skip
    """The result of class_targets, with its errors under the name of the loss that was called.

    plainly: as arrays, where they may be; scores: shape, dtype and name of them where not x holds
    them
    """
    if weight is not None:
        refuse_gradient(weight, "weight")
    scores = scores or {"shape": x.shape, "dtype": x.dtype}
    find = class_targets
    if plainly and type(target) is Tensor and weight is None and not modes.active:
        find, target = find.forward, target.data  # no mode is on: three results less to wrap
    try:
        return find(target, weight, ignore_index=ignore_index, reduction=reduction, **scores)
    except ValueError as error:
        call = f"{loss}(x: {describe(x)}, target: {describe(target)})"
        raise ValueError(f"{call}: {error.__context__ or error}") from None


def _check_scores(name: str, x: Any) -> None:
    if x.ndim == 0 or x.dtype.kind in "biuc":
        raise ValueError(
            f"{name}: x must hold floats (N, C, ...), or (C,) for one sample; got {x.dtype} "
            f"{x.shape}"
        )


def _maybe(x: Any) -> Any:
    return None if x is None else array_like(x)
