"""Options of functions, held against their annotations where NumPy would take anything in silence.

training="abc" is true and ceil_mode=nan too; ignore_index=1.5 equals no target. Only parameters
annotated as bool, int or int | None are looked at, once the call has succeeded: where it fails, it
says more.
"""

import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

_WHOLE = (int, int | None)
_BY_NAME = sys.maxsize  # the place of what cannot be given by position


class Options:
    """The options of one function: `check(args, kwargs)` is a TypeError for one of another kind."""

    def __init__(self, fn: Callable):
        parameters = enumerate(inspect.signature(fn).parameters.values())
        self.found = [(_place(i, p), p.name, p.annotation) for i, p in parameters if _is_option(p)]
        self.first = min((place for place, *_ in self.found), default=_BY_NAME)

    def check(self, called: str, args: tuple, kwargs: dict[str, Any]) -> None:
        """Refuse what is given for an option and is not of its kind."""
        if not kwargs and len(args) <= self.first:
            return
        for i, name, kind in self.found:
            value = args[i] if i < len(args) else kwargs.get(name)
            if value is None or value.__class__ is bool or value.__class__ is kind:
                continue
            if not (_is_truth(value) if kind is bool else _is_whole(value)):
                wanted = "True or False" if kind is bool else "an integer"
                raise TypeError(f"{called}: {name} must be {wanted}, got {value!r:.60}")


def _place(i: int, p: inspect.Parameter) -> int:
    return _BY_NAME if p.kind is p.KEYWORD_ONLY else i


def _is_option(p: inspect.Parameter) -> bool:
    return p.annotation is bool or p.annotation in _WHOLE


def _is_truth(value: Any) -> bool:
    """Whether it is a truth value, of NumPy or in an array too, or the number 0 or 1."""
    if isinstance(value, int):
        return value in (0, 1)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("b", "i", "u") and value.size == 1 and int(value) in (0, 1)


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True
