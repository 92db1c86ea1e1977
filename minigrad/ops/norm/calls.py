"""The normalisations by name: checks of the arguments, then `standardize` over the right axes."""

from math import prod
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, finfo, is_floating, refuse_gradient
from ...engine.errors import describe
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import array_like, constant_of_each, widen
from .standardize import standardize


def _floating(name: str, x: Any, eps: float | None) -> Any:
    """x, and an error where it has no norm, or where eps would take var + eps below 0."""
    x = array_like(x)
    if eps is not None and eps < 0:
        raise ValueError(f"{name}: eps must be 0 or more, got {eps}")
    if not is_floating(x.dtype):
        raise TypeError(f"{name}: x must be a real floating array, got {describe(x)}")
    return x


def _channels(name: str, x: Any, *given: tuple[str, Any]) -> list:
    """The arrays of one entry for each channel (axis 1 of x), checked; None stays None."""
    if x.ndim < 2:
        raise ValueError(f"{name}: x must be (batch, channels, ...), got shape {x.shape}")
    for argument, w in given:
        if w is not None and array_like(w).shape != (x.shape[1],):
            raise ValueError(
                f"{name}: {argument} must have shape ({x.shape[1]},), one entry for each channel "
                f"(axis 1 of x {x.shape}); got {np.shape(w)}"
            )
    return [None if w is None else array_like(w) for _, w in given]


def _by_channel(w: Any, ndim: int) -> Any:
    """w (C,) as (C, 1, ...), which broadcasts against x (N, C, ...)."""
    return w if w is None or ndim == 2 else op.reshape(w, shape=(-1, *(1,) * (ndim - 2)))


def _trailing(name: str, x: Any, normalized_shape: Any, *given: tuple[str, Any]) -> tuple:
    """The axes that normalized_shape means, after checks of it and of weight and bias."""
    one = isinstance(normalized_shape, int | np.integer)
    shape = (int(normalized_shape),) if one else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"{name}: normalized_shape={shape} must be the last axes of x, whose shape is {x.shape}"
        )
    for argument, w in given:
        if w is not None and array_like(w).shape != shape:
            raise ValueError(
                f"{name}: {argument} must have shape normalized_shape={shape}, got {np.shape(w)}"
            )
    return tuple(range(x.ndim - len(shape), x.ndim))


@composite
def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias, mean and var over the last axes of x

    normalized_shape: the shape of these axes (an int: the last one), which weight and bias have.
    Ba et al., Layer normalization, 2016.
    """
    x = _floating("layer_norm", x, eps)
    axis = _trailing("layer_norm", x, normalized_shape, ("weight", weight), ("bias", bias))
    return standardize(x, weight, bias, axis=axis, eps=eps)


@composite
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """y = x/√(mean x² + eps) · weight over the last axes of x; eps: None for the dtype's ε

    That of 16-bit floats is float32's 1.2e-7, in which they are computed, as in PyTorch.
    Zhang and Sennrich, Root mean square layer normalization, 2019.
    """
    x = _floating("rms_norm", x, eps)
    axis = _trailing("rms_norm", x, normalized_shape, ("weight", weight))
    eps = float(finfo(accumulator(x.dtype) or x.dtype).eps) if eps is None else eps
    return standardize(x, weight, None, axis=axis, eps=eps, centre=False)


@composite
@on_its_gpu
def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias for each channel: x (N, C, ...), the rest (C,)

    In training mean and var are those over batch and space. Running statistics, given both or not
    at all, move in place to (1 − momentum) old + momentum new, where the new var divides by n − 1.
    Else mean and var are the running ones, constants. ValueError where training has one value a
    channel. Ioffe and Szegedy, Batch normalization, 2015.
    """
    x = _floating("batch_norm", x, eps)
    running = ("running_mean", running_mean), ("running_var", running_var)
    weight, bias, *_ = _channels("batch_norm", x, ("weight", weight), ("bias", bias), *running)
    if not training:
        how = "batch_norm: training=False"
        return _by_running(how, x, running_mean, running_var, weight, bias, eps)
    if x.size == x.shape[1]:
        raise ValueError(
            f"batch_norm: training=True needs more than one value for each channel; x has shape "
            f"{x.shape}. Use a larger batch, or training=False"
        )
    axis = (0, *range(2, x.ndim))
    return standardize(
        x, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim), axis=axis, eps=eps,
        running=_running("batch_norm", running_mean, running_var, momentum),
    )  # fmt: skip


def _running(name: str, mean: Any, var: Any, momentum: float) -> tuple | None:
    """What to move in place."""
    if (mean is None) != (var is None):
        raise ValueError(f"{name}: give both running_mean and running_var, or neither")
    _refuse_gradients(mean, var)
    return None if mean is None else (constant_of_each(mean), constant_of_each(var), momentum)


def _refuse_gradients(mean: Any, var: Any) -> None:
    refuse_gradient(mean, "running_mean")
    refuse_gradient(var, "running_var")


def _by_running(call: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(x − mean) scale + bias, with scale = weight/√(var + eps) for each channel.

    16-bit floats are computed in float32 and rounded once, as in training.
    """
    if mean is None or var is None:
        raise ValueError(
            f"{call} takes its statistics from running_mean and running_var; give both"
        )
    _refuse_gradients(mean, var)
    mean, var = (widen(array_like(constant_of_each(a))) for a in (mean, var))
    scale = 1 / np.sqrt(var + eps)
    scale = scale if weight is None else weight * scale
    y = (x - _by_channel(mean, x.ndim)) * _by_channel(scale, x.ndim)
    return op.astype(y if bias is None else y + _by_channel(bias, x.ndim), dtype=x.dtype)


@composite
@on_its_gpu
def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias for each example and channel, over space

    x (N, C, ...), weight and bias (C,). Running statistics move towards the average over the batch;
    with use_input_stats=False they are used, as in batch_norm. Ulyanov et al. 2016.
    """
    x = _floating("instance_norm", x, eps)
    running = ("running_mean", running_mean), ("running_var", running_var)
    weight, bias, *_ = _channels("instance_norm", x, ("weight", weight), ("bias", bias), *running)
    if not use_input_stats:
        how = "instance_norm: use_input_stats=False"
        return _by_running(how, x, running_mean, running_var, weight, bias, eps)
    if prod(x.shape[2:]) == 1:
        raise ValueError(
            f"instance_norm needs more than one place for each channel; x has shape {x.shape}, "
            f"of which {x.shape[2:]} is space"
        )
    return standardize(
        x, _by_channel(weight, x.ndim), _by_channel(bias, x.ndim), axis=tuple(range(2, x.ndim)),
        eps=eps, running=_running("instance_norm", running_mean, running_var, momentum),
    )  # fmt: skip


@composite
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """y = (x − mean)/√(var + eps) · weight + bias over each group of channels and space

    x (N, C, ...), weight and bias (C,); num_groups must divide C. Wu and He 2018.
    """
    x = _floating("group_norm", x, eps)
    weight, bias = _channels("group_norm", x, ("weight", weight), ("bias", bias))
    n, channels, *space = x.shape
    whole = isinstance(num_groups, int | np.integer)
    if not whole or num_groups < 1 or channels % num_groups:
        raise ValueError(
            f"group_norm: num_groups={num_groups!r} must be an int that divides the {channels} "
            f"channels (axis 1 of x {x.shape})"
        )
    grouped = (num_groups, channels // num_groups, prod(space))
    weight, bias = (
        None if w is None else op.reshape(w, shape=(*grouped[:2], 1)) for w in (weight, bias)
    )
    parts = op.reshape(x, shape=(n, *grouped))
    y = standardize(parts, weight, bias, axis=(2, 3), eps=eps)
    return op.reshape(y, shape=x.shape)
