"""Where float64 comes from: the line that brought it, for the ops which inherit it.

An array of double precision that no observed op has made counts from the op that meets it first, or
from the line that made a tensor of it. Its results inherit that line. Programs of one
precision pay nothing for this: it begins with the first op that is given both.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..tensor_api.tensor import Tensor
from .cells import any_narrow
from .records import CASTS

FLOAT64, COMPLEX128 = np.dtype("float64"), np.dtype("complex128")
_MOST = 100_000  # arrays followed


class WideSources:
    """Follows arrays of double precision through the ops of a log."""

    def __init__(self) -> None:
        self._origins: dict[int, tuple[weakref.ref, tuple]] = {}  # by id of the array
        self.alone = True  # no op yet was given a narrower float too

    def made(self, array: Any, origin: tuple) -> None:
        """The program has made a tensor of this array."""
        if getattr(array, "dtype", None) in (FLOAT64, COMPLEX128):
            self._follow(array, origin)

    def source(self, op: str, inputs: tuple, outputs: tuple, origin: tuple) -> tuple | None:
        """Where the float64 of an op's result came from, if a narrower input has become float64.

        Called where the first output is of double precision.
        """
        promoted = op not in CASTS and any_narrow(inputs)
        if self.alone and not promoted:
            return None
        self.alone = False
        came = self._inherited(inputs) or origin
        for y in outputs:
            self._follow(_array(y), came)
        return came if promoted else None

    def _inherited(self, inputs: Iterable) -> tuple | None:
        for x in inputs:
            if isinstance(x, list | tuple):
                came = self._inherited(x)
                if came is not None:
                    return came
                continue
            array = _array(x)
            found = self._origins.get(id(array))
            if found is not None and found[0]() is array:
                return found[1]
        return None

    def _follow(self, array: Any, origin: tuple) -> None:
        if len(self._origins) < _MOST:
            key = id(array)
            try:
                ref = weakref.ref(array, lambda _, key=key: self._origins.pop(key, None))
            except TypeError:  # an array class without weak references
                return
            self._origins[key] = ref, origin


def _array(x: Any) -> Any:
    return x._data if isinstance(x, Tensor) else x
