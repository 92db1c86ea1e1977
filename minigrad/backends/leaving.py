"""Blocks that are always left: Ctrl-C between the end of __enter__ and the block leaves none open.

`with block:` takes hold of `block.__exit__`, then calls `block.__enter__()`, and only what happens
after that is sure to be followed by a call of what it holds. An interrupt that comes earlier (as
__enter__ returns, or as __exit__ begins) drops it without a call. So what it holds is made for this
one `with`, and tells as it goes: if the block was entered meanwhile and not left, it is left then.
"""

import contextlib
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar
from weakref import ref

__all__ = ["contextmanager", "left_always"]

F = TypeVar("F", bound=Callable)


class _Exit:
    """`__exit__` of a class: of the class the function, of an object a way out for one `with`."""

    def __init__(self, leave: Callable, depth: Callable[[Any], int]):
        self.leave, self.depth = leave, depth
        self.__doc__ = leave.__doc__

    def __get__(self, block: Any, kind: type | None = None) -> Callable:
        if block is None:
            return self.leave
        way = [self, block, self.depth(block), None]
        out = partial(_leave, way)
        way[3] = ref(out, partial(_left_behind, way))
        return out


def _leave(way: list, *exc: object) -> Any:
    result = way[0].leave(way[1], *exc)
    way[3] = None  # the reference, and with it its callback
    return result


def _left_behind(way: list, _: object) -> None:
    """The `with` has dropped its way out, and has not gone it, or not to its end."""
    way[3] = None
    kind, block, depth, _ = way
    if kind.depth(block) > depth:
        kind.leave(block, None, None, None)


def left_always(depth: Callable[[Any], int]) -> Callable[[F], F]:
    """Decorator of an `__exit__`. depth(block): how often this thread is in the block now."""
    return lambda leave: _Exit(leave, depth)  # type: ignore[return-value]


class _Block(contextlib._GeneratorContextManager):
    """contextlib's, whose generator is run to its end, whoever holds on to it."""

    @left_always(lambda block: inspect.getgeneratorstate(block.gen) == inspect.GEN_SUSPENDED)
    def __exit__(self, *exc: Any) -> Any:
        return super().__exit__(*exc)


def contextmanager(fn: Callable) -> Callable[..., contextlib.AbstractContextManager]:
    """contextlib.contextmanager of blocks that are always left."""

    @wraps(fn)
    def made(*args: Any, **kwargs: Any) -> _Block:
        return _Block(fn, args, kwargs)

    return made
