"""Attention of one array of query, key and value, written and read where its slices lie.

One linear map makes the three, so they are slices of one array, and so are their gradients. The
products read and write these slices where they lie: nothing is taken apart or put together.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...ops.attention.heads import by_head, parts_of
from ...ops.attention.words import visible
from ...ops.axes import widen
from ...ops.row_sums import sum_of_product
from ...ops.small_products import transposed_for
from ...ops.softmax import softmax


def _product(a: Any, b: Any, y: Any) -> None:
    """y = a b, in y's own memory."""
    if type(y) is np.ndarray:
        np.matmul(a, b, out=y)
    else:
        y[...] = a @ b


def attention(x: Any, heads: int, scale: float, time: int, is_causal: bool) -> tuple:
    """(y, P) of self_attention."""
    dtype, xp = x.dtype, array_module(x)
    x = widen(x)
    q, k, v = parts_of(x, heads, time)
    s = xp.matmul(q * scale, transposed_for(q.shape[-2], k))
    if is_causal:
        xp.copyto(s, -np.inf, where=~visible(xp, *s.shape[-2:]))
    p = softmax.forward(s)
    y = xp.empty((*x.shape[:2], x.shape[2] // 3), x.dtype)
    _product(p, v, by_head(y, heads, time))
    return y.astype(dtype, copy=False), p


def gradient(g: Any, x: Any, p: Any, heads: int, scale: float, time: int) -> Any:
    """That of x, all three parts written into one array."""
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
