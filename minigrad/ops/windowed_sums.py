"""Weighted sums over windows of the last axis: resizing along one axis is such a sum.

A product with a matrix of weights, most of them 0, is the fastest form by far. But 0 times an
infinite entry is NaN, also in the sums of windows that do not hold it. Here a weight of 0 means
that the entry is not read.
"""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import common_dtype
from ..engine.primitive import multilinear
from ..engine.registry import op
from .axes import widen
from .batching import each_in_turn

__all__ = ["windowed_sums"]


@multilinear(arrays="x weights", constants=["weights"])
def windowed_sums(x, weights):
    """y[…, i] = Σ_k weights[i, k] x[…, k] over the k with a weight that is not 0

    x (…, n), weights (m, n) -> (…, m). A NaN or an infinite entry shows only in the sums that it is
    part of. gx is the same sum of g with the transposed weights. Sums of 16-bit floats are taken in
    float32.
    """
    if weights.ndim != 2 or not x.ndim or weights.shape[1] != x.shape[-1]:
        raise ValueError(f"needs x (…, n) and weights (m, n), got {x.shape} and {weights.shape}")
    xp, dtype = array_module(x), common_dtype(x, weights)
    x, weights = widen(x), widen(weights)
    if xp is not np:  # to look for infinite entries there would mean to wait for them
        return _apart(xp, x, weights).astype(dtype, copy=False)
    with np.errstate(invalid="ignore"):  # 0 · ∞, and what is no error shows below
        y = np.matmul(x, weights.T)
    rows = ~np.isfinite(y).all(-1)
    if rows.any():
        y[rows] = _apart(np, x[rows], weights)
    return y.astype(dtype, copy=False)


def _apart(xp: Any, x: Any, weights: Any) -> Any:
    """The same sums: those of the finite entries, and then what NaN and infinite ones make of them.

    As ∞ times a negative weight is −∞, and ∞ − ∞ NaN.
    """
    if x.dtype.kind == "c":
        y = xp.empty((*x.shape[:-1], len(weights)), x.dtype)
        y.real[...] = _apart(xp, x.real, weights)
        y.imag[...] = _apart(xp, x.imag, weights)
        return y

    def reads(entries: Any, which: Any) -> Any:
        counts = xp.matmul(entries.astype(np.float32), which.T.astype(np.float32))
        return counts > 0

    y = xp.matmul(xp.where(xp.isfinite(x), x, 0), weights.T)
    up, down = weights > 0, weights < 0
    high = reads(x == np.inf, up) | reads(x == -np.inf, down)
    low = reads(x == -np.inf, up) | reads(x == np.inf, down)
    y = xp.where(high, np.inf, xp.where(low, -np.inf, y))
    return xp.where(high & low | reads(xp.isnan(x), weights != 0), np.nan, y)


@windowed_sums.vjp("x")
def windowed_sums_gx(g, weights):
    return op.windowed_sums(g, weights.T)


@windowed_sums.batch
def windowed_sums_batch(op_, xs, batched, params):
    """The examples are more rows; with different weights each takes a call."""
    return each_in_turn(op_, xs, batched, params) if batched[1] else op_(*xs)
