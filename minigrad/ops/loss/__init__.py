"""Losses. Each takes `reduction`: 'mean' (the default), 'sum', or 'none' for one a sample."""

from . import classes, ctc, elements, linear_classes, margins
from .classes import *
from .ctc import *
from .elements import *
from .linear_classes import *
from .margins import *

__all__ = [
    *classes.__all__, *ctc.__all__, *elements.__all__, *linear_classes.__all__, *margins.__all__,
]  # fmt: skip
