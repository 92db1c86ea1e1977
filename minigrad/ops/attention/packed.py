"""Attention of sequences to themselves, from one array that holds query, key and value.

One linear map makes the three, so they are slices of one array, and so are their gradients.
"""

from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.tensor import Tensor
from ..axes import widen
from ..batching import apart, merged
from .composed import probabilities, softmax_pullback, transposed
from .heads import by_head, parts_of


@primitive(residuals=["p"])
def self_attention(x, *, heads, scale, time=0, is_causal=False):
    """y = P v, P = softmax(scale q kᵀ), of each head ;  q, k, v = split_heads(x)

    gq = dS k, gk = dSᵀ q, gv = Pᵀ g,  dS = scale P ∘ (g vᵀ − Σ P ∘ g vᵀ).
    x (L, N, 3·heads·d) -> y (L, N, heads·d); with time=1 both begin with (N, L). is_causal: query i
    takes the keys 0 … i. P (N, heads, L, L) is kept for the backward.
    """
    dtype, x = x.dtype, widen(x)
    q, k, v = parts_of(x, heads, time)
    p = probabilities(q, k, None, is_causal, scale)
    y = op.matmul(p, v).transpose((0, 2, 1, 3) if time else (2, 0, 1, 3))
    return y.reshape((*x.shape[:2], x.shape[2] // 3)).astype(dtype, copy=False), p


@self_attention.vjp("x")
def self_attention_gx(g, x, p, heads, scale, time, is_causal):
    """To be differentiated again, P is computed again as a function of x."""
    q, k, v = op.split_heads(x, heads=heads, time=time)
    if isinstance(x, Tensor):
        p = probabilities(q, k, None, is_causal, scale)
    a = by_head(g, heads, time)
    ds = softmax_pullback(p, op.matmul(a, transposed(v))) * scale
    return op.join_heads(
        op.matmul(ds, k), op.matmul(transposed(ds), q), op.matmul(transposed(p), a), time=time
    )


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
