"""Modules and layers: parameters, their names, and how they are initialised."""

from . import init
from .attention import MultiheadAttention, TransformerEncoderLayer
from .layers import (
    GELU,
    Conv2d,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    Sigmoid,
    Tanh,
)
from .module import Module
from .norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    LayerNorm,
    RMSNorm,
)
from .parameter import Parameter

__all__ = [
    "GELU", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Conv2d", "Dropout", "Flatten",
    "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LayerNorm", "Linear", "MaxPool2d",
    "Module", "MultiheadAttention", "Parameter", "RMSNorm", "ReLU", "Sequential", "Sigmoid",
    "Tanh", "TransformerEncoderLayer", "init",
]  # fmt: skip
