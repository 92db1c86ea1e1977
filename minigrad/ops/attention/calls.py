"""scaled_dot_product_attention: the function for users; it chooses between the two forms."""

from math import prod
from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype, is_floating
from ...engine.errors import describe
from ...engine.registry import op
from ...tensor_api.composite import composite
from ...tensor_api.tensor import Tensor
from ..axes import array_like, module_of
from .composed import plainly
from .drops import attention_seeds
from .primitives import attention

MOST_SCORES = 1 << 22  # of the plain form, which saves them: 16 MB in float32


@composite
def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    block_size: int | None = None,
    enable_gqa: bool = False,
) -> Any:
    """y = softmax(scale q kᵀ + mask) v ;  q (..., L, E), k (..., S, E), v (..., S, F)

    attn_mask   broadcasts against (..., L, S); boolean (True: takes part) or added to the scores.
                A query that may take no key gives 0, and its gradients are 0
    dropout_p   the probability with which each weight is dropped, here and now (0 in evaluation)
    is_causal   query i takes the keys 0 … i; not together with attn_mask
    scale       1/√E when left out; a tensor has a gradient
    block_size  queries and keys in a block of the form that never holds all scores. Left out, that
                form is taken where there would be more than 4 million scores, and on a GPU, which
                has kernels for it, without dropout. Both forms drop the same weights
    enable_gqa  k and v may have fewer heads (axis −3) than q, which queries share in groups: head i
                of q meets head i // (q's heads / k's heads)

    Leading axes broadcast; y has the dtype that q, k, v and an added mask have in common.
    Derivatives of second order hold all scores. Vaswani et al. 2017.
    """
    q, k, v = (array_like(x) for x in (q, k, v))
    mask = None if attn_mask is None else array_like(attn_mask)
    if enable_gqa:
        k, v = (_shared_by_groups(q, x) for x in (k, v))
    scores = _check(q, k, v, mask, is_causal)
    if block_size is not None and not (isinstance(block_size, int | np.integer) and block_size > 0):
        raise ValueError(
            "scaled_dot_product_attention: block_size must be an int ≥ 1, or None; got "
            f"{block_size!r}"
        )
    if not 0 <= dropout_p <= 1:
        raise ValueError(
            "scaled_dot_product_attention: dropout_p is a probability, from 0 to 1; got "
            f"{dropout_p}"
        )
    if isinstance(scale, Tensor):  # which has a gradient: a factor of q, as other numbers have none
        q, scale = q * scale, 1.0
    q, k, v = _of_one_dtype(q, k, v, mask)
    factor = max(q.shape[-1], 1) ** -0.5 if scale is None else float(scale)
    in_blocks = block_size is not None or prod(scores) > MOST_SCORES
    in_blocks = in_blocks or not dropout_p and module_of(q) is not np
    if in_blocks or dropout_p:
        q, k, v = (_led(x, scores[:-2]) for x in (q, k, v))
    seeds = attention_seeds(q, k, v) if dropout_p else None
    if not in_blocks:
        how = {"is_causal": is_causal, "scale": factor, "p": dropout_p}
        return plainly(q, k, v, mask, seeds, **how)[0]
    return attention(
        q, k, v, mask, seeds, is_causal=is_causal, scale=factor, block_size=block_size,
        dropout_p=dropout_p,
    )  # fmt: skip


def _shared_by_groups(q: Any, x: Any) -> Any:
    """k or v with each head as often as there are queries' heads in a group."""
    heads, queries = (a.shape[-3] if a.ndim > 2 else 0 for a in (x, q))
    if not heads or queries % heads:
        raise ValueError(
            "scaled_dot_product_attention: with enable_gqa the heads (axis −3) of k and v must "
            f"divide those of q; got {x.shape} for q {q.shape}"
        )
    return x if heads == queries else op.repeat(x, queries // heads, axis=-3)


def _of_one_dtype(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """All three in the dtype that they and an added mask have in common: in blocks, y has q's."""
    added = () if mask is None or mask.dtype.kind == "b" else (mask.dtype,)
    if {q.dtype} == {k.dtype, v.dtype, *added}:
        return q, k, v
    dtype = common_dtype(q.dtype, k.dtype, v.dtype, *added)
    return [op.astype(x, dtype=dtype, copy=False) for x in (q, k, v)]


def _led(x: Any, lead: tuple) -> Any:
    """x with the leading axes that all three share; a view."""
    return x if x.shape[:-2] == lead else op.broadcast_to(x, shape=(*lead, *x.shape[-2:]))


def _check(q: Any, k: Any, v: Any, mask: Any, is_causal: bool) -> tuple:
    """The shape of the scores, (..., L, S)."""
    name = "scaled_dot_product_attention"

    def given() -> str:
        return f"q {q.shape}, k {k.shape}, v {v.shape}"

    for argument, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim < 2 or not is_floating(x.dtype):
            raise ValueError(
                f"{name}: {argument} must be a floating array (..., length, features), got "
                f"{describe(x)}"
            )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{name}: q and k must have the same number of features; got {given()}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{name}: k and v must have the same length; got {given()}")
    lead = q.shape[:-2]
    if not lead == k.shape[:-2] == v.shape[:-2]:
        try:
            lead = np.broadcast_shapes(lead, k.shape[:-2], v.shape[:-2])
        except ValueError:
            raise ValueError(f"{name}: the leading axes must broadcast; got {given()}") from None
    scores = (*lead, q.shape[-2], k.shape[-2])
    if mask is None:
        return scores
    if is_causal:
        raise ValueError(
            f"{name}: give attn_mask or is_causal=True, not both; mask the later keys in attn_mask"
        )
    if mask.dtype.kind != "b" and not is_floating(mask.dtype):
        raise TypeError(
            f"{name}: attn_mask is boolean (True: takes part) or floating (added); got "
            f"{describe(mask)}"
        )
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name}: attn_mask {mask.shape} must broadcast against the scores {scores}, "
            f"(..., L, S); got {given()}"
        )
    return scores
