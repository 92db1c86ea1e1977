"""Optimizers: they change parameters in place from the gradients that a backward has left."""

from ..tensor_api.help import missing_names_of as _missing_names_of
from . import lr_scheduler, swa_utils
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop
from .average import EMA
from .lbfgs import LBFGS
from .matrices import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import ASGD, SGD, Lion, Rprop

__all__ = [
    "ASGD", "EMA", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax",
    "Lion", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

__getattr__ = _missing_names_of(__name__)
