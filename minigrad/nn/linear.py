"""Linear layers. Names, argument order, defaults and initial values are PyTorch's."""

import math
from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


def empty(shape: Any, device: str | None, dtype: Any) -> Parameter:
    """A parameter of this shape, whose values a layer's reset_parameters gives."""
    return Parameter(create.empty(shape, device=device, dtype=dtype))


def draw_evenly(fan_in: int, *parameters: Any) -> None:
    """Uniform on ±1/√fan_in: what kaiming_uniform_ with a = √5 gives, PyTorch's default."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    for parameter in parameters:
        if parameter is not None:
            init.uniform_(parameter, -bound, bound)


class Identity(Module):
    """x itself; it accepts any arguments, and so can replace another layer."""

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
        self.weight = empty((out_features, in_features), device, dtype)
        self.bias = empty((out_features,), device, dtype) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        draw_evenly(self.in_features, self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return op.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


def bilinear(a: Any, b: Any, weight: Any, bias: Any = None) -> Tensor:
    """y_k = Σ_ij a_i W_kij b_j + bias_k: nn.Bilinear."""
    inputs, expected = (np.shape(a)[-1:], np.shape(b)[-1:]), np.shape(weight)[1:]
    if np.ndim(weight) != 3 or inputs != (expected[:1], expected[1:]):
        raise ValueError(
            "bilinear: a (..., n), b (..., m) and weight (k, n, m) must agree in n and m; got a "
            f"{np.shape(a)}, b {np.shape(b)}, weight {np.shape(weight)}"
        )
    y = op.einsum("...i,kij,...j->...k", a, weight, b)
    return y if bias is None else y + bias


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
        self.weight = empty(shape, device, dtype)
        self.bias = empty((out_features,), device, dtype) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        draw_evenly(self.in1_features, self.weight, self.bias)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return bilinear(a, b, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
