"""Convolutions. Names, argument order, defaults, layouts and initial values are PyTorch's."""

import math
from typing import Any

import numpy as np

from ..backends.dtypes import plain_number
from ..engine.registry import op
from ..ops.windows import per_axis, windows
from ..tensor_api.tensor import Tensor
from .linear import draw_evenly, empty
from .module import Module

Sizes = int | tuple[int, ...]

# PyTorch's names for NumPy's ways to pad
_PAD_MODES = {"zeros": "", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def as_tuple(value: Sizes, dims: int) -> tuple[int, ...]:
    """One int for each of `dims` axes; Python's, also where it is NumPy's that are given."""
    values: Any = value if np.ndim(value) else (value,) * dims
    return plain_number(tuple(values))


class _Conv(Module):
    """Base of the convolutions; `dims` is the number of spatial axes."""

    dims = 0
    transposed = False

    def _setup(
        self, channels: tuple[int, int], kernel_size: Sizes, stride: Sizes, padding: Any,
        dilation: Sizes, groups: int, bias: bool, padding_mode: str, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        name, (before, after) = type(self).__name__, channels
        if groups < 1 or before % groups or after % groups:
            raise ValueError(
                f"{name}: groups={groups} must divide in_channels={before} and out_channels={after}"
            )
        if padding_mode not in _PAD_MODES or (self.transposed and padding_mode != "zeros"):
            modes = ["zeros"] if self.transposed else [*_PAD_MODES]
            raise ValueError(f"{name}: padding_mode is one of {modes}, got {padding_mode!r}")
        self.in_channels, self.out_channels = before, after
        self.kernel_size = as_tuple(kernel_size, self.dims)
        self.stride = as_tuple(stride, self.dims)
        self.padding = padding if isinstance(padding, str) else as_tuple(padding, self.dims)
        self.dilation = as_tuple(dilation, self.dims)
        self.output_padding = (0,) * self.dims
        per_axis(name, "kernel_size", self.kernel_size, self.dims, least=1)
        windows(name, self.kernel_size, self.stride, self.padding, self.dilation)  # or an error
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (before, after) if self.transposed else (after, before)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = empty(shape, device, dtype)
        self.bias = empty((after,), device, dtype) if bias else None
        self.reset_parameters()

    def _weight_for(self, x: Tensor) -> Any:
        """The weight, after a check of x's channels: in the layer's words, which the op has not.

        It is read once: a parametrized weight is computed at each read.
        """
        weight = self.weight
        wanted = weight.shape[0] if self.transposed else weight.shape[1] * self.groups
        axis = x.ndim - self.dims - 1
        if axis in (0, 1) and x.shape[axis] != wanted:
            step = f"make it with in_channels={x.shape[axis]}, or check the layer before it"
            if x.shape[-1] == wanted:
                step = f"channels come before positions: np.moveaxis(x, -1, {axis})"
            raise ValueError(
                f"{type(self).__name__}: x {x.shape} has {x.shape[axis]} channels (axis {axis}), "
                f"and this layer was made for in_channels={self.in_channels}; {step}"
            )
        return weight

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        draw_evenly(math.prod(self.weight.shape[1:]), self.weight, self.bias)

    def extra_repr(self) -> str:
        none = (0,) * self.dims
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        text += f", padding={self.padding}" if self.padding != none else ""
        text += f", dilation={self.dilation}" if self.dilation != (1,) * self.dims else ""
        text += f", output_padding={self.output_padding}" if self.output_padding != none else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" * (self.padding_mode != "zeros"))


class _PlainConv(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self._setup(
            (in_channels, out_channels), kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        weight, name, padding = self._weight_for(x), f"conv{self.dims}d", self.padding
        if self.padding_mode != "zeros":
            how = windows(name, self.kernel_size, self.stride, padding, self.dilation)
            pairs = [(0, 0)] * (x.ndim - self.dims) + list(how.padding)
            x, padding = op.pad(x, pairs, mode=_PAD_MODES[self.padding_mode]), 0
        convolve = getattr(op, name)
        return convolve(x, weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_PlainConv):
    """y[n, o] = Σ_i w[o, i] ⋆ x[n, i] + b[o] ;  x (n, in, w), weight (out, in/groups, kw)

    padding: numbers, "same" or "valid"; padding_mode: zeros, reflect, replicate or circular.
    """

    dims = 1


class Conv2d(_PlainConv):
    """y[n, o] = Σ_i w[o, i] ⋆ x[n, i] + b[o] ;  x (n, in, h, w), weight (out, in/groups, kh, kw)

    padding: numbers, "same" or "valid"; padding_mode: zeros, reflect, replicate or circular.
    """

    dims = 2


class Conv3d(_PlainConv):
    """Conv2d's form in three dimensions: x (n, in, d, h, w)."""

    dims = 3


class _TransposedConv(_Conv):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self._setup(
            (in_channels, out_channels), kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = as_tuple(output_padding, self.dims)

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        """output_size: the places of the result, in place of output_padding; with images and
        channels in front, or without. ValueError where no output_padding leads there.
        """
        weight = self._weight_for(x)
        convolve = getattr(op, f"conv_transpose{self.dims}d")
        extra = self.output_padding if output_size is None else self._padding_for(x, output_size)
        return convolve(
            x, weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _padding_for(self, x: Tensor, output_size: Any) -> tuple:
        given = as_tuple(output_size, self.dims)
        wanted = given[-self.dims :] if len(given) in (self.dims, x.ndim) else ()
        axes: Any = zip(
            x.shape[-self.dims :], self.kernel_size, self.stride, self.padding, self.dilation,
            strict=True,
        )  # fmt: skip
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in axes]
        extra = [m - n for m, n in zip(wanted, least, strict=False)]
        if len(wanted) != self.dims or not all(
            0 <= e < max(s, d) for e, s, d in zip(extra, self.stride, self.dilation, strict=True)
        ):
            most = [n + max(s, d) - 1 for n, s, d in zip(least, self.stride, self.dilation)]
            raise ValueError(
                f"{type(self).__name__}: output_size must be from {tuple(least)} to {tuple(most)} "
                f"for x {x.shape}; got {output_size!r}"
            )
        return tuple(extra)


class ConvTranspose1d(_TransposedConv):
    """ConvTranspose2d's form in one dimension: x (n, in, w), weight (in, out/groups, kw)."""

    dims = 1


class ConvTranspose2d(_TransposedConv):
    """The transpose of Conv2d: every entry of x (n, in, h, w) spreads a kernel over the result.

    weight (in, out/groups, kh, kw). An axis of n entries becomes (n − 1) stride − 2 padding
    + dilation (kernel − 1) + 1 + output_padding long.
    """

    dims = 2


class ConvTranspose3d(_TransposedConv):
    """ConvTranspose2d's form in three dimensions: x (n, in, d, h, w)."""

    dims = 3
