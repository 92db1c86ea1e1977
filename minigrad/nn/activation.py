"""Activations as modules: each is the op of its name. Names and defaults are PyTorch's."""

from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api import create, random_tensors
from ..tensor_api.tensor import Tensor
from .init import constant_
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(Module):
    """Base: forward is the op `function` with the options that the instance holds, in order."""

    function = ""
    options: tuple[str, ...] = ()
    inplace = False  # PyTorch's; accepted and without effect, see nn/inplace.py

    def forward(self, x: Tensor) -> Tensor:
        return getattr(op, self.function)(x, *[getattr(self, name) for name in self.options])

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.options)


class _NoOptions(_Activation):
    def __init__(self, inplace: bool = False):
        self.inplace = inplace


class ReLU(_NoOptions):
    """max(x, 0); as in all activations `inplace` is taken and has no effect"""

    function = "relu"


class ReLU6(_NoOptions):
    """min(max(x, 0), 6)"""

    function = "relu6"


class Tanh(_Activation):
    """tanh x"""

    function = "tanh"


class Sigmoid(_Activation):
    """1 / (1 + e⁻ˣ)"""

    function = "sigmoid"


class LogSigmoid(_Activation):
    """log(1 / (1 + e⁻ˣ))"""

    function = "logsigmoid"


class SiLU(_NoOptions):
    """x sigmoid(x), also called swish"""

    function = "silu"


class Mish(_NoOptions):
    """x tanh(softplus(x))"""

    function = "mish"


class SELU(_NoOptions):
    """λ x for x > 0, else λ α (eˣ − 1): Klambauer et al., 2017"""

    function = "selu"


class Softsign(_Activation):
    """x / (1 + |x|)"""

    function = "softsign"


class Hardsigmoid(_NoOptions):
    """(x + 3)/6 between −3 and 3, else 0 or 1"""

    function = "hardsigmoid"


class Hardswish(_NoOptions):
    """x hardsigmoid(x)"""

    function = "hardswish"


class Tanhshrink(_Activation):
    """x − tanh x"""

    function = "tanhshrink"


class LeakyReLU(_Activation):
    """x for x > 0, else negative_slope · x"""

    function, options = "leaky_relu", ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        self.negative_slope = negative_slope
        self.inplace = inplace


class ELU(_Activation):
    """x for x > 0, else alpha (eˣ − 1)"""

    function, options = "elu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self.alpha = alpha
        self.inplace = inplace


class CELU(_Activation):
    """x for x > 0, else alpha (e^(x/alpha) − 1)"""

    function, options = "celu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self.alpha = alpha
        self.inplace = inplace


class GELU(_Activation):
    """x Φ(x), Φ the normal distribution function; approximate="tanh" for its tanh form."""

    function, options = "gelu", ("approximate",)

    def __init__(self, approximate: str = "none"):
        self.approximate = approximate


class Hardtanh(_Activation):
    """x between min_val and max_val, else the bound"""

    function, options = "hardtanh", ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: min_val={min_val} must be below max_val={max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace


class Softplus(_Activation):
    """log(1 + e^(beta x)) / beta, without overflow

    threshold: where beta x is above it, x itself, as in PyTorch, whose default is 20. Left out, the
    function is exact everywhere.
    """

    function, options = "softplus", ("beta",)

    def __init__(self, beta: float = 1.0, threshold: float | None = None):
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        y = op.softplus(x, self.beta)
        return y if self.threshold is None else op.where(x * self.beta > self.threshold, x, y)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.threshold is None else f"{text}, threshold={self.threshold!r}"


class Threshold(Module):
    """x where x > threshold, else value; a NaN stays visible"""

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return op.where(x <= self.threshold, self.value, x)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class Hardshrink(_Activation):
    """x where |x| > lambd, else 0"""

    function, options = "hardshrink", ("lambd",)

    def __init__(self, lambd: float = 0.5):
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """x − lambd above lambd, x + lambd below −lambd, else 0"""

    function = "softshrink"


class PReLU(Module):
    """x for x > 0, else a x with a learned a: one for all, or one for each channel (axis 1)

    He et al., Delving deep into rectifiers, 2015.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(create.empty((num_parameters,), dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin again with a = init."""
        constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        return op.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """x for x ≥ 0, else a x with a drawn from lower to upper in training, else their mean

    Xu et al., Empirical evaluation of rectified activations, 2015.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False):
        if not lower <= upper:
            raise ValueError(f"RReLU: lower={lower} must not be above upper={upper}")
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        slope: Any = (self.lower + self.upper) / 2
        if self.training:
            slope = random_tensors.rand_like(x) * (self.upper - self.lower) + self.lower
        return op.where(x >= 0, x, slope * x)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class GLU(_Activation):
    """a sigmoid(b), where a and b are the halves of x along dim"""

    function, options = "glu", ("dim",)

    def __init__(self, dim: int = -1):
        self.dim = dim


class Softmax(_Activation):
    """eˣ / Σ eˣ along dim, the last axis unless told (PyTorch's choice depends on x's axes)"""

    function, options = "softmax", ("dim",)

    def __init__(self, dim: int = -1):
        self.dim = dim


class LogSoftmax(Softmax):
    """x − log Σ eˣ along dim"""

    function = "log_softmax"


class Softmin(Softmax):
    """softmax of −x along dim"""

    def forward(self, x: Tensor) -> Tensor:
        return op.softmax(-x, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of x (n, c, h, w) or (c, h, w)"""

    def forward(self, x: Tensor) -> Tensor:
        return op.softmax(x, -3)
