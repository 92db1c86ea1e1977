"""mg.nn.functional: the ops that layers are made of, by PyTorch's names and argument order.

    import minigrad.nn.functional as F
    loss = F.cross_entropy(F.relu(x @ w), target)

Arguments have PyTorch's names, input=, target=, query=, dim=, or ours, x=, q=, axis= (named.py).
Where mg has the same op under NumPy's name or a shorter one (mg.mse, mg.im2col), it is that op.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.registry import op
from ..ops import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    affine_grid,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cross_entropy,
    ctc_loss,
    fractional_max_pool2d,
    fractional_max_pool3d,
    gelu,
    grid_sample,
    group_norm,
    hardshrink,
    instance_norm,
    layer_norm,
    linear,
    linear_cross_entropy,
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
    prelu,
    rms_norm,
    scaled_dot_product_attention,
    sigmoid,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
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
from ..ops.axes import array_like, constant_like, on_host
from ..ops.loss.margins import gaussian_nll as gaussian_nll_loss
from ..ops.loss.margins import margin_ranking as margin_ranking_loss
from ..ops.loss.margins import multi_margin as multi_margin_loss
from ..ops.loss.margins import multilabel_margin as multilabel_margin_loss
from ..ops.loss.margins import multilabel_soft_margin as multilabel_soft_margin_loss
from ..ops.loss.margins import soft_margin as soft_margin_loss
from ..tensor_api import create, random_tensors
from ..tensor_api.help import missing_names_of as _missing_names_of
from ..tensor_api.tensor import Tensor
from . import activation, loss, norm, shape
from . import dropout as _dropout
from . import embedding as _embedding
from .inplace import dropout_with_inplace, takes_inplace
from .linear import bilinear
from .named import by_pytorchs_names
from .padding import padded
from .similarity import cosine_similarity, normalize, pairwise_distance

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "embedding", "embedding_bag", "feature_alpha_dropout", "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d", "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm",
    "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu",
    "linear", "linear_cross_entropy", "local_response_norm", "log_softmax", "logsigmoid",
    "lp_pool1d", "lp_pool2d",
    "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "normalize", "one_hot",
    "pad", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu",
    "relu", "relu6", "rms_norm", "rrelu", "scaled_dot_product_attention", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink",
    "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold",
]  # fmt: skip


# -- with inplace=, which has no effect (nn/inplace.py) ----------------------------------------

relu, relu6, selu, silu, mish = map(takes_inplace, (op.relu, op.relu6, op.selu, op.silu, op.mish))
elu, celu, leaky_relu = map(takes_inplace, (op.elu, op.celu, op.leaky_relu))
hardtanh, hardswish, hardsigmoid = map(takes_inplace, (op.hardtanh, op.hardswish, op.hardsigmoid))
dropout, dropout1d, dropout2d = map(dropout_with_inplace, ("dropout", "dropout1d", "dropout2d"))
alpha_dropout = dropout_with_inplace("alpha_dropout", trains=False)
feature_alpha_dropout = dropout_with_inplace("feature_alpha_dropout", trains=False)


def dropout3d(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of x (n, c, d, h, w) or (c, d, h, w); inplace has no effect."""
    layer = _dropout.Dropout3d(p)
    layer.training = training
    return layer(array_like(x))


def rrelu(
    x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """x for x ≥ 0, else a x with a drawn from lower to upper in training, else their mean"""
    layer = activation.RReLU(lower, upper)
    layer.training = training
    return layer(array_like(x))


def softplus(x: Any, beta: float = 1.0, threshold: float | None = None) -> Tensor:
    """log(1 + e^(beta x)) / beta, exact; with threshold, x itself where beta x is above it."""
    return activation.Softplus(beta, threshold)(x)


# -- over one axis, which PyTorch calls dim ---------------------------------------------------


def softmax(x: Any, dim: int = -1, *, dtype: Any = None) -> Tensor:
    """e^xᵢ / Σⱼ e^xⱼ along dim: mg.softmax. dtype: x is brought to it first."""
    return op.softmax(_in(dtype, x), axis=dim)


def log_softmax(x: Any, dim: int = -1, *, dtype: Any = None) -> Tensor:
    """xᵢ − log Σⱼ e^xⱼ along dim: mg.log_softmax. dtype as for softmax."""
    return op.log_softmax(_in(dtype, x), axis=dim)


def softmin(x: Any, dim: int = -1, *, dtype: Any = None) -> Tensor:
    """softmax of −x."""
    return op.softmax(-_in(dtype, array_like(x)), axis=dim)


def _in(dtype: Any, x: Any) -> Any:
    return x if dtype is None else op.astype(x, dtype=dtype)


def glu(x: Any, dim: int = -1) -> Tensor:
    """The first half of x times σ of the second: mg.glu."""
    return op.glu(x, axis=dim)


# -- shapes -----------------------------------------------------------------------------------

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """x padded at the ends of its last axes. pad is (left, right) of the last axis, then of the one
    before it, and so on. A negative number cuts off. mode: constant, reflect, replicate or
    circular.
    """
    if mode not in _PAD_MODES:
        raise ValueError(f"pad: mode={mode!r}; choose {', '.join(_PAD_MODES)}")
    x, pairs = array_like(x), isinstance(pad, list | tuple) and len(pad) % 2 == 0
    if not pairs or len(pad) > 2 * x.ndim:
        raise ValueError(
            f"pad: {pad!r} must be pairs (left, right) for the last axes of x {x.shape}"
        )
    return padded("pad", x, pad, _PAD_MODES[mode], value or 0)


def one_hot(x: Any, num_classes: int = -1) -> Tensor:
    """Class numbers (...) → (..., num_classes): 1 at the number, 0 elsewhere. −1: as many as x has.

    A constant of int64, as PyTorch's.
    """
    x = create.as_tensor(x)
    seen = on_host(x)  # under vmap the numbers of all examples
    if seen.dtype.kind not in "iu":
        raise TypeError(f"one_hot: x must hold class indices, got {seen.dtype}")
    if num_classes < -1:
        raise ValueError(f"one_hot: num_classes is a number of classes, or -1; got {num_classes}")
    classes = int(seen.max()) + 1 if num_classes < 0 and seen.size else int(num_classes)
    if seen.size and not (0 <= seen.min() and seen.max() < classes):
        raise ValueError(
            f"one_hot: class indices from {seen.min()} to {seen.max()} do not lie in "
            f"0..{classes - 1}"
        )
    numbers = constant_like(np.arange(classes), x)
    return op.astype(op.equal(op.expand_dims(x, axis=-1), numbers), dtype=np.int64)


def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """nn.PixelShuffle: (..., c·r², h, w) → (..., c, h·r, w·r)."""
    return shape.PixelShuffle(upscale_factor)(array_like(x))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """nn.PixelUnshuffle: (..., c, h·r, w·r) → (..., c·r², h, w)."""
    return shape.PixelUnshuffle(downscale_factor)(array_like(x))


# -- activations and losses that mg has as modules --------------------------------------------


def threshold(x: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value; a NaN stays visible"""
    return activation.Threshold(threshold, value)(array_like(x))


def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Σ target (log target − x) for log-probabilities x; also reduction="batchmean"."""
    return loss.KLDivLoss(reduction, log_target)(x, target)


def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d²/(2 beta) where |d| < beta, else |d| − beta/2, for d = x − target"""
    return loss.SmoothL1Loss(reduction, beta)(x, target)


def hinge_embedding_loss(
    x: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """x where the target is 1, max(0, margin − x) where it is −1; both for any other target"""
    return loss.HingeEmbeddingLoss(margin, reduction)(array_like(x), target)


def poisson_nll_loss(
    x: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """e^x − target x for a log-rate x, or x − target log(x + eps) for a rate: mg.poisson_nll."""
    return op.poisson_nll(x, target, log_input, full, eps, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *, distance_function: Any = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, d(anchor, positive) − d(anchor, negative) + margin) for a distance of one's own"""
    layer = loss.TripletMarginWithDistanceLoss(
        distance_function=distance_function, margin=margin, swap=swap, reduction=reduction
    )
    return layer(anchor, positive, negative)


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise)/tau) along dim: a draw of a class, relaxed

    hard: one-hot in the forward, the relaxed draw's gradient (Jang et al., 2017). eps is unused,
    as in PyTorch.
    """
    logits = create.as_tensor(logits)
    # 16 bits are too few: a draw would round to 1, whose noise is infinite
    wide = np.float32 if logits.dtype.itemsize == 2 else logits.dtype
    noise = -op.log(-op.log(random_tensors.rand_like(logits, wide) * (1 - 1e-7) + 1e-30))
    y = op.softmax((logits + op.astype(noise, dtype=logits.dtype)) / tau, axis=dim)
    if not hard:
        return y
    largest = op.argmax(y.detach(), axis=dim, keepdims=True)
    sure = op.put_along_axis(op.zeros_like(y.detach()), largest, 1.0, axis=dim)
    return sure - y.detach() + y


def local_response_norm(
    x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta: nn.LocalResponseNorm."""
    return norm.LocalResponseNorm(size, alpha, beta, k)(array_like(x))


def channel_shuffle(x: Any, groups: int) -> Tensor:
    """Interleave the channels of the groups: nn.ChannelShuffle."""
    return shape.ChannelShuffle(groups)(array_like(x))


def embedding(
    x: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """weight[x] for row numbers x of any shape and weight (n, d): nn.Embedding."""
    x = create.as_tensor(x)
    if max_norm is not None:
        _embedding.cut(weight, x, max_norm, norm_type, "embedding")
    return _embedding.rows_of(weight, x, x, padding_idx, scale_grad_by_freq)


def embedding_bag(
    x: Any, weight: Any, offsets: Any = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of rows of weight (n, d), for bags of row numbers: nn.EmbeddingBag."""
    weight = array_like(weight)
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag: weight must be (rows, width), got {weight.shape}")
    rows, width = weight.shape
    layer = _embedding.EmbeddingBag(
        rows, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
        create.empty(weight.shape), include_last_offset, padding_idx,
    )  # fmt: skip
    vars(layer)["weight"] = weight  # a tensor, which the attribute would refuse
    return layer(x, offsets, per_sample_weights)


for _name in __all__:
    globals()[_name] = by_pytorchs_names(globals()[_name], _name)

__getattr__ = _missing_names_of(__name__)
