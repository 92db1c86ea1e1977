"""Convolution: primitives.py has the mathematics, images.py the layouts, calls.py the API."""

from . import calls, forms
from .calls import *

__all__ = [*calls.__all__]
