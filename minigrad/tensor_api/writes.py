"""How users' writes are noted, beyond whole arrays (engine/versions.py)."""

from typing import Any

import numpy as np

from ..engine import versions
from ..engine.graph import next_number


def note_write_at(array: Any, index: Any, what: str) -> None:
    """Record a write at an index. Where the index gives a view, only that part counts as written,
    not the other rows."""
    parts = index if type(index) is tuple else (index,)
    basic = all(part is None or part is ... or type(part) in _BASIC for part in parts)
    if basic and index is not ...:
        array = array[index] if ... in parts else array[(*parts, ...)]  # of one element, too
    versions.note_write(array, what, of_all=basic)


_BASIC = frozenset([int, slice, *[np.dtype(code).type for code in np.typecodes["AllInteger"]]])


def note_end_of_write(array: Any) -> None:
    """Record that `x.data *= v` has ended, with the assignment of `array` to where it was.

    Unless the write was noted just now, as that of `x.data -= tensor` is.
    """
    newest = versions.newest_write(array)
    if newest is None or newest + 1 != next_number():
        versions.note_write(array, "`x.data *= v`, or another write that ends in `x.data = x.data`")
