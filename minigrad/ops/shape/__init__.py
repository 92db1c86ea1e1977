"""Shapes: views, joining, splitting, rearranging, padding, windows."""

from . import joining, padding, rearranging, splitting, views, windows
from .joining import *
from .padding import *
from .rearranging import *
from .splitting import *
from .views import *
from .windows import *

__all__ = [
    *joining.__all__, *padding.__all__, *rearranging.__all__, *splitting.__all__,
    *views.__all__, *windows.__all__,
]  # fmt: skip
