"""Order statistics: median, quantile, percentile. Elements that tie share the gradient equally."""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ...backends.dtypes import common_dtype, is_differentiable
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ...tensor_api.tensor import Tensor
from ..axes import (
    array_like,
    axes_of,
    constant_array,
    constant_like,
    count,
    sortable,
    weights_of,
)  # fmt: skip
from ..elementwise.support import ordered
from .extrema import share

__all__ = ["median", "order_statistics", "percentile", "quantile"]


@primitive
def order_statistics(x, ranks=(0,)):
    """y[i] = the element of rank ranks[i] (0 is the smallest) along the last axis of x (…, n).

    Result (len(ranks), …). gx = g / (number of ties) where x = y, else 0. A slice with NaN gives
    NaN, and its NaN entries share the gradient. Found by partition, O(n).
    """
    n = x.shape[-1]
    if n == 0:
        raise ValueError("no order statistic of no elements")
    sifted = np.partition(sortable(x), sorted({*ranks, n - 1}), axis=-1)  # NaN goes to the end
    chosen = np.moveaxis(sifted[..., list(ranks)], -1, 0)
    last = sifted[..., -1]
    return np.where(last != last, last, chosen).astype(x.dtype, copy=False)


@order_statistics.vjp("x")
def order_statistics_dx(g, x, y):
    parts = share(g.reshape((*g.shape, 1)), x, y.reshape((*y.shape, 1)), -1)
    return op.sum(parts, axis=0)


@order_statistics.batch
def order_statistics_batch(op, xs, batched, params):
    return np.swapaxes(op(*xs, **params), 0, 1)  # (ranks, batch, …) → (batch, ranks, …)


@composite(numpy=np.median)
def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The middle element; of an even count the mean of the two middle ones, half the gradient each.

    axis None, an int or a tuple. Integers give float64. Of no elements: NaN.
    """
    x = array_like(x)
    rows = rows_over(x, axis)
    n = rows.shape[-1]
    if n == 0:
        return op.mean(x, axis=axis, keepdims=keepdims)
    ranks = (n // 2,) if n % 2 else (n // 2 - 1, n // 2)
    middle = op.mean(op.order_statistics(rows, ranks=ranks), axis=0)
    return with_axes(middle, x.shape, axis, keepdims)


# method: (alpha, beta), rank = q (n + 1 − alpha − beta) + alpha − 1  (Hyndman and Fan 1996)
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "linear": (1, 1),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_NEIGHBOUR = {  # rank by "linear", then one of its neighbours
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": lambda rank: 0.5 * (np.floor(rank) + np.ceil(rank)),
}
_OBSERVED = {  # rank n q − 1, then one of its neighbours, or both
    "inverted_cdf": np.ceil,
    "averaged_inverted_cdf": lambda rank: 0.5 * (np.floor(rank) + 1 + np.ceil(rank)),
    "closest_observation": lambda rank: np.rint(rank + 1) - 1,  # of two as near, the even n q
}
BETWEEN = (*_CONTINUOUS, "midpoint", "averaged_inverted_cdf")  # not always one of the elements


@composite(numpy=np.quantile)
@on_its_gpu
def quantile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear",
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """The q-th quantile (q from 0 to 1): a fraction q of the elements is below it; interpolated.

    q: a number or an array; its axes come first in the result. method: linear, lower, higher,
    nearest, midpoint, hazen, weibull, median_unbiased, normal_unbiased, inverted_cdf,
    averaged_inverted_cdf, interpolated_inverted_cdf or closest_observation. The gradient goes to
    the two neighbours by their weights. The gradient of q is their difference, 0 where the rank is
    whole. But q is a constant for lower, higher, nearest, midpoint and the three that NumPy calls
    discontinuous ([averaged_]inverted_cdf, closest_observation).

    weights: constants of x's shape, or of its lengths along `axis`; with method="inverted_cdf"
    alone. The result is the first element in order up to which the weights are q of their sum.
    """
    x, step = ordered(array_like(x), "quantile"), None
    if method in _CONTINUOUS and isinstance(q, Tensor) and is_differentiable(q.dtype):
        step = (q - q.detach()).reshape(-1)  # 0, with the derivative of q
        q = q.detach()
    q = constant_array(q, "q")
    dtype = quantile_dtype(x, q, method)
    q = np.asarray(q, dtype=np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"quantile: q must lie between 0 and 1, got {q.tolist()!r}")
    rows = rows_over(x, axis)
    if rows.shape[-1] == 0:
        raise ValueError(f"quantile: x {x.shape} has no element for axis={axis} to choose from")
    if weights is not None:
        y = weighted(rows, q, weights_over(x, weights, axis, method, "quantile"))
        y = (
            op.where(op.any(op.isnan(rows), axis=-1), np.nan, y)
            if is_differentiable(x.dtype)
            else y
        )
        return with_axes(y, x.shape, axis, keepdims, q.shape)
    rank = fractional_rank(q.ravel(), rows.shape[-1], method)
    low = np.floor(rank).astype(int)
    y = op.order_statistics(rows, ranks=tuple(low.tolist()))
    if method in BETWEEN:
        y = y if y.dtype == dtype else y.astype(dtype)
        if step is not None or (rank > low).any():
            weight = constant_like(rank - low, y)
            if step is not None:
                weight = weight + step * (rows.shape[-1] + 1 - sum(_CONTINUOUS[method]))
            weight = op.astype(weight, dtype=dtype).reshape((-1, *(1,) * (rows.ndim - 1)))
            y = _towards_next(y, rows, low, weight)
    return with_axes(y, x.shape, axis, keepdims, q.shape)


def quantile_dtype(x: Any, q: Any, method: str) -> np.dtype:
    """x's where the result is an element of x; else floating, and q's too unless q is a number of
    Python's."""
    if method not in BETWEEN:
        return x.dtype
    is_weak = isinstance(q, int | float) and not isinstance(q, np.generic)
    dtype = x.dtype if is_weak else common_dtype(x.dtype, np.asarray(q).dtype)
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _towards_next(y: Any, rows: Any, low: np.ndarray, weight: Any) -> Any:
    """y, of rank `low`, moved by `weight` towards the element of the next rank."""
    ranks = np.minimum(low + 1, rows.shape[-1] - 1)
    further = op.order_statistics(rows, ranks=tuple(ranks.tolist()))
    # weight 0 selects: 0 times an infinite difference would be NaN
    return np.where(weight > 0, y + (further - y) * weight, y)


@composite(numpy=np.percentile)
@on_its_gpu
def percentile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear",
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """quantile with q in percent, 0 to 100."""
    q = shares(q, "percentile")
    return quantile(x, q, axis=axis, keepdims=keepdims, method=method, weights=weights)


def shares(q: Any, name: str) -> Any:
    """q in percent as fractions; ValueError where it is none (NaN is none either)."""
    q = q if isinstance(q, int | float | Tensor) else np.asarray(q)
    percent = np.asarray(constant_array(q.detach() if isinstance(q, Tensor) else q, "q"))
    if not ((percent >= 0) & (percent <= 100)).all():
        raise ValueError(f"{name}: q must lie between 0 and 100, got {percent.tolist()!r}")
    return q / 100


def weights_over(x: Any, weights: Any, axis: Any, method: str, name: str) -> Any:
    """The weights of the rows over the axes, in float64, as a running sum is as good as that."""
    if method != "inverted_cdf":
        raise ValueError(
            f"{name}: weights= say how often an element counts, which only method='inverted_cdf' "
            f"has a meaning for, as in NumPy; got method={method!r}"
        )
    w = array_like(constant_array(weights, "weights")).astype(np.float64)
    if not ((w >= 0) & (w < np.inf)).all():
        raise ValueError(f"{name}: weights must be finite and 0 or more")
    w = rows_over(weights_of(name, constant_like(w, x), x, axis), axis)
    if w.size and not w.any(axis=-1).all():
        raise ValueError(
            f"{name}: all weights of a result are 0; give one element a weight above 0"
        )
    return w


def weighted(rows: Any, q: np.ndarray, weights: Any) -> Any:
    """For each q, the element of each row up to which the sorted weights are q of their sum.

    Among equal elements it is another one with them in the order of the row and in the reverse of
    it, if their weights do not decide. Then each of the two has half of the gradient.
    """
    n = rows.shape[-1]
    if n == 0:
        raise ValueError("no order statistic of no elements")
    forwards = op.argsort(rows, axis=-1)
    backwards = n - 1 - op.argsort(op.flip(rows, axis=-1), axis=-1)
    one, other = (_reached(rows, q, weights, order) for order in (forwards, backwards))
    return op.maximum(one, other)


def _reached(rows: Any, q: np.ndarray, weights: Any, order: Any) -> Any:
    """The elements at which the shares q of the weights are reached, in an order of each row."""
    share = op.cumsum(op.take_along_axis(weights, order, axis=-1), axis=-1)
    share = op.where(share > 0, share / share[..., -1:], -1)  # weight 0 is passed over by q = 0 too
    ranks = [op.count_nonzero(share < part, axis=-1, keepdims=True) for part in q.ravel()]
    ranks = [op.minimum(rank, rows.shape[-1] - 1) for rank in ranks]
    places = [op.take_along_axis(order, rank, axis=-1) for rank in ranks]
    return stacked([op.take_along_axis(rows, place, axis=-1)[..., 0] for place in places], rows)


def stacked(results: list[Any], rows: Any) -> Any:
    """The results for each q, one above the other; of no q an empty array of their dtype."""
    return op.stack(results) if results else op.order_statistics(rows, ranks=())


def fractional_rank(q: Any, n: Any, method: str) -> Any:
    """Where, among n elements in order, each q lies: a fractional rank from 0 to n − 1."""
    if method in _NEIGHBOUR:
        return _NEIGHBOUR[method](q * (n - 1))
    if method in _OBSERVED:
        return np.clip(_OBSERVED[method](q * n - 1), 0, n - 1)
    if method not in _CONTINUOUS:
        known = ", ".join([*_CONTINUOUS, *_NEIGHBOUR, *_OBSERVED])
        raise ValueError(f"quantile: method={method!r} is not one of {known}")
    alpha, beta = _CONTINUOUS[method]
    return np.clip(q * (n + 1 - alpha - beta) + (alpha - 1), 0, n - 1)


def rows_over(x: Any, axis: Any) -> Any:
    """x with the reduced axes as one, at the end. A 0-d x has no axis, unlike in NumPy's sums."""
    axes = axes_of(axis, x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = op.transpose(x, axes=(*kept, *axes)) if x.ndim > 1 else x
    return moved.reshape((*[x.shape[i] for i in kept], count(x.shape, axis)))


def with_axes(y: Any, shape: tuple, axis: Any, keepdims: bool, q_shape: tuple = ()) -> Any:
    """y (ranks, kept axes …) with the axes of q in front and, with keepdims, the reduced ones."""
    axes = axes_of(axis, len(shape))
    kept = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
    return y.reshape((*q_shape, *kept))
