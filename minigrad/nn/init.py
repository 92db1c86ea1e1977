"""Initial values for parameters, in place, drawn from the library's generator (mg.manual_seed).

fan_in is the number of inputs that one output sums over, fan_out the number of outputs that one
input reaches: for a weight (out, in, *kernel), in·|kernel| and out·|kernel|.
"""

import math
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import array_module
from ..core.tensor import Tensor
from ..core.versions import note_write

Generator = np.random.Generator | None


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations through a nonlinearity."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"linear": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2)}
    if nonlinearity not in gains:
        raise ValueError(f"no gain is known for {nonlinearity!r}; choose of {[*gains]}")
    return gains[nonlinearity]


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    tensor.data[...] = val
    note_write(tensor.data, "nn.init")
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Tensor:
    """Draw from the uniform distribution on [a, b)."""
    return _write(tensor, (generator or random.generator()).uniform(a, b, tensor.shape))


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None
) -> Tensor:
    """Draw from the normal distribution with this mean and standard deviation."""
    return _write(tensor, (generator or random.generator()).normal(mean, std, tensor.shape))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Tensor:
    """Uniform on ±gain·√(3 / fan): He et al., Delving deep into rectifiers, 2015.

    With a = √5, as layers use it, the bound is 1/√fan_in.
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Tensor:
    """Normal with standard deviation gain / √fan: He et al., 2015."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Uniform on ±gain·√(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Normal with standard deviation gain·√(2 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), generator)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError(
            f"fan_in and fan_out need a weight of at least two axes (out, in, ...), got shape "
            f"{tensor.shape}; for a bias use uniform_ or zeros_"
        )
    out_features, in_features, *kernel = tensor.shape
    size = math.prod(kernel)
    return in_features * size, out_features * size


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is 'fan_in' or 'fan_out', got {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _write(tensor: Tensor, values: Any) -> Tensor:
    tensor.data[...] = array_module(tensor.data).asarray(values)
    note_write(tensor.data, "nn.init")
    return tensor
