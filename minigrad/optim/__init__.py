"""Optimizers: they turn the gradients of parameters into steps, in place."""

from .adam import Adam
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]
