"""Optimizers: they change parameters in place from the gradients that a backward has left."""

from . import lr_scheduler
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop
from .average import EMA
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import SGD, Lion

__all__ = [
    "EMA", "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "lr_scheduler",
]  # fmt: skip
