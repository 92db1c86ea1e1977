"""Order statistics: median, quantile, percentile. Elements that tie share the gradient equally."""

from typing import Any

import numpy as np

from ...core.primitive import composite, primitive
from ...core.registry import op
from ..axes import array_like, axes_of, constant_array, count
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
    sifted = np.partition(x, sorted({*ranks, n - 1}), axis=-1)  # NaN is sorted to the end
    chosen = np.moveaxis(sifted[..., list(ranks)], -1, 0)
    last = sifted[..., -1]
    return np.where(last != last, last, chosen)


@order_statistics.vjp("x")
def order_statistics_dx(g, x, y):
    parts = share(g.reshape((*g.shape, 1)), x, y.reshape((*y.shape, 1)), -1)
    return op.sum(parts, axis=0)


@composite(numpy=np.median)
def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The middle element; of an even count the mean of the two middle ones, half the gradient each.

    axis None, an int or a tuple. Integers give float64. No elements: ValueError.
    """
    x = array_like(x)
    rows = _rows(x, axis)
    n = rows.shape[-1]
    ranks = (n // 2,) if n % 2 else (n // 2 - 1, n // 2)
    middle = op.mean(op.order_statistics(rows, ranks=ranks), axis=0)
    return _reduced(middle, x.shape, axis, keepdims)


# method: (alpha, beta), rank = n q + alpha + q (1 − alpha − beta) − 1  (Hyndman and Fan 1996)
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


@composite(numpy=np.quantile)
def quantile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear"
) -> Any:
    """The value below which a share q (0 to 1) of the elements lies, between two of them in rank.

    q: a number or an array, constants; its axes come first in the result. method: linear, lower,
    higher, nearest, midpoint, hazen, weibull, median_unbiased, normal_unbiased or
    interpolated_inverted_cdf. The gradient goes to the two neighbours by their weights.
    """
    x = array_like(x)
    q = np.asarray(constant_array(q), dtype=np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"quantile: q must lie between 0 and 1, got {q.tolist()!r}")
    rows = _rows(x, axis)
    rank = _rank(q.ravel(), rows.shape[-1], method)
    low = np.floor(rank).astype(int)
    weight = (rank - low).reshape((-1,) + (1,) * (rows.ndim - 1))
    if rows.dtype.kind not in "biu":
        weight = weight.astype(rows.dtype)
    a = op.order_statistics(rows, ranks=tuple(low.tolist()))
    if weight.any():
        high = np.minimum(low + 1, rows.shape[-1] - 1)
        b = op.order_statistics(rows, ranks=tuple(high.tolist()))
        a = np.where(weight > 0, a + (b - a) * weight, a)  # weight 0 must not meet b = inf
    elif rows.dtype.kind in "biu" and method in (*_CONTINUOUS, "midpoint"):
        a = a.astype(np.float64)
    return _reduced(a, x.shape, axis, keepdims, q.shape)


@composite(numpy=np.percentile)
def percentile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear"
) -> Any:
    """quantile with q in percent, 0 to 100."""
    q = np.asarray(constant_array(q), dtype=np.float64)
    return quantile(x, q / 100, axis=axis, keepdims=keepdims, method=method)


def _rank(q: np.ndarray, n: int, method: str) -> np.ndarray:
    """Where, among n elements in order, each q lies: a fractional rank from 0 to n − 1."""
    if method in _NEIGHBOUR:
        return _NEIGHBOUR[method](q * (n - 1))
    if method not in _CONTINUOUS:
        known = ", ".join([*_CONTINUOUS, *_NEIGHBOUR])
        raise ValueError(f"quantile: method={method!r} is not one of {known}")
    alpha, beta = _CONTINUOUS[method]
    return np.clip(n * q + alpha + q * (1 - alpha - beta) - 1, 0, n - 1)


def _rows(x: Any, axis: Any) -> Any:
    """x with the reduced axes as one, at the end."""
    axes = axes_of(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = op.transpose(x, axes=(*kept, *axes)) if x.ndim > 1 else x
    return moved.reshape((*[x.shape[i] for i in kept], count(x.shape, axis)))


def _reduced(y: Any, shape: tuple, axis: Any, keepdims: bool, q_shape: tuple = ()) -> Any:
    """y (ranks, kept axes …) with the axes of q in front and, with keepdims, the reduced ones."""
    axes = axes_of(axis, len(shape))
    kept = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
    return y.reshape((*q_shape, *kept))
