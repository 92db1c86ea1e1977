"""Normalisation layers. Names, argument order, defaults and state names are PyTorch's."""

from typing import Any

import numpy as np

from ..backends.device import at, to_host
from ..engine.graph import raw
from ..engine.registry import op
from ..engine.versions import note_write
from ..errors import TransformError
from ..modes.saving import is_recomputing
from ..ops.axes import in_wide
from ..ops.scaling import is_lost, is_normal, overflow_ignored, power_of_two
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from . import init
from .conv import as_tuple
from .linear import empty
from .module import Module
from .parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Scaled(Module):
    """Base of the norms with a weight that starts as ones and a bias of zeros, each optional."""

    weight: Parameter | None
    bias: Parameter | None = None

    def reset_parameters(self) -> None:
        """Begin again: ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _ChannelNorm(_Scaled):
    """Base of batch and instance norms: (C,) weight, bias and running statistics, each optional."""

    ndims: tuple[int, ...]  # how many axes x may have
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
        *,
        bias: bool = True,
    ):
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.weight = empty(num_features, device, dtype) if affine else None
        self.bias = empty(num_features, device, dtype) if affine and bias else None
        mean = var = count = None
        if track_running_stats:
            mean = create.empty(num_features, device=device, dtype=dtype)
            var = create.empty(num_features, device=device, dtype=dtype)
            count = create.zeros((), device=device, dtype=np.int64)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the batches seen: mean 0 and variance 1."""
        if self.running_mean is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)  # type: ignore[arg-type]
            init.zeros_(self.num_batches_tracked)  # type: ignore[arg-type]

    def reset_parameters(self) -> None:
        """Begin again: ones and zeros, and no batch seen."""
        self.reset_running_stats()
        super().reset_parameters()

    def _checked(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        if x.ndim not in self.ndims:
            axes = " or ".join(map(str, self.ndims))
            raise ValueError(f"{name}: x must have {axes} axes, got shape {x.shape}")
        return x

    def _weight_for(self, x: Tensor, axis: int) -> Any:
        """The weight, after a check of x's channels: in the layer's words, which the op has not.

        It is read once: a parametrized weight is computed at each read.
        """
        name, weight = type(self).__name__, self.weight
        by_channel = self.running_mean if weight is None else weight
        if by_channel is not None and by_channel.shape != (x.shape[axis],):
            raise ValueError(
                f"{name}: x {x.shape} has {x.shape[axis]} channels (axis {axis}), and this layer "
                f"was made for num_features={self.num_features}; make it as "
                f"{name}({x.shape[axis]}), or check the layer before it"
            )
        return weight

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}{_without_bias(self)}"
        )


class _BatchNorm(_ChannelNorm):
    def _momentum(self) -> float:
        """The weight of this batch; momentum=None: 1/n, which makes the statistics averages."""
        if self.num_batches_tracked is not None and self.training and not is_recomputing():
            count = raw(self.num_batches_tracked)  # under vmap those of all examples
            with at(count):
                count[...] += 1
            note_write(count, f"{type(self).__name__}.forward")
        if self.momentum is not None:
            return self.momentum
        if self.num_batches_tracked is None or not self.training:
            return 1.0  # nothing moves by it
        counts = np.unique(to_host(raw(self.num_batches_tracked)))
        if counts.size > 1:
            raise TransformError(
                f"vmap: {type(self).__name__}(momentum=None) has seen another number of batches in "
                f"each example, {counts.tolist()}; stack modules that have seen as many"
            )
        return 1 / max(int(counts[0]), 1)

    def forward(self, x: Tensor) -> Tensor:
        by_batch = self.training or self.running_mean is None
        weight = self._weight_for(self._checked(x), 1)
        return op.batch_norm(
            x, self.running_mean, self.running_var, weight, self.bias,
            by_batch, self._momentum(), self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """(x − mean)/√(var + eps) · weight + bias for each channel of x (N, C) or (N, C, L).

    In training, mean and var are those of the batch, and running_mean and running_var move towards
    them; in evaluation these two are used.
    """

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(x − mean)/√(var + eps) · weight + bias for each channel of x (N, C, H, W)"""

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """(x − mean)/√(var + eps) · weight + bias for each channel of x (N, C, D, H, W)"""

    ndims = (5,)


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: Any = np.float32,
        *,
        bias: bool = True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        by_input = self.training or self.running_mean is None
        one = self._checked(x).ndim == self.ndims[0]  # one example without a batch axis
        weight = self._weight_for(x, 0 if one else 1)
        y = op.instance_norm(
            op.expand_dims(x, axis=0) if one else x, self.running_mean, self.running_var,
            weight, self.bias, by_input, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return y[0] if one else y


class InstanceNorm1d(_InstanceNorm):
    """(x − mean)/√(var + eps) · weight + bias over each row of x (N, C, L) or (C, L)"""

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """(x − mean)/√(var + eps) · weight + bias over each image of x (N, C, H, W) or (C, H, W)"""

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm2d's form in three dimensions: x (N, C, D, H, W) or (C, D, H, W)."""

    ndims = (4, 5)


class LayerNorm(_Scaled):
    """(x − mean)/√(var + eps) · weight + bias over the last axes, of normalized_shape"""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.normalized_shape = as_tuple(normalized_shape, 1)
        self.eps = eps
        self.elementwise_affine = affine = elementwise_affine
        self.weight = empty(self.normalized_shape, device, dtype) if affine else None
        self.bias = empty(self.normalized_shape, device, dtype) if affine and bias else None
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = self.weight is not None
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"
        return text + _without_bias(self)


class RMSNorm(_Scaled):
    """x/√(mean x² + eps) · weight over the last axes; eps=None: 2.2e-16 for float64, else 1.2e-7"""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.normalized_shape = as_tuple(normalized_shape, 1)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight = empty(self.normalized_shape, device, dtype) if elementwise_affine else None
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return op.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        affine = self.weight is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"


class GroupNorm(_Scaled):
    """(x − mean)/√(var + eps) · weight + bias over groups of channels of x (N, C, ...)"""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
        *,
        bias: bool = True,
    ):
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_groups={num_groups} must divide num_channels={num_channels}"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.weight = empty(num_channels, device, dtype) if affine else None
        self.bias = empty(num_channels, device, dtype) if affine and bias else None
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if weight is not None and x.ndim > 1 and weight.shape != (x.shape[1],):
            raise ValueError(
                f"GroupNorm: x {x.shape} has {x.shape[1]} channels (axis 1), and this layer was "
                f"made for num_channels={self.num_channels}; make it as GroupNorm("
                f"{self.num_groups}, {x.shape[1]}), or check the layer before it"
            )
        return op.group_norm(x, self.num_groups, weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = self.weight is not None
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={affine}"
        return text + _without_bias(self)


class LocalResponseNorm(Module):
    """x / (k + alpha · mean of x² over `size` channels around each)^beta ;  channels on axis 1

    The mean counts channels beyond the ends as zeros (Krizhevsky et al., 2012; alpha by size).
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        if size < 1:
            raise ValueError(f"LocalResponseNorm: size must be 1 or more, got {size}")
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 3:
            raise ValueError(f"LocalResponseNorm: x must be (n, c, *space), got shape {x.shape}")
        return in_wide(self._normed, x) if x.size else x + 0

    def _normed(self, x: Tensor) -> Tensor:
        with overflow_ignored():
            base = self.k + self.alpha * self._means(x)
        if not is_lost(base, 3):
            return x / base**self.beta
        # x = s z: z s^(1 − 2 beta) / (k/s² + alpha · mean of z²)^beta, where it is lost alone
        unit, kept = power_of_two(x, axis=1), is_normal(base, 3)
        z = x / unit
        small = self.k / unit / unit + self.alpha * self._means(z)
        far = z / op.where(kept, 1, small) ** self.beta * unit ** (1 - 2 * self.beta)
        return op.where(kept, x / op.where(kept, base, 1) ** self.beta, far)

    def _means(self, x: Tensor) -> Tensor:
        """Of the squares over `size` channels around each."""
        n, c = x.shape[:2]
        squares = op.swapaxes(op.reshape(op.square(x), shape=(n, c, -1)), axis1=1, axis2=2)
        before = self.size // 2
        padded = op.pad(squares, [(0, 0), (0, 0), (before, self.size - 1 - before)])
        means = op.avg_pool1d(padded, self.size, 1)
        return op.reshape(op.swapaxes(means, axis1=1, axis2=2), shape=x.shape)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _without_bias(norm: Any) -> str:
    """What repr says of a norm that scales and does not shift."""
    return ", bias=False" if norm.weight is not None and norm.bias is None else ""
