"""Attention of one array of query, key and value: products read and write its slices.

One linear map computes the three: they are slices of one array, and so are their gradients. The
products read and write these slices in place, without splitting or concatenating.
"""

from typing import Any

import numpy as np

from ...ops.attention.composed import visible
from ...ops.attention.heads import by_head, parts_of
from ...ops.axes import widen
from ...ops.softmax import softmax
from ..row_sums import sum_of_product
from ..small_products import transposed_for


def attention(x: Any, *, heads: int, scale: float, time: int = 0, is_causal: bool = False) -> tuple:
    """(y, P): the op self_attention."""
    dtype, x = x.dtype, widen(x)
    q, k, v = parts_of(x, heads, time)
    s = np.matmul(q * scale, transposed_for(q.shape[-2], k))
    if is_causal:
        np.copyto(s, -np.inf, where=~visible(np, *s.shape[-2:]))
    p = softmax.forward(s)
    y = np.empty((*x.shape[:2], x.shape[2] // 3), x.dtype)
    np.matmul(p, v, out=by_head(y, heads, time))
    return y.astype(dtype, copy=False), p


def gradient(g: Any, x: Any, p: Any, heads: int, scale: float, time: int) -> Any:
    """The gradient in x, all three parts written into one array."""
    y, a = np.empty(x.shape, x.dtype), by_head(g, heads, time)
    q, k, v = parts_of(x, heads, time)
    dq, dk, dv = parts_of(y, heads, time)
    ds = np.matmul(a, transposed_for(a.shape[-2], v))
    ds -= sum_of_product(ds, p, (3,))
    ds *= p
    ds *= scale
    np.matmul(ds, k, out=dq)
    np.matmul(ds.swapaxes(-1, -2), q, out=dk)
    np.matmul(p.swapaxes(-1, -2), a, out=dv)
    return y
