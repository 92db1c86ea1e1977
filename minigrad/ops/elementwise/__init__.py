"""The ops that work element by element."""

from . import (  # their names are in mg.special
    arithmetic,
    bessel,
    compare,
    complex,
    entropy,
    exponential,
    floats,
    hypergeometric,
    incomplete,
    incomplete_inverse,
    integrals,
    lambert,
    orthogonal,
    power_transforms,
    powers,
    probability,
    selection,
    special,
    spherical,
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
