"""Attention of sequences to themselves, from one array that holds query, key and value.

One linear map makes the three, so they are slices of one array, and so are their gradients. The
products read and write these slices where they lie: nothing is taken apart or put together.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.tensor import Tensor
from ..axes import widen
from ..batching import apart, merged
from ..row_sums import sum_of_product
from ..small_products import transposed_for
from ..softmax import softmax
from .heads import parts_of
from .words import probabilities, softmax_pullback, transposed, visible


def _by_head(y: Any, heads: int, time: int) -> Any:
    """y (L, N, heads·d) as (N, heads, L, d), a view; with time=1 y begins with (N, L)."""
    y = y.reshape((*y.shape[:2], heads, y.shape[2] // heads))
    return y.transpose((1 - time, 2, time, 3))


def _product(a: Any, b: Any, y: Any) -> None:
    """y = a b, in y's own memory."""
    if type(y) is np.ndarray:
        np.matmul(a, b, out=y)
    else:
        y[...] = a @ b


@primitive(residuals=["p"])
def self_attention(x, *, heads, scale, time=0, is_causal=False):
    """y = P v, P = softmax(scale q kᵀ), of each head ;  q, k, v = split_heads(x)

    gq = dS k, gk = dSᵀ q, gv = Pᵀ g,  dS = scale P ∘ (g vᵀ − Σ P ∘ g vᵀ).
    x (L, N, 3·heads·d) -> y (L, N, heads·d); with time=1 both begin with (N, L). is_causal: query i
    takes the keys 0 … i. P (N, heads, L, L) is kept for the backward.
    """
    dtype, xp = x.dtype, array_module(x)
    x = widen(x)
    q, k, v = parts_of(x, heads, time)
    s = xp.matmul(q * scale, transposed_for(q.shape[-2], k))
    if is_causal:
        xp.copyto(s, -np.inf, where=~visible(xp, *s.shape[-2:]))
    p = softmax.forward(s)
    y = xp.empty((*x.shape[:2], x.shape[2] // 3), x.dtype)
    _product(p, v, _by_head(y, heads, time))
    return y.astype(dtype, copy=False), p


@self_attention.vjp("x")
def self_attention_gx(g, x, p, heads, scale, time, is_causal):
    """On NumPy's arrays written into one array; else composed of other ops, which are
    differentiable: there P is computed again as a function of x.
    """
    if type(g) is np.ndarray is type(x) and g.dtype == x.dtype == p.dtype:
        return _gradient(g, x, p, heads, scale, time)
    q, k, v = op.split_heads(x, heads=heads, time=time)
    if isinstance(x, Tensor):
        p = probabilities(q, k, None, is_causal, scale)
    a = _by_head(g, heads, time)
    ds = softmax_pullback(p, op.matmul(a, transposed(v))) * scale
    return op.join_heads(
        op.matmul(ds, k), op.matmul(transposed(ds), q), op.matmul(transposed(p), a), time=time
    )


def _gradient(g: Any, x: Any, p: Any, heads: int, scale: float, time: int) -> Any:
    y, a = np.empty(x.shape, x.dtype), _by_head(g, heads, time)
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


@self_attention.batch
def self_attention_batch(op_, xs, batched, params):
    """The examples join the batch N."""
    (x,), at = xs, 1 - params["time"]
    lead = x.shape[0], x.shape[1 + at]
    ys = op_(merged(x, at), **params)
    if not isinstance(ys, tuple):
        return apart(ys, lead, at)
    y, p = ys
    return apart(y, lead, at), apart(p, lead)
