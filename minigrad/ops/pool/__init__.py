"""Pooling: primitives.py has the mathematics, calls.py the API."""

from . import calls, fractional, indices, lp
from .calls import *
from .fractional import *
from .indices import *
from .lp import *

__all__ = [*calls.__all__, *fractional.__all__, *indices.__all__, *lp.__all__]
