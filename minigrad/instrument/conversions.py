"""Conversions of tensors to NumPy and from it, reported while a log records.

The conversions (`numpy`, `tolist`, `data`, `__array__` and the making of a tensor from an array)
are no ops, so they have no events. While a log records, these methods of the class report each use
by a line of the user's. At other times the class is as written.
"""

import functools
import sys
from collections.abc import Callable
from functools import partial
from operator import ne
from time import perf_counter_ns
from types import FrameType
from typing import Any

from ..backends.locks import Lock
from ..backends.sites import is_own
from ..tensor_api.tensor import Tensor

Hear = Callable[[str, Any, int, int], Any]  # (what, the array, t0, t1)
TO, FROM = "to NumPy", "from NumPy"

hearing: tuple[Hear, ...] = ()
_lock = Lock()
_WRITTEN = {name: Tensor.__dict__[name] for name in ("numpy", "tolist", "__array__", "data")}
_INIT = Tensor.__init__
_MAKERS = {"tensor", "as_tensor"}  # of tensor_api.create: other makers fill their arrays themselves


def listen(hear: Hear) -> None:
    """Call hear(what, array, t0, t1) for each conversion from now on."""
    global hearing
    with _lock:
        hearing = (*hearing, hear)
        if len(hearing) == 1:
            for name in ("numpy", "tolist", "__array__"):
                setattr(Tensor, name, _telling(_WRITTEN[name]))
            data = _WRITTEN["data"]
            Tensor.data = property(_telling(data.fget), data.fset, doc=data.__doc__)  # type: ignore
            Tensor.__init__ = _making  # type: ignore[method-assign]


def unlisten(hear: Hear) -> None:
    """Stop that; unknown listeners are ignored."""
    global hearing
    with _lock:
        before, hearing = hearing, tuple(filter(partial(ne, hear), hearing))
        if before and not hearing:
            for name, written in _WRITTEN.items():
                setattr(Tensor, name, written)
            Tensor.__init__ = _INIT  # type: ignore[method-assign]


def _telling(method: Callable) -> Callable:
    @functools.wraps(method)
    def convert(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_own(sys._getframe(1)):
            return method(self, *args, **kwargs)
        t0 = perf_counter_ns()
        found = method(self, *args, **kwargs)
        _tell(TO, self._data, t0)
        return found

    return convert


@functools.wraps(_INIT)
def _making(self: Tensor, *args: Any, **kwargs: Any) -> None:
    t0 = perf_counter_ns()
    _INIT(self, *args, **kwargs)
    if _is_asked_for(sys._getframe(1)):
        _tell(FROM, self._data, t0)


def _is_asked_for(caller: FrameType) -> bool:
    """Whether the program has made this tensor of data, or `mg.tensor` has for it."""
    return not is_own(caller) or caller.f_code.co_name in _MAKERS


def _tell(what: str, array: Any, t0: int) -> None:
    t1 = perf_counter_ns()
    for hear in hearing:
        hear(what, array, t0, t1)
