"""Transformers of attention layers. Names, argument order, defaults and state names are PyTorch's.

Vaswani et al., Attention is all you need, 2017; norm_first is the form of Xiong et al., 2020.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from . import init
from .attention import MultiheadAttention
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .norm import LayerNorm


def _activation(owner: str, activation: Any) -> Callable:
    """The function between the two linear layers; ValueError for an unknown name."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(f"{owner}: activation is 'relu', 'gelu' or a function, got {activation!r}")
    return getattr(op, activation)


class TransformerEncoderLayer(Module):
    """x + attention, then x + feed-forward, each with layer norm: after the sum, or before it.

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
        self.activation = _activation("TransformerEncoderLayer", activation)

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


class TransformerDecoderLayer(Module):
    """x + attention to itself, x + attention to memory, x + feed-forward, each with layer norm.

    tgt and memory (L, N, E), or (N, L, E) with batch_first=True; activation: "relu", "gelu" or a
    function. The norm is behind each sum, or before with norm_first=True.
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
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        heads = (d_model, nhead, dropout, bias)
        self.self_attn = MultiheadAttention(*heads, batch_first=batch_first, **kind)
        self.multihead_attn = MultiheadAttention(*heads, batch_first=batch_first, **kind)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **kind)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation("TransformerDecoderLayer", activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The same shape as tgt; masks as in MultiheadAttention."""
        own = tgt_key_padding_mask, False, tgt_mask
        other = memory_key_padding_mask, False, memory_mask

        def to_itself(x: Tensor) -> Tensor:
            return self.dropout1(self.self_attn(x, x, x, *own, is_causal=tgt_is_causal)[0])

        def to_memory(x: Tensor) -> Tensor:
            y, _ = self.multihead_attn(x, memory, memory, *other, is_causal=memory_is_causal)
            return self.dropout2(y)

        def feed(x: Tensor) -> Tensor:
            return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        x = tgt
        parts = (to_itself, self.norm1), (to_memory, self.norm2), (feed, self.norm3)
        for part, norm in parts:
            x = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return x


class _Stack(Module):
    """num_layers copies of a layer, one after the other, and a last norm."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None):
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def _finished(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of num_layers copies of an encoder layer; norm, if given, comes last.

    enable_nested_tensor= and mask_check=, which choose how PyTorch computes it, have no effect.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The same shape as src; masks as in MultiheadAttention."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return self._finished(src)


class TransformerDecoder(_Stack):
    """A stack of num_layers copies of a decoder layer; norm, if given, comes last."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The same shape as tgt; masks as in MultiheadAttention."""
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return self._finished(tgt)


class Transformer(Module):
    """An encoder of the source and a decoder of the target that attends to it.

    src (S, N, E) and tgt (T, N, E), or (N, S, E) and (N, T, E) with batch_first=True. A
    custom_encoder or custom_decoder replaces the stack that is built by default.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        one = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
               norm_first, bias, device, dtype)  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **kind)

        # `is None`, since a module of no entries is false
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*one)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*one)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The same shape as tgt; masks as in MultiheadAttention."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ValueError(
                f"Transformer: src and tgt must end in d_model={self.d_model} features, got "
                f"{src.shape} and {tgt.shape}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: str | None = None, dtype: Any = np.float32
    ) -> Tensor:
        """(sz, sz) to be added to scores: −∞ above the diagonal, else 0."""
        return create.as_tensor(np.triu(np.full((sz, sz), -np.inf, dtype), 1), device=device)
