"""Layers without parameters that change shapes. Names and defaults are PyTorch's."""

import math
from typing import Any

from ..core.registry import op
from ..core.tensor import Tensor
from .conv import Sizes, as_tuple
from .module import Module


class Flatten(Module):
    """Merge axes start_dim to end_dim into one: (n, c, h, w) becomes (n, c·h·w)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Tensor) -> Tensor:
        start = self.start_dim % x.ndim
        end = self.end_dim % x.ndim
        merged = math.prod(x.shape[start : end + 1])
        return x.reshape(*x.shape[:start], merged, *x.shape[end + 1 :])

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split axis dim into several: (n, c·h·w) becomes (n, c, h, w) with dim=1, (c, h, w)."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]):
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        dim = self.dim % x.ndim
        return x.reshape(*x.shape[:dim], *self.unflattened_size, *x.shape[dim + 1 :])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Upsample(Module):
    """x (n, c, *space) in the new size, or scale_factor times as long

    mode: "nearest", or "linear", "bilinear" and "trilinear", which interpolate.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ):
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        mode = "linear" if self.mode == "trilinear" else self.mode
        return op.upsample(x, self.size, self.scale_factor, mode, bool(self.align_corners))

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.size else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class PixelShuffle(Module):
    """(..., c·r², h, w) becomes (..., c, h·r, w·r): Shi et al., Real-time super-resolution, 2016"""

    def __init__(self, upscale_factor: int):
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        r = self.upscale_factor
        *before, c, h, w = x.shape
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
        *before, c, h, w = x.shape
        n = len(before)
        apart = x.reshape(*before, c, h // r, r, w // r, r)
        y = apart.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
        return y.reshape(*before, c * r * r, h // r, w // r)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ZeroPad2d(Module):
    """Zeros around the last two axes; padding: one width, or (left, right, top, bottom)"""

    def __init__(self, padding: Sizes):
        self.padding = as_tuple(padding, 4)

    def forward(self, x: Tensor) -> Tensor:
        left, right, top, bottom = self.padding
        return op.pad(x, [(0, 0)] * (x.ndim - 2) + [(top, bottom), (left, right)])

    def extra_repr(self) -> str:
        return f"{self.padding}"
