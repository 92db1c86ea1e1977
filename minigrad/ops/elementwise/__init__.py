"""The ops that work element by element."""

from . import (
    arithmetic,
    compare,
    complex,
    exponential,
    floats,
    powers,
    selection,
    special,
    trigonometric,
)
from .arithmetic import *
from .compare import *
from .complex import *
from .exponential import *
from .floats import *
from .powers import *
from .selection import *
from .special import *
from .trigonometric import *

__all__ = [
    *arithmetic.__all__,
    *powers.__all__,
    *exponential.__all__,
    *floats.__all__,
    *trigonometric.__all__,
    *special.__all__,
    *compare.__all__,
    *selection.__all__,
    *complex.__all__,
]
