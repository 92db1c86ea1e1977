"""Losses as modules: each is the op of its name. Names and defaults are PyTorch's."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..engine.registry import op
from ..ops.axes import array_like, in_wide
from ..ops.loss.reduction import check_no_pairs, check_reduction, reduced
from ..tensor_api.tensor import Tensor
from .arguments import at_least_zero
from .linear import Linear
from .module import Module
from .similarity import pairwise_distance

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """Base: the op `function` with the options the instance holds.

    reduction: mean, sum, none, or one of `more_reductions`.
    """

    function = ""
    options: tuple[str, ...] = ()
    more_reductions: tuple[str, ...] = ()

    def __init__(self, reduction: str = "mean"):
        self._set(reduction)

    def _set(self, reduction: str, **options: Any) -> None:
        check_reduction(type(self).__name__, reduction, *self.more_reductions)
        self.reduction = reduction
        self.options = tuple(options)
        for name, value in options.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: Tensor, target: Any) -> Tensor:
        return self._of(x, target)

    def _of(self, *inputs: Any) -> Tensor:
        options = {name: getattr(self, name) for name in self.options}
        return getattr(op, self.function)(*inputs, reduction=self.reduction, **options)


class MSELoss(_Loss):
    """mean (x − target)²"""

    function = "mse"


class L1Loss(_Loss):
    """mean |x − target|"""

    function = "l1"


class HuberLoss(_Loss):
    """d²/2 where |d| ≤ delta, else delta (|d| − delta/2), for d = x − target"""

    function = "huber"

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        self._set(reduction, delta=delta)


class SmoothL1Loss(_Loss):
    """Huber's loss with delta = beta, divided by beta; |d| for beta = 0"""

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        at_least_zero("SmoothL1Loss", beta=beta)
        self._set(reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Any) -> Tensor:
        if not self.beta:
            return op.l1(x, target, reduction=self.reduction)

        def loss(x: Any, target: Any) -> Any:
            return op.huber(x, target, reduction=self.reduction, delta=self.beta) / self.beta

        # 16 bits may not hold beta times the loss
        return in_wide(loss, array_like(x), array_like(target))


class CrossEntropyLoss(_Loss):
    """−log softmax(x)[target] ;  x (n, c, ...), target class indices, or probabilities like x

    weight (c,) scales the classes; label_smoothing mixes the target with the uniform one.
    """

    function = "cross_entropy"

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        self._set(
            reduction, weight=weight, ignore_index=ignore_index, label_smoothing=label_smoothing
        )


class LinearCrossEntropyLoss(_Loss):
    """CrossEntropyLoss of a Linear's results, whose logits are never all in memory

    x (n, in_features), or (in_features,) for one sample; target class indices (n,), or
    probabilities (n, num_classes), for which the logits are made as a whole. The map is `linear`.
    out_features (d₁, …) asks for a distribution over the classes at each of these positions.
    Targets are (n, d₁, …), and linear.weight is (num_classes · d₁ ⋯, in_features). weight,
    ignore_index (None for −100) and label_smoothing as in CrossEntropyLoss; options have no effect.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: str | None = None,
        dtype: Any = np.float32,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ):
        if weight is not None and np.shape(weight) != (num_classes,):
            raise ValueError(
                f"LinearCrossEntropyLoss: weight must have shape ({num_classes},), one entry for "
                f"each class, got {np.shape(weight)}"
            )
        self._set(
            reduction, weight=weight, ignore_index=ignore_index, label_smoothing=label_smoothing
        )
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.linear = Linear(in_features, num_classes * prod(out_features), bias, device, dtype)

    def forward(self, x: Tensor, target: Any) -> Tensor:
        w, b = self.linear.weight, self.linear.bias
        if self.out_features:
            lead = (self.num_classes, *self.out_features)
            w = op.reshape(w, shape=(*lead, w.shape[1]))
            b = None if b is None else op.reshape(b, shape=lead)
        options = {name: getattr(self, name) for name in self.options}
        return op.linear_cross_entropy(
            x, w, target, linear_bias=b, reduction=self.reduction, **options
        )


class NLLLoss(_Loss):
    """−x[target] for log-probabilities x (n, c, ...)"""

    function = "nll"

    def __init__(self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"):
        self._set(reduction, weight=weight, ignore_index=ignore_index)


class BCELoss(_Loss):
    """−t log p − (1 − t) log(1 − p), logarithms not below −100"""

    function = "bce"

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        self._set(reduction, weight=weight)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(x), without overflow; pos_weight scales the term of the targets 1"""

    function = "bce_with_logits"

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        self._set(reduction, weight=weight, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """t (log t − x) for log-probabilities x; log_target=True: the target is log t

    reduction="batchmean" divides the sum by the length of the first axis: the divergence per
    example, which "mean" is not.
    """

    function = "kl_div"

    more_reductions = ("batchmean",)

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        self._set(reduction, log_target=log_target)


class HingeEmbeddingLoss(_Loss):
    """x where target is 1, max(0, margin − x) where it is −1

    Any other target counts as both, as in PyTorch: labels 0 and 1 are to become −1 and 1 first.
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        self._set(reduction)
        self.margin = margin

    def forward(self, x: Tensor, target: Any) -> Tensor:
        x, target = array_like(x), array_like(target)
        check_no_pairs(type(self).__name__, x=x, target=target)
        near, far = op.where(target != -1, x, 0), op.where(target != 1, op.relu(self.margin - x), 0)
        return reduced(type(self).__name__, near + far, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 − cos(a, b) where target is 1, max(0, cos(a, b) − margin) where it is −1, else 0"""

    function = "cosine_embedding"

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._set(reduction, margin=margin)

    def forward(self, a: Tensor, b: Tensor, target: Any) -> Tensor:
        return self._of(a, b, target)


class TripletMarginLoss(_Loss):
    """max(0, ‖anchor − positive‖ₚ − ‖anchor − negative‖ₚ + margin)

    swap: ‖positive − negative‖ₚ in place of the negative's distance, where it is smaller.
    """

    function = "triplet"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ):
        at_least_zero("TripletMarginLoss", margin=margin)
        self._set(reduction, margin=margin, p=p, eps=eps, swap=swap)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._of(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, d(anchor, positive) − d(anchor, negative) + margin), d a function, else ‖a − b‖₂"""

    def __init__(
        self,
        *,
        distance_function: Callable | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ):
        at_least_zero("TripletMarginWithDistanceLoss", margin=margin)
        self._set(reduction)
        self.distance_function = distance_function or pairwise_distance
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        d = self.distance_function
        away = d(anchor, negative)
        away = op.minimum(away, d(positive, negative)) if self.swap else away
        y = op.relu(d(anchor, positive) - away + self.margin)
        return reduced(type(self).__name__, y, self.reduction)


class MarginRankingLoss(_Loss):
    """max(0, −target (a − b) + margin) for targets ±1"""

    function = "margin_ranking"

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        self._set(reduction, margin=margin)

    def forward(self, a: Tensor, b: Tensor, target: Any) -> Tensor:
        return self._of(a, b, target)


class SoftMarginLoss(_Loss):
    """log(1 + e^(−target x)) for targets ±1"""

    function = "soft_margin"


class MultiMarginLoss(_Loss):
    """Σ_{j≠t} max(0, margin − x_t + x_j)^p / c for scores x (n, c) and class indices t (n,)"""

    function = "multi_margin"

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
    ):
        self._set(reduction, p=p, margin=margin, weight=weight)


class MultiLabelMarginLoss(_Loss):
    """Σ_{t in target, j not} max(0, 1 − x_t + x_j) / c ;  target (n, c): numbers, −1 behind them"""

    function = "multilabel_margin"


class MultiLabelSoftMarginLoss(_Loss):
    """The mean over classes of BCEWithLogitsLoss, targets 0 or 1"""

    function = "multilabel_soft_margin"

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        self._set(reduction, weight=weight)


class GaussianNLLLoss(_Loss):
    """(log var + (x − target)²/var) / 2, var at least eps; full adds log(2π)/2"""

    function = "gaussian_nll"

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        self._set(reduction, full=full, eps=eps)

    def forward(self, x: Tensor, target: Any, var: Any) -> Tensor:
        return self._of(x, target, var)


class PoissonNLLLoss(_Loss):
    """e^x − target x for a log-rate x; log_input=False: x − target log(x + eps) for a rate"""

    function = "poisson_nll"

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: str = "mean",
    ):
        self._set(reduction, log_input=log_input, full=full, eps=eps)


class CTCLoss(_Loss):
    """−log Σ over all alignments of the target of Π p: log_probs (T, N, C), targets (N, S)

    Graves et al., 2006.
    """

    function = "ctc_loss"

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        self._set(reduction, blank=blank, zero_infinity=zero_infinity)

    def forward(
        self, log_probs: Tensor, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return self._of(log_probs, targets, input_lengths, target_lengths)
