"""Initial values for parameters, in place, drawn from the library's generator (mg.manual_seed).

fan_in is the number of inputs that one output sums over, fan_out the number of outputs that one
input reaches. For a weight (out, in, *kernel) they are in·|kernel| and out·|kernel|.

Inside vmap its `randomness` says whether the examples share a draw, as of every random op.
"""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import array_module
from ..backends.dtypes import is_floating
from ..backends.truncated_normal import between
from ..engine.errors import describe
from ..engine.versions import note_write
from ..errors import TransformError
from ..modes.recording import no_grad
from ..tensor_api.composite import on_its_gpu
from ..tensor_api.create import drawn
from ..tensor_api.tensor import Tensor
from .arguments import at_least_zero

Generator = np.random.Generator | None


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations through a nonlinearity.

    param is the slope of leaky_relu below 0, by default 0.01.
    """
    plain = ["linear", "sigmoid"] + [f"conv{i}d" for i in (1, 2, 3)]
    plain += [f"conv_transpose{i}d" for i in (1, 2, 3)]
    gains = dict.fromkeys(plain, 1.0) | {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    gains["leaky_relu"] = math.sqrt(2)  # times what its slope makes of that
    if nonlinearity not in gains:
        raise ValueError(
            f"calculate_gain: no gain is known for {nonlinearity!r}; choose from {[*gains]}"
        )
    if nonlinearity != "leaky_relu":
        return gains[nonlinearity]
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, int | float | np.number):
        raise ValueError(f"calculate_gain: the slope of leaky_relu is a number, got {slope!r}")
    return math.sqrt(2 / (1 + slope**2))


def fills(fn: Callable) -> Callable:
    """Decorator: for a layer or None instead of a tensor the error says what to pass."""

    @wraps(fn)
    def filled(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(tensor, "dtype"):
            instead = f"; nn.init.{fn.__name__}(layer.weight) fills that of a layer"
            raise TypeError(f"{fn.__name__} fills a tensor, got {describe(tensor)}{instead}")
        return fn(tensor, *args, **kwargs)

    return filled


@fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    return _write(tensor, val)


@fills
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0)


@fills
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1)


@fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Tensor:
    """Draw from the uniform distribution on [a, b); both parts of a complex tensor."""
    draw, last = generator or random.generator(), max(a, _last_below(b, tensor.dtype))

    def draw_values() -> np.ndarray:
        values = np.minimum(draw.uniform(a, b, tensor.shape), last)
        if _is_complex(tensor):
            values = values + 1j * np.minimum(draw.uniform(a, b, tensor.shape), last)
        return values

    return _write_drawn(tensor, draw_values)


def _last_below(b: float, dtype: Any) -> float:
    """The largest number of a floating dtype below b. A draw just below b would round to b: of the
    numbers just below 1 every 4000th is 1 in float16."""
    dtype = np.empty(0, dtype).real.dtype
    if not is_floating(dtype):
        return b
    last = np.asarray(b, dtype)
    return float(last if last < b else np.nextafter(last, np.asarray(-np.inf, dtype)))


@fills
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator = None
) -> Tensor:
    """Draw from the normal distribution with this mean and standard deviation.

    Of a complex tensor E |x − mean|² = std²: each part has variance std²/2.
    """
    at_least_zero("normal_", std=std)
    draw = generator or random.generator()
    return _write_drawn(tensor, lambda: _normal(draw, mean, std, tensor.shape, _is_complex(tensor)))


def _normal(draw: Any, mean: float, std: float, shape: tuple, is_complex: bool) -> np.ndarray:
    if not is_complex:
        return draw.normal(mean, std, shape)
    re, im = (draw.normal(0.0, std * 0.5**0.5, shape) for _ in range(2))
    return mean + (re + 1j * im)


@fills
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator = None,
) -> Tensor:
    """Draw from the normal distribution cut to [a, b], by the inverse of its distribution function.

    Any interval will do, however far from the mean; either bound may be infinite. Where std is 0
    the values are the mean, which must lie in [a, b].
    """
    if _is_complex(tensor):
        raise TypeError(
            f"trunc_normal_: complex numbers are not ordered, so [{a}, {b}] cuts none of them off; "
            "draw the parts by themselves, or use normal_"
        )
    draw = generator or random.generator()
    at_least_zero("trunc_normal_", std=std)
    if not a < b or (std == 0 and not a <= mean <= b):
        raise ValueError(
            f"trunc_normal_: [a, b] = [{a}, {b}] must be an interval, a < b, that holds a part of "
            f"the normal distribution with mean {mean} and standard deviation {std}"
        )
    lowest, highest = _rounded_inwards(a, b, tensor.dtype)

    def draw_values() -> np.ndarray:
        if std == 0:
            return np.full(tensor.shape, mean, np.float64)
        z, away = between(draw.random(tensor.shape), (a - mean) / std, (b - mean) / std)
        if away is None:
            values = mean + std * z
        else:  # from the nearer bound, whose distance keeps more digits than that from the mean
            values = a + std * away if a > mean else b - std * away
        return np.minimum(np.maximum(values, lowest), highest)

    return _write_drawn(tensor, draw_values)


def _rounded_inwards(a: float, b: float, dtype: Any) -> tuple[float, float]:
    """The least and the largest number of a dtype in [a, b]; a and b where it has none there."""
    if not is_floating(dtype):
        return a, b
    low, high = np.asarray(a, dtype), np.asarray(b, dtype)
    low = np.nextafter(low, np.asarray(np.inf, dtype)) if float(low) < a else low
    high = np.nextafter(high, np.asarray(-np.inf, dtype)) if float(high) > b else high
    return (float(low), float(high)) if low <= high else (a, b)


@fills
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix: as much of x as has a place comes through unchanged."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_ needs a matrix, got shape {tensor.shape}")
    return _write(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


@fills
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (out, in, *kernel) that passes channels through: 1 in the middle."""
    if tensor.ndim not in (3, 4, 5) or groups < 1 or tensor.shape[0] % groups:
        raise ValueError(
            f"dirac_ needs a convolution's weight with out divisible by groups={groups}, got "
            f"shape {tensor.shape}"
        )
    values = np.zeros(tensor.shape)
    middle = tuple(n // 2 for n in tensor.shape[2:])
    out = tensor.shape[0] // groups
    for i in range(min(out, tensor.shape[1])):
        values[(slice(i, None, out), i, *middle)] = 1
    return _write(tensor, values)


@fills
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """gain · a random matrix with orthonormal rows (or columns, where there are fewer of them).

    All axes after the first count as one; for a complex tensor the matrix is complex. Saxe et al.,
    Exact solutions to the nonlinear dynamics of learning in deep linear neural networks, 2014.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ needs at least two axes, got shape {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    draw = generator or random.generator()
    shape = max(rows, columns), min(rows, columns)

    def draw_values() -> np.ndarray:
        q, r = np.linalg.qr(_normal(draw, 0.0, 1.0, shape, _is_complex(tensor)))
        signs = np.sign(np.diagonal(r))
        q *= np.where(signs == 0, 1, signs)  # makes the distribution uniform
        q = q.T if rows < columns else q
        return gain * q.reshape(tensor.shape)

    return _write_drawn(tensor, draw_values)


@fills
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator = None
) -> Tensor:
    """Normal, deviation std, with a fraction `sparsity` of each column set to 0. Martens, 2010"""
    if tensor.ndim != 2:
        raise ValueError(f"sparse_ needs a matrix, got shape {tensor.shape}")
    rows, columns = tensor.shape
    draw = generator or random.generator()

    def draw_values() -> np.ndarray:
        values = _normal(draw, 0.0, std, tensor.shape, _is_complex(tensor))
        for column in range(columns):
            values[draw.permutation(rows)[: math.ceil(sparsity * rows)], column] = 0
        return values

    return _write_drawn(tensor, draw_values)


@fills
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


@fills
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator = None,
) -> Tensor:
    """Normal with standard deviation gain / √fan: He et al., 2015."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@fills
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Uniform on ±gain·√(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6 / (sum(fans(tensor)) or 1))
    return uniform_(tensor, -bound, bound, generator)


@fills
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator = None) -> Tensor:
    """Normal with standard deviation gain·√(2 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / (sum(fans(tensor)) or 1)), generator)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError(
            "fan_in and fan_out need a weight of at least two axes (out, in, ...), got shape "
            f"{tensor.shape}; for a bias use uniform_ or zeros_"
        )
    out_features, in_features, *kernel = tensor.shape
    size = math.prod(kernel)
    return in_features * size, out_features * size


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is 'fan_in' or 'fan_out', got {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    # no fan, no elements that would need a value
    return calculate_gain(nonlinearity, a) / math.sqrt(fan or 1)


def _is_complex(tensor: Any) -> bool:
    return tensor.dtype.kind == "c"


def _write_drawn(tensor: Tensor, draw_values: Callable[[], np.ndarray]) -> Tensor:
    """Write what draw_values() draws, an array of the tensor's shape, by the randomness of vmap."""

    def make(shape: tuple) -> Any:  # inside vmap with the axes of the examples in front
        examples = shape[: len(shape) - len(tensor.shape)]
        if not examples:
            return draw_values()
        return Tensor(np.reshape([draw_values() for _ in np.ndindex(*examples)], shape))

    return _write(tensor, drawn(make, tensor.shape))


@on_its_gpu
def _write(tensor: Any, values: Any) -> Any:
    """Put values, an array or one number, into a tensor or an array, as in zeros_(w.data)."""
    if isinstance(tensor, Tensor) and (tensor.level or getattr(values, "level", 0)):
        return _write_in_transform(tensor, values)
    array = tensor.data if isinstance(tensor, Tensor) else tensor
    array[...] = array_module(array).asarray(values) if np.ndim(values) else values
    note_write(array, "nn.init")
    return tensor


def _write_in_transform(tensor: Tensor, values: Any) -> Tensor:
    """The same where the tensor, or the draw for each example of a vmap, is a transform's."""
    if tensor.is_leaf and tensor.requires_grad and tensor.level < getattr(values, "level", 0):
        raise TransformError(
            f"nn.init: inside vmap {describe(tensor)}, a leaf that requires a gradient, cannot "
            "hold a draw for each example. Make the models outside, nn.Linear(2, 2) for each, and "
            "map over mg.func.stack_module_state(models); or let the examples share the draw: "
            'vmap(fn, randomness="same")'
        )
    with no_grad():
        tensor[...] = values
    return tensor
