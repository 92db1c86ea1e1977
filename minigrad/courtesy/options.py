"""Options of functions, held against their annotations where NumPy would take anything in silence.

training="abc" is true and ceil_mode=nan too; ignore_index=1.5 equals no target. It checks only
parameters annotated as a flag, an integer, a generator or a function, and only after a call that
succeeded: one that fails says more.
"""

import inspect
import operator
import sys
from collections.abc import Callable
from functools import cached_property
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np

from ..backends.dtypes import is_truth

_BY_NAME = sys.maxsize  # the position of what cannot be given by position


class Options:
    """The options of one function: `check` is a TypeError for a value of another kind.

    found   (position, name, kind) of each
    first   the position of the first; a call with fewer arguments and no keywords gives none

    Both are read from the signature at the first call: an import wraps 600 functions.
    """

    def __init__(self, fn: Callable):
        self.fn = fn

    @cached_property
    def found(self) -> list[tuple[int, str, Any]]:
        parameters = enumerate(inspect.signature(self.fn).parameters.values())
        found = [(_position(i, p), p.name, _kind(p.annotation)) for i, p in parameters]
        return [(position, name, kind) for position, name, kind in found if kind]

    @cached_property
    def first(self) -> int:
        return min((position for position, *_ in self.found), default=_BY_NAME)

    def check(self, called: str, args: tuple, kwargs: dict[str, Any]) -> None:
        """Refuse what is given for an option and is not of its kind."""
        for i, name, kind in self.found:
            value = args[i] if i < len(args) else kwargs.get(name)
            if value is None or value.__class__ is bool or value.__class__ is kind:
                continue
            held(called, name, value, kind)


def held(called: str, name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of this kind, a key of the table below."""
    wanted, fits = _KINDS[kind]
    if not fits(value):
        raise TypeError(f"{called}: {name} must be {wanted}, got {value!r:.60}")


def _position(i: int, p: inspect.Parameter) -> int:
    return _BY_NAME if p.kind is p.KEYWORD_ONLY else i


def _kind(annotation: Any) -> Any:
    """What is asked for, None beside it or not; None where that is not looked at."""
    kinds = [annotation]
    if isinstance(annotation, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    kind = get_origin(kinds[0]) or kinds[0]
    return kind if len(kinds) == 1 and any(kind is known for known in _KINDS) else None


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _draws(value: Any) -> bool:
    """Whether it is a generator, or its substitute inside a checkpoint or on a GPU."""
    return hasattr(value, "integers")


_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("True or False", is_truth),
    int: ("an integer", _is_whole),
    np.random.Generator: ("an np.random.Generator", _draws),
    Callable: ("a function", callable),
}
