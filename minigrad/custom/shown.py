"""The engine's arrays as users' code sees them: it may look at them, not change them.

A cotangent is often referred to by another branch of the graph, by the caller, or by a gradient
that was handed out. So hooks, a Function's backward and jvp, and users' rules get read-only views.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends.leaving import contextmanager
from ..backends.threads import Local
from ..engine.graph import wrap
from ..tensor_api.tensor import Tensor


class _Here(Local):
    as_it_is = False


_here = _Here()


@contextmanager
def as_it_is() -> Iterator[None]:
    """In this thread everything is shown itself: for tests of whether a rule writes into it."""
    before = _here.as_it_is
    try:
        _here.as_it_is = True
        yield
    finally:
        _here.as_it_is = before


def as_tensor(x: Any) -> Any:
    """An array as a tensor; a tensor or None as it is."""
    return x if x is None or isinstance(x, Tensor) else wrap(x)


def read_only(x: Any) -> Any:
    """x for others to look at: a read-only view, also inside a tensor; or each in a list or tuple.

    An array on a GPU has no such view and is shown itself.
    """
    if _here.as_it_is:
        return x
    if type(x) is np.ndarray:
        x = x.view()
        x.flags.writeable = False
        return x
    if isinstance(x, Tensor):
        y = wrap(read_only(x._data), x.node, type(x))
        y._grad = x._grad if x.level else None  # where a dual number has its tangent
        return y
    return type(x)([read_only(part) for part in x]) if type(x) in (list, tuple) else x


def returned(y: Any, shown: Any, own: Any) -> Any:
    """y, or what it was a view of: where a rule returns what it was shown."""
    for view, x in zip(shown, own, strict=True):
        if y is view:
            return x
    return [returned(part, shown, own) for part in y] if type(y) in (list, tuple) else y


def is_own(fn: Callable) -> bool:
    """Whether a rule is one of this library's, or NumPy's."""
    return (getattr(fn, "__module__", None) or "").partition(".")[0] in _OWN


def guarded(fn: Callable) -> Callable:
    """A rule as the engine calls it: one of a user's is shown read-only views."""
    if is_own(fn):
        return fn

    @functools.wraps(fn)
    def run(*values: Any) -> Any:
        shown = [read_only(x) for x in values]
        return returned(fn(*shown), shown, values)

    return run


_OWN = (__name__.partition(".")[0], "numpy")
