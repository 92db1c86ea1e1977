"""Layers without parameters that change shapes. Names and defaults are PyTorch's."""

from typing import Any

from ..engine.registry import op
from ..ops.axes import axis_of
from ..ops.combine import flatten
from ..tensor_api.tensor import Tensor
from .module import Module


class Flatten(Module):
    """Merge axes start_dim to end_dim into one: (n, c, h, w) becomes (n, c·h·w)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split axis dim into several: (n, c·h·w) becomes (n, c, h, w) with dim=1, (c, h, w)."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        dim = axis_of(self.dim, x.ndim)
        return x.reshape(*x.shape[:dim], *self.unflattened_size, *x.shape[dim + 1 :])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Upsample(Module):
    """x (n, c, *space) in the new size, or scale_factor times as long

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        self.recompute_scale_factor = recompute_scale_factor
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        return op.upsample(
            x, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class PixelShuffle(Module):
    """(..., c·r², h, w) becomes (..., c, h·r, w·r): Shi et al., Real-time super-resolution, 2016"""

    def __init__(self, upscale_factor: int):
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        r = self.upscale_factor
        *before, c, h, w = _image("PixelShuffle", x)
        _require_whole("PixelShuffle", x, f"upscale_factor² = {r}²", r * r, c)
        n = len(before)
        apart = x.reshape(*before, c // (r * r), r, r, h, w)
        y = apart.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
        return y.reshape(*before, c // (r * r), h * r, w * r)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., c, h·r, w·r) becomes (..., c·r², h, w): the inverse of PixelShuffle"""

    def __init__(self, downscale_factor: int):
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        r = self.downscale_factor
        *before, c, h, w = _image("PixelUnshuffle", x)
        _require_whole("PixelUnshuffle", x, f"downscale_factor = {r}", r, h, w)
        n = len(before)
        apart = x.reshape(*before, c, h // r, r, w // r, r)
        y = apart.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
        return y.reshape(*before, c * r * r, h // r, w // r)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


def _image(name: str, x: Tensor) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ValueError(f"{name}: x must be images (..., c, h, w), got shape {x.shape}")
    return x.shape


def _require_whole(name: str, x: Tensor, what: str, divisor: int, *sizes: int) -> None:
    if divisor < 1 or any(size % divisor for size in sizes):
        axes = "the number of channels" if len(sizes) == 1 else "height and width"
        raise ValueError(
            f"{name}: {what} must be 1 or more and divide {axes} of x (..., c, h, w), whose shape "
            f"is {x.shape}"
        )


class ChannelShuffle(Module):
    """Interleave the channels (axis 1) of g groups: first the first of each group, then the second.

    Channel i of group j comes to place i·g + j. Zhang et al., ShuffleNet, 2018.
    """

    def __init__(self, groups: int):
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 3:
            raise ValueError(f"ChannelShuffle: x must be (n, c, *space), got shape {x.shape}")
        n, c, *space = x.shape
        if self.groups < 1 or c % self.groups:
            raise ValueError(
                f"ChannelShuffle: groups={self.groups} must be 1 or more and divide the {c} "
                f"channels (axis 1) of x {x.shape}"
            )
        apart = x.reshape(n, self.groups, c // self.groups, *space)
        return apart.swapaxes(1, 2).reshape(x.shape)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode "nearest" """

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode "bilinear" and align_corners"""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, "bilinear", True)
