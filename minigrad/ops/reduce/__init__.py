"""Reductions: sums, spread, extrema, order statistics, products, running forms."""

from . import (
    chosen,
    cumulative,
    exponentials,
    extrema,
    order,
    products,
    running_extrema,
    spread,
    sums,
)
from .cumulative import *
from .exponentials import *
from .extrema import *
from .order import *
from .products import *
from .running_extrema import *
from .spread import *
from .sums import *

__all__ = [
    *cumulative.__all__, *exponentials.__all__, *extrema.__all__, *order.__all__,
    *products.__all__, *running_extrema.__all__, *spread.__all__, *sums.__all__,
]  # fmt: skip
