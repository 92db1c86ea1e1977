"""Linear layers. Names, argument order, defaults and initial values are PyTorch's."""

import math
from typing import Any

import numpy as np

from ..core import create
from ..core.registry import op
from ..core.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


def drawn(shape: tuple, fan_in: int, device: str | None, dtype: Any) -> Parameter:
    """Uniform on ±1/√fan_in: what kaiming_uniform_ with a = √5 gives, PyTorch's default."""
    parameter = Parameter(create.empty(shape, device=device, dtype=dtype))
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return init.uniform_(parameter, -bound, bound)  # type: ignore[return-value]


class Identity(Module):
    """x itself; any arguments are accepted, so that it can stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def forward(self, x: Any) -> Any:
        return x


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
        self.weight = drawn((out_features, in_features), in_features, device, dtype)
        self.bias = drawn((out_features,), in_features, device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return op.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


class Bilinear(Module):
    """y_k = Σ_ij a_i W_kij b_j + c_k ;  a (..., in1), b (..., in2), W (out, in1, in2)"""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = drawn(shape, in1_features, device, dtype)
        self.bias = drawn((out_features,), in1_features, device, dtype) if bias else None

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        y = op.einsum("...i,kij,...j->...k", a, self.weight, b)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
