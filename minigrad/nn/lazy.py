"""Lazy modules: layers that learn how many features or channels come in from their first input.

    >>> import minigrad as mg
    >>> from minigrad import nn
    >>> model = nn.Sequential(nn.LazyConv2d(8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    >>> model(mg.ones(2, 1, 6, 6)).shape  # now these are a Conv2d and a Linear
    (2, 10)

Arguments are those of the layer without the first one. A lazy module takes its shapes from its
first input, or from the state in load_state_dict. Until then it has one UninitializedParameter, any
use of which is an error: an optimizer and state_dict come after, `to` may come before. A norm that
has no arrays (affine and track_running_stats False) has none.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from ..backends import random
from ..backends.leaving import ended_by
from ..engine import modes
from ..tensor_api.tensor import Tensor
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .module import Module
from .norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .parameter import Parameter, UninitializedParameter
from .state import array_of

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class _Lazy(Module):
    """First base of a lazy module; the second one is the class that it becomes.

    A subclass says by `features_of` how many features an input has, and by `features_in` how many
    a layer has whose weight is of some shape.
    """

    layer: Any  # the class
    defaults: dict[str, Any] = {}  # those that are not the layer's
    weight: Parameter | None

    def __init_subclass__(cls) -> None:
        if len(cls.__bases__) == 2:
            cls.layer = cls.__bases__[1]
            _, *others = inspect.signature(cls.layer).parameters.values()
            own = [p.replace(default=cls.defaults.get(p.name, p.default)) for p in others]
            cls.__signature__ = inspect.Signature(own)

    def __init__(self, *args: Any, **kwargs: Any):
        signature = inspect.signature(type(self))
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{signature}: {error}") from None
        self._given = {**self.defaults, **given.arguments}
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name not in ("bias", "device", "dtype"):
                setattr(self, name, value)
        device, dtype = given.arguments["device"], given.arguments["dtype"]
        kept = [given.arguments.get(name, True) for name in ("affine", "track_running_stats")]
        waiting = UninitializedParameter(type(self).__name__, device, dtype)
        self.weight = waiting if any(kept) else None

    def features_of(self, x: Tensor) -> int:
        """The first argument of the layer, for this input; ValueError where x does not fit."""
        raise NotImplementedError

    def features_in(self, weight: tuple) -> int:
        """The same for a weight of this shape; IndexError where it has too few axes."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Any:
        """Become the layer that the input asks for, and run that."""
        return self._first(x)

    def _first(self, x: Tensor, *others: Any) -> Any:
        if not isinstance(self.weight, UninitializedParameter | None):  # by functional_call
            raise ValueError(
                f"{type(self).__name__}: parameters are given to it before its first input, which "
                "sets its shape; call the model itself on one batch first"
            )
        self._become(self._layer(self.features_of(x)))
        return self.forward(x, *others)

    def _layer(self, features: int) -> Module:
        """The layer with this many features, on this module's device and in its dtype."""
        waiting = self.weight
        if not isinstance(waiting, UninitializedParameter):
            return self._drawn_once(features, self._given)
        placed = {"device": waiting.wanted_device, "dtype": waiting.wanted_dtype}
        built = self._drawn_once(features, {**self._given, **placed})
        for parameter in vars(built).values():
            if isinstance(parameter, Parameter):
                parameter.requires_grad = waiting.requires_grad
                parameter.name = waiting.name.removesuffix("weight") + parameter.name
        return built

    def _drawn_once(self, features: int, given: dict) -> Module:
        """The layer; its draws are the module's, and no example's inside vmap, nor those that a
        checkpoint, which finds the layer made, repeats.
        """
        of_vmap = modes.state.randomness
        with ended_by(lambda: modes.state.set({"randomness": of_vmap})), random.apart():
            modes.state.randomness = None
            return self.layer(features, **given)

    def _layer_in(self, state: Mapping[str, Any], prefix: str) -> Module:
        names = [name for name in ("weight", "running_mean") if prefix + name in state]
        if not isinstance(self.weight, UninitializedParameter) or not names:
            return self
        shape = array_of(state[prefix + names[0]]).shape
        try:
            features = self.features_in(shape)
        except IndexError:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: {prefix}{names[0]} of shape {shape} has "
                "too few axes to say how many features come in"
            ) from None
        return self._layer(features)

    def _become(self, layer: Module) -> None:
        del self._given
        vars(self).update(vars(layer))
        self.__class__ = self.layer  # type: ignore[assignment]

    def extra_repr(self) -> str:
        return ", ".join([f"{name}={value}" for name, value in self._given.items()])


class _LazyFeatures(_Lazy):
    def features_of(self, x: Tensor) -> int:
        if not x.ndim:
            raise ValueError(f"{type(self).__name__}: x must have an axis of features, got a 0-d x")
        return x.shape[-1]

    def features_in(self, weight: tuple) -> int:
        return weight[1]


class _LazyChannels(_Lazy):
    dims: int
    transposed: bool
    groups: int

    def features_of(self, x: Tensor) -> int:
        dims = self.dims
        if x.ndim not in (dims + 1, dims + 2):
            raise ValueError(
                f"{type(self).__name__}: x must be (n, c, *size) or (c, *size) with {dims} axes of "
                f"size, got shape {x.shape}"
            )
        return x.shape[-dims - 1]

    def features_in(self, weight: tuple) -> int:
        return weight[0] if self.transposed else weight[1] * self.groups


class _LazyTransposed(_LazyChannels):
    def forward(self, x: Tensor, output_size: Any = None) -> Any:
        """Become the layer that the input asks for, and run that; output_size as there."""
        return self._first(x, output_size)


class _LazyNorm(_Lazy):
    _checked: Any
    ndims: tuple[int, ...]

    def features_in(self, weight: tuple) -> int:
        return weight[0]


class _LazyBatchNorm(_LazyNorm):
    def features_of(self, x: Tensor) -> int:
        return self._checked(x).shape[1]


class _LazyInstanceNorm(_LazyNorm):
    defaults = {"affine": True, "track_running_stats": True}  # PyTorch's, for the lazy ones alone

    def features_of(self, x: Tensor) -> int:
        return self._checked(x).shape[-self.ndims[0]]  # also without a batch axis


class LazyLinear(_LazyFeatures, Linear):
    """nn.Linear with in_features from the first input."""


class LazyConv1d(_LazyChannels, Conv1d):
    """nn.Conv1d with in_channels from the first input."""


class LazyConv2d(_LazyChannels, Conv2d):
    """nn.Conv2d with in_channels from the first input."""


class LazyConv3d(_LazyChannels, Conv3d):
    """nn.Conv3d with in_channels from the first input."""


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """nn.ConvTranspose1d with in_channels from the first input."""


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """nn.ConvTranspose2d with in_channels from the first input."""


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """nn.ConvTranspose3d with in_channels from the first input."""


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """nn.BatchNorm1d with num_features from the first input."""


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """nn.BatchNorm2d with num_features from the first input."""


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """nn.BatchNorm3d with num_features from the first input."""


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """nn.InstanceNorm1d with num_features from the first input; with weight, bias, statistics."""


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """nn.InstanceNorm2d with num_features from the first input; with weight, bias, statistics."""


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """nn.InstanceNorm3d with num_features from the first input; with weight, bias, statistics."""
