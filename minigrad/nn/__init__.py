"""Modules and layers: parameters, their names, and how they are initialised."""

from . import init
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
from .parameter import Parameter

__all__ = [
    "GELU", "Conv2d", "Dropout", "Flatten", "Linear", "MaxPool2d", "Module", "Parameter", "ReLU",
    "Sequential", "Sigmoid", "Tanh", "init",
]  # fmt: skip
