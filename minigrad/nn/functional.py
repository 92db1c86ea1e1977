"""mg.nn.functional: the ops that layers are made of, by PyTorch's names and argument order.

    import minigrad.nn.functional as F
    loss = F.cross_entropy(F.relu(x @ w), target)

Where mg has the same op under NumPy's name or a shorter one (mg.mse, mg.im2col), it is that op.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.registry import op
from ..core.tensor import Tensor
from ..ops import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    alpha_dropout,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    celu,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cross_entropy,
    ctc_loss,
    dropout,
    dropout1d,
    dropout2d,
    elu,
    embedding,
    gelu,
    group_norm,
    hardsigmoid,
    hardswish,
    hardtanh,
    instance_norm,
    layer_norm,
    leaky_relu,
    linear,
    logsigmoid,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    mish,
    prelu,
    relu,
    relu6,
    rms_norm,
    scaled_dot_product_attention,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
)
from ..ops import bce as binary_cross_entropy
from ..ops import bce_with_logits as binary_cross_entropy_with_logits
from ..ops import col2im as fold
from ..ops import cosine_embedding as cosine_embedding_loss
from ..ops import huber as huber_loss
from ..ops import im2col as unfold
from ..ops import l1 as l1_loss
from ..ops import mse as mse_loss
from ..ops import nll as nll_loss
from ..ops import triplet as triplet_margin_loss
from ..ops import upsample as interpolate
from . import activation, loss, shape

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "alpha_dropout", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout",
    "dropout1d", "dropout2d", "elu", "embedding", "fold", "gelu", "glu", "group_norm", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss", "instance_norm",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "nll_loss", "normalize",
    "one_hot", "pad", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu",
    "relu6", "rms_norm", "scaled_dot_product_attention", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "triplet_margin_loss", "unfold",
]  # fmt: skip


# -- over one axis, which PyTorch calls dim ---------------------------------------------------


def softmax(x: Any, dim: int = -1) -> Tensor:
    """e^xᵢ / Σⱼ e^xⱼ along dim: mg.softmax."""
    return op.softmax(x, axis=dim)


def log_softmax(x: Any, dim: int = -1) -> Tensor:
    """xᵢ − log Σⱼ e^xⱼ along dim: mg.log_softmax."""
    return op.log_softmax(x, axis=dim)


def softmin(x: Any, dim: int = -1) -> Tensor:
    """softmax of −x."""
    return op.softmax(-x, axis=dim)


def glu(x: Any, dim: int = -1) -> Tensor:
    """The first half of x times σ of the second: mg.glu."""
    return op.glu(x, axis=dim)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖ₚ, eps), the norm taken along dim."""
    size = op.vector_norm(x, ord=p, axis=dim, keepdims=True)
    return x / op.clip(size, eps, None)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along dim."""
    a, b = (normalize(x, 2.0, dim, eps) for x in op.broadcast_arrays(x1, x2))
    return op.sum(a * b, axis=dim)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """‖x1 − x2 + eps‖ₚ along the last axis."""
    return op.vector_norm(x1 - x2 + eps, ord=p, axis=-1, keepdims=keepdim)


# -- shapes -----------------------------------------------------------------------------------

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """x longer at the ends of its last axes: pad is (left, right) of the last, then of the one
    before it, and so on. mode: constant, reflect, replicate or circular.
    """
    if mode not in _PAD_MODES:
        raise ValueError(f"pad: mode={mode!r}; choose {', '.join(_PAD_MODES)}")
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise ValueError(
            f"pad: {tuple(pad)} must be pairs (left, right) for the last axes of x {x.shape}"
        )
    if min(pad, default=0) < 0:
        raise ValueError(f"pad: lengths must be 0 or more, got {tuple(pad)}; slice x to shorten it")
    pairs = list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    width = ((0, 0),) * (x.ndim - len(pairs)) + tuple(pairs)
    options = {"constant_values": value or 0} if mode == "constant" else {}
    return op.pad(x, width, mode=_PAD_MODES[mode], **options)


def one_hot(x: Any, num_classes: int = -1) -> Tensor:
    """Class numbers (...) → (..., num_classes): 1 at the number, 0 elsewhere. −1: as many as x has.

    A constant of int64, as PyTorch's.
    """
    index = np.asarray(x.detach().numpy() if isinstance(x, Tensor) else x)
    if index.dtype.kind not in "iu":
        raise TypeError(f"one_hot: x must hold class numbers, got {index.dtype}")
    classes = int(index.max()) + 1 if num_classes < 0 and index.size else num_classes
    if index.size and not (0 <= index.min() and index.max() < classes):
        raise ValueError(
            f"one_hot: class numbers from {index.min()} to {index.max()} do not lie in "
            f"0..{classes - 1}"
        )
    return Tensor((index[..., None] == np.arange(classes)).astype(np.int64))


def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """nn.PixelShuffle: (..., c·r², h, w) → (..., c, h·r, w·r)."""
    return shape.PixelShuffle(upscale_factor)(x)


def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """nn.PixelUnshuffle: (..., c, h·r, w·r) → (..., c·r², h, w)."""
    return shape.PixelUnshuffle(downscale_factor)(x)


# -- activations and losses that mg has as modules --------------------------------------------


def tanhshrink(x: Any) -> Tensor:
    """x − tanh x"""
    return x - op.tanh(x)


def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x − lambd above lambd, x + lambd below −lambd, else 0"""
    return activation.Softshrink(lambd)(x)


def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0"""
    return activation.Hardshrink(lambd)(x)


def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else value"""
    return activation.Threshold(threshold, value)(x)


def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Σ target (log target − x) for log-probabilities x; also reduction="batchmean"."""
    return loss.KLDivLoss(reduction, log_target)(x, target)


def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d²/(2 beta) where |d| < beta, else |d| − beta/2, for d = x − target"""
    return loss.SmoothL1Loss(reduction, beta)(x, target)


def hinge_embedding_loss(
    x: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """x where the target is 1, max(0, margin − x) where it is −1"""
    return loss.HingeEmbeddingLoss(margin, reduction)(x, target)
