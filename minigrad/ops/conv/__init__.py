"""Convolution: primitives.py has the mathematics, calls.py the API."""

from . import calls
from .calls import *

__all__ = [*calls.__all__]
