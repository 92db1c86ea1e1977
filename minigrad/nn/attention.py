"""Attention between sequences. Names, argument order, defaults and state names are PyTorch's."""

from functools import reduce
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator, common_dtype
from ..engine.errors import describe
from ..engine.registry import op
from ..ops.attention.calls import MOST_SCORES
from ..ops.attention.composed import plainly
from ..ops.attention.drops import attention_seeds
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """softmax(q kᵀ/√d + mask) v in num_heads subspaces of size d, joined by a linear layer.

    query (L, N, E), key (S, N, kdim) and value (S, N, vdim). With batch_first=True N comes first;
    without a batch it is left out. kdim and vdim are E unless given. add_bias_kv: one more key and
    value, learned; add_zero_attn: one more, of zeros. Vaswani et al., Attention is all you need,
    2017.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: num_heads={num_heads} must divide embed_dim={embed_dim}, "
                "both 1 or more"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(
                f"MultiheadAttention: dropout is a probability from 0 to 1, got {dropout}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn

        def drawn(shape: tuple, draw: Any) -> Parameter:
            return draw(Parameter(create.empty(shape, device=device, dtype=dtype)))

        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = drawn((3 * embed_dim, embed_dim), init.xavier_uniform_)
        else:
            self.q_proj_weight = drawn((embed_dim, embed_dim), init.xavier_uniform_)
            self.k_proj_weight = drawn((embed_dim, self.kdim), init.xavier_uniform_)
            self.v_proj_weight = drawn((embed_dim, self.vdim), init.xavier_uniform_)
        self.in_proj_bias = drawn((3 * embed_dim,), init.zeros_) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        if bias:
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]
        self.bias_k = drawn((1, 1, embed_dim), init.xavier_normal_) if add_bias_kv else None
        self.bias_v = drawn((1, 1, embed_dim), init.xavier_normal_) if add_bias_kv else None

    @property
    def head_dim(self) -> int:
        """The width of a query, a key and a value of one head."""
        return self.embed_dim // self.num_heads

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

        Both have the dtype of the layer and its inputs, for a mask of any dtype.

        key_padding_mask (N, S) and attn_mask (L, S) or (N·num_heads, L, S): boolean, True for keys
        that are ignored (the reverse of scaled_dot_product_attention's), or added to the scores.
        add_bias_kv and add_zero_attn append keys to the S given; masks do not cover these.
        need_weights=False is faster, and keeps no large matrix of scores. The returned weights are
        those after dropout. is_causal: query i takes the keys 0 … i, without an attn_mask or in
        addition to one.
        """
        self._check(query, key, value)
        single, time = query.ndim == 2, 0 if query.ndim == 2 or not self.batch_first else 1
        p = self.dropout if self.training else 0.0
        x = self._packed(query, key, value, single)
        plain = attn_mask is None and key_padding_mask is None and not (need_weights or p)
        if plain and x is not None and self._in_one_op(x, time):
            how = {"scale": self.head_dim**-0.5, "is_causal": is_causal}
            y = op.self_attention(x, heads=self.num_heads, time=time, **how)
            return self.out_proj(y[:, 0] if single else y), None
        q, k, v = self._in_heads(x, query, key, value, time, single)
        mask = self._mask(attn_mask, key_padding_mask, q, k, is_causal)
        k, v, mask = self._with_more_keys(k, v, mask)
        is_causal = is_causal and mask is None
        weights = None
        if need_weights:
            seeds = attention_seeds(q, k, v) if p else None
            how = {"is_causal": is_causal, "scale": q.shape[-1] ** -0.5, "p": p}
            y, weights = plainly(q, k, v, mask, seeds, **how)
            weights = op.mean(weights, axis=1) if average_attn_weights else weights
            weights = op.astype(weights, dtype=y.dtype, copy=False)
            weights = weights[0] if single else weights
        else:
            y = op.scaled_dot_product_attention(q, k, v, mask, p, is_causal)
            y = op.astype(y, dtype=common_dtype(q.dtype, k.dtype, v.dtype), copy=False)
        return self.out_proj(self._joined(y, time, single)), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        if query is key is value and self.in_proj_weight is not None:  # kdim, vdim: embed_dim
            shape = query.shape
            if len(shape) in (2, 3) and shape[-1] == self.embed_dim:
                return
        sizes = {"embed_dim": self.embed_dim, "kdim": self.kdim, "vdim": self.vdim}
        inputs = {"query": query, "key": key, "value": value}
        for (name, x), (what, size) in zip(inputs.items(), sizes.items(), strict=True):
            if x.ndim != query.ndim or x.ndim not in (2, 3) or x.shape[-1] != size:
                raise ValueError(
                    f"MultiheadAttention: {name} must be (L, N, E), (N, L, E) or (L, E) with "
                    f"E = {what} = {size}, like query {query.shape}; got {describe(x)}"
                )
        if key.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                "MultiheadAttention: key and value must have the same length and batch; got "
                f"{key.shape} and {value.shape}"
            )
        batch = 0 if self.batch_first else 1
        if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
            raise ValueError(
                f"MultiheadAttention: query {query.shape} and key {key.shape} must have the same "
                f"batch size, in axis {batch} with batch_first={self.batch_first}"
            )

    def _packed(self, query: Tensor, key: Tensor, value: Tensor, single: bool) -> Any:
        """The three linear maps of one array, side by side; None where they are of several."""
        if not (query is key is value) or self.in_proj_weight is None:
            return None
        x = op.linear(query, self.in_proj_weight, self.in_proj_bias)
        return op.expand_dims(x, axis=1) if single else x

    def _in_one_op(self, x: Tensor, time: int) -> bool:
        """Whether attention without masks and dropout is one op: of arrays that it is quick for."""
        n, length = x.shape[1 - time], x.shape[time]
        scores = n * self.num_heads * length * length
        more_keys = self.bias_k is not None or self.add_zero_attn
        return (
            not more_keys and x.dtype.char in "fd" and x.device == "cpu" and scores <= MOST_SCORES
        )

    def _in_heads(
        self, x: Any, query: Tensor, key: Tensor, value: Tensor, time: int, single: bool
    ) -> Any:
        """(q, k, v) in heads; x: all of them, if they are of one array."""
        if x is not None:
            return op.split_heads(x, heads=self.num_heads, time=time)
        e, w, b = self.embed_dim, self.in_proj_weight, self.in_proj_bias
        rows = [slice(i * e, (i + 1) * e) for i in range(3)]
        weights: Any = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if w is not None:
            weights = [w[i] for i in rows]
        return [
            self._heads(op.linear(x, w, None if b is None else b[i]), time, single)
            for x, w, i in zip((query, key, value), weights, rows, strict=True)
        ]

    def _with_more_keys(self, k: Tensor, v: Tensor, mask: Any) -> tuple:
        """k, v and mask with the learned key and the zero key behind, where they are asked for."""
        n, heads, _, d = k.shape
        more = 0
        if self.bias_k is not None:
            bias_k, bias_v = (
                op.broadcast_to(op.reshape(b, shape=(1, heads, 1, d)), shape=(n, heads, 1, d))
                for b in (self.bias_k, self.bias_v)
            )
            k, v, more = _behind(k, bias_k), _behind(v, bias_v), 1
        if self.add_zero_attn:
            zero = create.zeros((n, heads, 1, d), dtype=k.dtype, device=k.device)
            k, v, more = _behind(k, zero), _behind(v, zero), more + 1
        if more and mask is not None:
            always = 1 if mask.dtype.kind == "b" else 0
            end = create.full((*mask.shape[:-1], more), always, dtype=mask.dtype, device=k.device)
            mask = op.concatenate((mask, end), axis=-1)
        return k, v, mask

    def _heads(self, x: Tensor, time: int, single: bool) -> Tensor:
        """(N, heads, L, d)"""
        x = op.reshape(x, shape=(*x.shape[:-1], self.num_heads, self.head_dim))
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
        """All masks as one, in scaled_dot_product_attention's sense; None if there is none.

        That of is_causal is among them where it is not the only one.
        """
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
        more_keys = self.bias_k is not None or self.add_zero_attn
        if is_causal and (masks or more_keys):
            masks.append(create.as_tensor(np.tri(length, keys, dtype=bool), device=q.device))
        if len(masks) < 2:
            return masks[0] if masks else None
        if all(m.dtype.kind == "b" for m in masks):
            return reduce(op.logical_and, masks)
        added = [op.where(m, 0.0, -np.inf) if m.dtype.kind == "b" else m for m in masks]
        return op.astype(reduce(op.add, added), dtype=accumulator(q.dtype) or q.dtype)

    def extra_repr(self) -> str:
        text = f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}"
        if self.in_proj_weight is None:
            text += f", kdim={self.kdim}, vdim={self.vdim}"
        text += ", add_bias_kv=True" if self.bias_k is not None else ""
        return text + (", add_zero_attn=True" if self.add_zero_attn else "")


def _behind(x: Tensor, more: Tensor) -> Tensor:
    return op.concatenate((x, more), axis=2)


def _taking_part(mask: Any) -> Tensor:
    """A boolean mask turned round; an added one as it is."""
    mask = create.as_tensor(mask)
    if mask.dtype.kind in "iu":  # as numbers to be added, 1 would hardly mask anything
        raise TypeError(
            "MultiheadAttention: a mask is boolean (True: left out) or floating (added); got "
            f"{describe(mask)}"
        )
    return op.logical_not(mask) if mask.dtype.kind == "b" else mask
