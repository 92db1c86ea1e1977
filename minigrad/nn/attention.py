"""Attention layers. Names, argument order, defaults, layouts and state names are PyTorch's."""

from typing import Any

import numpy as np

from ..core import create
from ..core.errors import describe
from ..core.registry import op
from ..core.tensor import Tensor
from ..ops.attention.words import probabilities
from . import init
from .layers import Dropout, Linear
from .module import Module
from .norm import LayerNorm
from .parameter import Parameter

__all__ = ["MultiheadAttention", "TransformerEncoderLayer"]


class MultiheadAttention(Module):
    """softmax(q kᵀ/√d + mask) v in num_heads subspaces of size d, joined by a linear layer.

    query (L, N, E), key and value (S, N, E), or (N, L, E) and (N, S, E) with batch_first=True, or
    without N. Vaswani et al., Attention is all you need, 2017.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        batch_first: bool = False,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: num_heads={num_heads} must divide embed_dim={embed_dim}"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        weight = create.empty((3 * embed_dim, embed_dim), device=device, dtype=dtype)
        self.in_proj_weight = init.xavier_uniform_(Parameter(weight))
        zeros = create.zeros(3 * embed_dim, device=device, dtype=dtype)
        self.in_proj_bias = Parameter(zeros) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        if bias:
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(y, weights): y in query's shape; weights (N, L, S), the mean over the heads, or None.

        key_padding_mask (N, S) and attn_mask (L, S) or (N·num_heads, L, S): boolean, True for keys
        that take no part (the reverse of scaled_dot_product_attention's), or added to the scores.
        need_weights=False is faster and holds no matrix of scores where that would be large.
        is_causal: query i takes the keys 0 … i; here it needs no attn_mask.
        """
        self._check(query, key, value)
        single, time = query.ndim == 2, 0 if query.ndim == 2 or not self.batch_first else 1
        q, k, v = (self._heads(x, time, single) for x in self._projected(query, key, value))
        mask = self._mask(attn_mask, key_padding_mask, q, k, is_causal)
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = probabilities(q, k, mask, is_causal and mask is None, q.shape[-1] ** -0.5)
            y = op.matmul(op.dropout(weights, p), v)
            weights = op.mean(weights, axis=1) if average_attn_weights else weights
            weights = weights[0] if single else weights
        else:
            y = op.scaled_dot_product_attention(q, k, v, mask, p, is_causal and mask is None)
        return self.out_proj(self._joined(y, time, single)), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, x in (("query", query), ("key", key), ("value", value)):
            if x.ndim != query.ndim or x.ndim not in (2, 3) or x.shape[-1] != self.embed_dim:
                raise ValueError(
                    f"MultiheadAttention: {name} must be (L, N, E), (N, L, E) or (L, E) with "
                    f"E = embed_dim = {self.embed_dim}, like query {query.shape}; got {describe(x)}"
                )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        """The three linear maps; one product where they are of the same array."""
        e, w, b = self.embed_dim, self.in_proj_weight, self.in_proj_bias
        if query is key is value:
            return op.split(op.linear(query, w, b), 3, axis=-1)
        rows = [slice(i * e, (i + 1) * e) for i in range(3)]
        return [
            op.linear(x, w[i], None if b is None else b[i])
            for x, i in zip((query, key, value), rows, strict=True)
        ]

    def _heads(self, x: Tensor, time: int, single: bool) -> Tensor:
        """(N, heads, L, d)"""
        x = op.reshape(x, shape=(*x.shape[:-1], self.num_heads, self.embed_dim // self.num_heads))
        if single:
            return op.expand_dims(op.swapaxes(x, axis1=0, axis2=1), axis=0)
        return op.transpose(x, axes=(1 - time, 2, time, 3))

    def _joined(self, y: Tensor, time: int, single: bool) -> Tensor:
        """(N, heads, L, d) in query's layout"""
        n, _, length, _ = y.shape
        y = op.transpose(y, axes=(2, 0, 1, 3) if time == 0 else (0, 2, 1, 3))
        shape = (n, length, self.embed_dim) if time else (length, n, self.embed_dim)
        return op.reshape(y, shape=shape[:1] + shape[2:] if single else shape)

    def _mask(self, attn: Any, padding: Any, q: Tensor, k: Tensor, is_causal: bool) -> Any:
        """Both masks as one, in scaled_dot_product_attention's sense; None if there is none."""
        n, heads, length, _ = q.shape
        keys = k.shape[-2]
        masks = []
        if attn is not None:
            attn = _taking_part(attn)
            if attn.shape not in ((length, keys), (n * heads, length, keys)):
                raise ValueError(
                    f"MultiheadAttention: attn_mask must be (L, S) = {(length, keys)} or (N·heads, "
                    f"L, S) = {(n * heads, length, keys)}, got {attn.shape}"
                )
            masks.append(
                attn if attn.ndim == 2 else op.reshape(attn, shape=(n, heads, length, keys))
            )
        if padding is not None:
            padding = _taking_part(padding)
            if padding.shape not in ((n, keys), (keys,)[: n == 1]):
                raise ValueError(
                    f"MultiheadAttention: key_padding_mask must be (N, S) = {(n, keys)}, got "
                    f"{padding.shape}"
                )
            masks.append(op.reshape(padding, shape=(n, 1, 1, keys)))
        if is_causal and padding is not None and attn is None:
            masks.append(create.as_tensor(np.tri(length, keys, dtype=bool), device=q.device))
        if len(masks) < 2:
            return masks[0] if masks else None
        if all(m.dtype.kind == "b" for m in masks):
            return op.logical_and(*masks)
        a, b = (op.where(m, 0.0, -np.inf) if m.dtype.kind == "b" else m for m in masks)
        return op.astype(a + b, dtype=q.dtype)

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}"


def _taking_part(mask: Any) -> Tensor:
    """A boolean mask turned round; an added one as it is."""
    mask = create.as_tensor(mask)
    return op.logical_not(mask) if mask.dtype.kind == "b" else mask


class TransformerEncoderLayer(Module):
    """x + attention, then x + feed-forward, each with layer norm: behind the sum, or before.

    src (L, N, E), or (N, L, E) with batch_first=True; activation: "relu", "gelu" or a function.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        kind = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **kind
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **kind)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.norm_first = norm_first
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise ValueError(
                "TransformerEncoderLayer: activation is 'relu', 'gelu' or a function, got "
                f"{activation!r}"
            )
        self.activation = getattr(op, activation) if isinstance(activation, str) else activation

    def forward(
        self,
        src: Tensor,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The same shape as src; masks as in MultiheadAttention."""
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            x = src + self._attend(self.norm1(src), *masks)
            return x + self._feed(self.norm2(x))
        x = self.norm1(src + self._attend(src, *masks))
        return self.norm2(x + self._feed(x))

    def _attend(self, x: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        y, _ = self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)
        return self.dropout1(y)

    def _feed(self, x: Tensor) -> Tensor:
        y = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(y)
