"""Losses. Each takes `reduction`: 'mean' (the default), 'sum', or 'none' for one a sample."""

from . import classes, ctc, elements, margins
from .classes import *
from .ctc import *
from .elements import *
from .margins import *

__all__ = [*classes.__all__, *ctc.__all__, *elements.__all__, *margins.__all__]
