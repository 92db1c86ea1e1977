"""The forms of attention that hold less, or copy less, than the formulas do.

blocks     attention_blocks and its gradient: never all scores. On a GPU, too, after its kernels
in place   self_attention: products write into the slices of one array; so does its gradient's rule
"""

from typing import Any

import numpy as np

from ...ops.attention.packed import self_attention, self_attention_gx
from ...ops.attention.primitives import attention_blocks, attention_grads, check, check_gradient
from ..forms import Forms
from . import blocks, in_place

form = Forms()


@form(attention_blocks, "blocks", on="cuda")
@form(attention_blocks, "blocks")
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, seeds: Any = None, *, is_causal: bool = False,
    scale: float = 1.0, block_size: int | None = None, dropout_p: float = 0.0,
) -> Any:  # fmt: skip
    check(q, k, v)
    return blocks.attention(q, k, v, mask, seeds, is_causal, scale, block_size, dropout_p)


@form(attention_grads, "blocks", on="cuda")
@form(attention_grads, "blocks")
def gradients(
    a: Any, q: Any, k: Any, v: Any, mask: Any = None, o: Any = None, lse: Any = None,
    seeds: Any = None, *, is_causal: bool = False, scale: float = 1.0,
    block_size: int | None = None, mask_gradient: bool = False, dropout_p: float = 0.0,
) -> Any:  # fmt: skip
    check_gradient(a, q, k, v, o, lse)
    return blocks.gradients(
        a, q, k, v, mask, o, lse, seeds, is_causal, scale, block_size, mask_gradient, dropout_p
    )


@form(self_attention, "in place")
def self_attention_in_place(
    x: Any, *, heads: int, scale: float, time: int = 0, is_causal: bool = False
) -> Any:
    return in_place.attention(x, heads, scale, time, is_causal)


@self_attention.vjp("x")
def self_attention_gradient(g, x, p, heads, scale, time, is_causal):
    """Written into one array where these are NumPy's; else the rule of the table."""
    if type(g) is np.ndarray is type(x) and g.dtype == x.dtype == p.dtype:
        return in_place.gradient(g, x, p, heads, scale, time)
    return self_attention_gx(g, x, p, heads, scale, time, is_causal)


form.install()
