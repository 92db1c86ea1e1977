"""Lazy modules: layers that learn how many features or channels come in from their first input.

    >>> model = nn.Sequential(nn.LazyConv2d(8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    >>> model(x)  # now these are a Conv2d and a Linear

Arguments are those of the layer without the first one. Until its first input a lazy module has one
UninitializedParameter, any use of which is an error: an optimizer, state_dict and load_state_dict
come after a first call, `to` may come before.
"""

import inspect
from typing import Any

from ..core.tensor import Tensor
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .module import Module
from .norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .parameter import Parameter, UninitializedParameter

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyLinear",
]  # fmt: skip


class _Lazy(Module):
    """First base of a lazy module; the second one is the class that it becomes.

    A subclass says by `features_of` how many features an input has.
    """

    layer: Any  # the class

    def __init_subclass__(cls) -> None:
        if len(cls.__bases__) == 2:
            cls.layer = cls.__bases__[1]
            _, *others = inspect.signature(cls.layer).parameters.values()
            cls.__signature__ = inspect.Signature(others)

    def __init__(self, *args: Any, **kwargs: Any):
        signature = inspect.signature(type(self))
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{signature}: {error}") from None
        self._given = dict(given.arguments)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name not in ("bias", "device", "dtype"):
                setattr(self, name, value)
        device, dtype = given.arguments["device"], given.arguments["dtype"]
        self.weight = UninitializedParameter(type(self).__name__, device, dtype)

    def features_of(self, x: Tensor) -> int:
        """The first argument of the layer, for this input; ValueError where x does not fit."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Any:
        """Become the layer that the input asks for, and run that."""
        waiting = self.weight
        if not isinstance(waiting, UninitializedParameter):  # functional_call has put one there
            raise ValueError(
                f"{type(self).__name__}: parameters are given to it before its first input, which "
                "says what it is; call the model itself on one batch first"
            )
        placed = {"device": waiting.wanted_device, "dtype": waiting.wanted_dtype}
        built = self.layer(self.features_of(x), **{**self._given, **placed})
        for parameter in vars(built).values():
            if isinstance(parameter, Parameter):
                parameter.requires_grad = waiting.requires_grad
                parameter.name = waiting.name.removesuffix("weight") + parameter.name
        del self._given
        vars(self).update(vars(built))
        self.__class__ = self.layer  # type: ignore[assignment]
        return self.forward(x)

    def extra_repr(self) -> str:
        return ", ".join([f"{name}={value}" for name, value in self._given.items()])


class _LazyFeatures(_Lazy):
    def features_of(self, x: Tensor) -> int:
        if not x.ndim:
            raise ValueError(f"{type(self).__name__}: x must have an axis of features, got a 0-d x")
        return x.shape[-1]


class _LazyChannels(_Lazy):
    dims: int

    def features_of(self, x: Tensor) -> int:
        dims = self.dims
        if x.ndim not in (dims + 1, dims + 2):
            raise ValueError(
                f"{type(self).__name__}: x must be (n, c, *size) or (c, *size) with {dims} axes of "
                f"size, got shape {x.shape}"
            )
        return x.shape[-dims - 1]


class _LazyBatchNorm(_Lazy):
    _checked: Any

    def features_of(self, x: Tensor) -> int:
        return self._checked(x).shape[1]


class LazyLinear(_LazyFeatures, Linear):
    """nn.Linear with in_features from the first input."""


class LazyConv1d(_LazyChannels, Conv1d):
    """nn.Conv1d with in_channels from the first input."""


class LazyConv2d(_LazyChannels, Conv2d):
    """nn.Conv2d with in_channels from the first input."""


class LazyConv3d(_LazyChannels, Conv3d):
    """nn.Conv3d with in_channels from the first input."""


class LazyConvTranspose1d(_LazyChannels, ConvTranspose1d):
    """nn.ConvTranspose1d with in_channels from the first input."""


class LazyConvTranspose2d(_LazyChannels, ConvTranspose2d):
    """nn.ConvTranspose2d with in_channels from the first input."""


class LazyConvTranspose3d(_LazyChannels, ConvTranspose3d):
    """nn.ConvTranspose3d with in_channels from the first input."""


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """nn.BatchNorm1d with num_features from the first input."""


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """nn.BatchNorm2d with num_features from the first input."""


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """nn.BatchNorm3d with num_features from the first input."""
