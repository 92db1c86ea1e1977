"""Layers: parameters around an op. Names, argument order, defaults and layouts are PyTorch's."""

import math
from typing import Any

import numpy as np

from ..core import create
from ..core.registry import op
from ..core.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter

Pair = int | tuple[int, int]


class Linear(Module):
    """y = x Wᵀ + b ;  x (..., in), W (out, in), b (out,), y (..., out)"""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.in_features = in_features
        self.out_features = out_features
        self.weight = _drawn((out_features, in_features), in_features, device, dtype)
        self.bias = _drawn((out_features,), in_features, device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return op.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


class Conv2d(Module):
    """y[n, o] = Σ_i w[o, i] ⋆ x[n, i] + b[o] ;  x (n, in, h, w), weight (out, in/groups, kh, kw)"""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride = _pair(stride)
        self.padding = _pair(padding)
        self.dilation = _pair(dilation)
        self.groups = groups
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"Conv2d: groups={groups} must divide in_channels={in_channels} and "
                f"out_channels={out_channels}"
            )
        fan_in = in_channels // groups * math.prod(self.kernel_size)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = _drawn(shape, fan_in, device, dtype)
        self.bias = _drawn((out_channels,), fan_in, device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return op.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        text += f", padding={self.padding}" if self.padding != (0, 0) else ""
        text += f", dilation={self.dilation}" if self.dilation != (1, 1) else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text + (", bias=False" if self.bias is None else "")


class MaxPool2d(Module):
    """The largest value of each window ;  x (n, c, h, w). stride is kernel_size when left out."""

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        *,
        ceil_mode: bool = False,
    ):
        self.kernel_size = _pair(kernel_size)
        self.stride = self.kernel_size if stride is None else _pair(stride)
        self.padding = _pair(padding)
        self.dilation = _pair(dilation)
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return op.max_pool2d(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


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


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.relu(x)


class Tanh(Module):
    """tanh x"""

    def forward(self, x: Tensor) -> Tensor:
        return op.tanh(x)


class Sigmoid(Module):
    """1 / (1 + e⁻ˣ)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.sigmoid(x)


class GELU(Module):
    """x Φ(x), Φ the normal distribution function; approximate="tanh" for its tanh form."""

    def __init__(self, approximate: str = "none"):
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return op.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Dropout(Module):
    """In training, each element is 0 with probability p, else x / (1 − p); else x itself.

    `generator` is its own numpy.random.Generator; left out, it is the library's (mg.manual_seed).
    Srivastava et al., Dropout, 2014.
    """

    def __init__(self, p: float = 0.5, *, generator: np.random.Generator | None = None):
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is a probability from 0 to 1, got {p}")
        self.p = p
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        return op.dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Sequential(Module):
    """Modules in a row: each takes the result of the one before. Indexed, sliced, iterated over."""

    def __init__(self, *modules: Module):
        for i, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(
                    f"Sequential takes modules; argument {i} is a {type(module).__name__}"
                )
            setattr(self, str(i), module)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x

    def append(self, module: Module) -> "Sequential":
        """Add a module at the end; returns the Sequential."""
        setattr(self, str(len(self)), module)
        return self

    def __iter__(self) -> Any:
        return self.children()

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __getitem__(self, index: int | slice) -> Any:
        chosen = list(self)[index]
        if isinstance(chosen, Module):
            return chosen
        part = Sequential()
        # not setattr: the modules keep the names that they have in the model they are part of
        vars(part).update({str(i): module for i, module in enumerate(chosen)})
        return part


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)  # type: ignore[return-value]


def _drawn(shape: tuple, fan_in: int, device: str | None, dtype: Any) -> Parameter:
    """Uniform on ±1/√fan_in: what kaiming_uniform_ with a = √5 gives, PyTorch's default."""
    parameter = Parameter(create.empty(shape, device=device, dtype=dtype))
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return init.uniform_(parameter, -bound, bound)  # type: ignore[return-value]
