"""Blocks that are always left: Ctrl-C between the end of __enter__ and the block leaves none open.

`with block:` loads `block.__exit__`, then calls `block.__enter__()`. Python guarantees the call of
the loaded method only after that. An earlier interrupt (as __enter__ returns, or as __exit__
begins) drops the method without a call. The loaded method is therefore an object made for this one
`with`. If it is dropped while its block is entered and not left, it leaves the block.
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
    """A weak reference to the exit of one `with`.

    taken   [the class's exit, the block, this thread's depth in it, this reference]; the exit
            shares this list, and empties it when it has run to its end
    """

    __slots__ = ("taken",)

    taken: list


class _Exit:
    """`__exit__` of a class: read from the class the function, from an object an exit for one
    `with`.

    leave    the function
    depth    of a block: how often this thread is in it now
    abandon  leaves a block whose exit was dropped
    """

    def __init__(self, leave: Callable, depth: Callable[[Any], int], abandon: Callable[[Any], Any]):
        self.leave, self.depth, self.abandon = leave, depth, abandon
        self.__doc__ = leave.__doc__

    def __get__(self, block: Any, kind: type | None = None) -> Callable:
        if block is None:
            return self.leave
        taken = [self, block, self.depth(block)]
        out = partial(_leave, taken)  # unlike a bound method, it lives until the call ends
        way = _Way(out, _left_behind)
        way.taken = taken
        taken.append(way)
        return out


def _leave(taken: list, *exc: object) -> Any:
    result = taken[0].leave(taken[1], *exc)
    taken.clear()
    return result


def _left_behind(way: _Way) -> None:
    """The `with` has dropped its exit without running it to its end."""
    if not way.taken:  # it ran to its end: a debugger's frame of `__get__` kept the reference
        return
    kind, block, depth, _ = way.taken
    way.taken.clear()
    if kind.depth(block) > depth:
        kind.abandon(block)


def left_always(
    depth: Callable[[Any], int], abandon: Callable[[Any], Any] | None = None
) -> Callable[[F], F]:
    """Decorator of an `__exit__`. depth(block): how often this thread is in the block now.

    A block whose exit was dropped is left by `abandon`, or by default like one without an error.
    """

    def made(leave: F) -> F:
        instead = abandon or (lambda block: leave(block, None, None, None))
        return _Exit(leave, depth, instead)  # type: ignore[return-value]

    return made


class ended_by:
    """`with ended_by(undo):` calls undo() at the end, and once more, completely, if Ctrl-C stopped
    it.

    Like `try … finally: undo()`, where an interrupt in undo would leave a part of it undone.
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
    """contextlib's, which closes its generator if its exit was dropped, despite other
    references."""

    @left_always(lambda block: block.gen.gi_suspended, abandon=lambda block: block.gen.close())
    def __exit__(self, *exc: Any) -> Any:
        return super().__exit__(*exc)


def contextmanager(fn: Callable) -> Callable[..., contextlib.AbstractContextManager]:
    """contextlib.contextmanager for blocks that are always left."""

    @wraps(fn)
    def made(*args: Any, **kwargs: Any) -> _Block:
        return _Block(fn, args, kwargs)

    return made
