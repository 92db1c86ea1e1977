"""Indexing: reading and writing by index, order, diagonals."""

from . import diagonals, items, ordering, reducing, replacing, taking
from .diagonals import *
from .items import *
from .ordering import *
from .reducing import *
from .replacing import *
from .taking import *

__all__ = [
    *diagonals.__all__,
    *items.__all__,
    *ordering.__all__,
    *reducing.__all__,
    *replacing.__all__,
    *taking.__all__,
]
