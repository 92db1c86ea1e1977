"""Blocks that are always left: Ctrl-C between the end of __enter__ and the block leaves none open.

`with block:` takes hold of `block.__exit__`, then calls `block.__enter__()`, and only what happens
after that is sure to be followed by a call of what it holds. An interrupt that comes earlier (as
__enter__ returns, or as __exit__ begins) drops it without a call. So what it holds is made for this
one `with`, and tells as it goes: if the block was entered meanwhile and not left, it is left then.
"""

import contextlib
from collections.abc import Callable
from functools import partial, wraps
from operator import attrgetter
from typing import Any, TypeVar
from weakref import ref

__all__ = ["contextmanager", "ended_by", "left_always"]

F = TypeVar("F", bound=Callable)


class _Way(ref):
    """A reference to the way out of one `with`.

    taken   [the class's exit, the block, how deep this thread was in it, this reference]: the way
            out refers to it as well, and empties it when it has been gone to its end
    """

    __slots__ = ("taken",)

    taken: list


class _Exit:
    """`__exit__` of a class: of the class the function, of an object a way out for one `with`.

    leave    the function
    depth    of a block: how often this thread is in it now
    abandon  leaves a block that was left behind
    """

    def __init__(self, leave: Callable, depth: Callable[[Any], int], abandon: Callable[[Any], Any]):
        self.leave, self.depth, self.abandon = leave, depth, abandon
        self.__doc__ = leave.__doc__

    def __get__(self, block: Any, kind: type | None = None) -> Callable:
        if block is None:
            return self.leave
        taken = [self, block, self.depth(block)]
        out = partial(_leave, taken)  # a bound method is dropped as it is called, not after
        way = _Way(out, _left_behind)
        way.taken = taken
        taken.append(way)
        return out


def _leave(taken: list, *exc: object) -> Any:
    result = taken[0].leave(taken[1], *exc)
    taken.clear()
    return result


def _left_behind(way: _Way) -> None:
    """The `with` has dropped its way out, and has not gone it, or not to its end."""
    if not way.taken:  # gone to its end: the frame of `__get__` was looked at, and kept the way
        return
    kind, block, depth, _ = way.taken
    way.taken.clear()
    if kind.depth(block) > depth:
        kind.abandon(block)


def left_always(
    depth: Callable[[Any], int], abandon: Callable[[Any], Any] | None = None
) -> Callable[[F], F]:
    """Decorator of an `__exit__`. depth(block): how often this thread is in the block now.

    A block that was left behind is left by `abandon`, or else as one that ends without an error.
    """

    def made(leave: F) -> F:
        instead = abandon or (lambda block: leave(block, None, None, None))
        return _Exit(leave, depth, instead)  # type: ignore[return-value]

    return made


class ended_by:
    """`with ended_by(undo):` undo() at the end; again, and to its end, where Ctrl-C cut it short.

    As `try … finally: undo()`, of which an interrupt as undo begins or loops leaves half undone.
    """

    __slots__ = ("undo", "is_entered")

    def __init__(self, undo: Callable[[], Any]):
        self.undo, self.is_entered = undo, False

    def __enter__(self) -> None:
        self.is_entered = True

    @left_always(attrgetter("is_entered"))
    def __exit__(self, *exc: object) -> None:
        self.undo()
        self.is_entered = False


class _Block(contextlib._GeneratorContextManager):
    """contextlib's, whose generator is closed where it was left behind, whoever holds on to it."""

    @left_always(lambda block: block.gen.gi_suspended, abandon=lambda block: block.gen.close())
    def __exit__(self, *exc: Any) -> Any:
        return super().__exit__(*exc)


def contextmanager(fn: Callable) -> Callable[..., contextlib.AbstractContextManager]:
    """contextlib.contextmanager of blocks that are always left."""

    @wraps(fn)
    def made(*args: Any, **kwargs: Any) -> _Block:
        return _Block(fn, args, kwargs)

    return made
