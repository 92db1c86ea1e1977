"""The forms of attention that never hold all scores.

They are variants of attention_blocks and of its gradient, on a GPU, too: its kernels are asked
before them.
"""

from typing import Any

from ...ops.attention.primitives import attention_blocks, attention_grads, check, check_gradient
from ..forms import Forms
from . import blocks

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


form.install()
