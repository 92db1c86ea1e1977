"""Threads that stand in for others: what nests too deeply goes on on the stack of a new thread.

Python bounds the depth of each thread's calls (sys.getrecursionlimit). A backward inside a backward
is such calls, so at a great depth `on_new_stack` starts a thread, which has a stack of its own, and
waits for it. As far as this library can see, that thread is the one that waits: `identity` is the
same, and so is what is kept in a `Local`, in context variables, and as CuPy's device and stream.
"""

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from sys import _current_frames
from typing import Any

from .device import device_here

_locals: "weakref.WeakSet[Local]" = weakref.WeakSet()
_MOST = 256  # threads that stand in for one: an endless recursion ends in a RecursionError


class Local(threading.local):
    """A threading.local that a thread shares with those that stand in for it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Local":
        made = super().__new__(cls, *args, **kwargs)
        _locals.add(made)
        return made


class _Here(threading.local):
    identity: int | None = None  # that for which this thread stands in, if any
    chain: tuple[int, ...] = ()  # the threads that stand in for it, the last of them running


_here = _Here()


def identity() -> int:
    """threading.get_ident(); in a thread that stands in for another, that of the other."""
    return _here.identity or threading.get_ident()


def stack_runs_out() -> bool:
    """Whether this thread has used a third of the depth that Python allows, so that a call which
    nests had better go on on another stack.
    """
    if len(_here.chain) >= _MOST:
        return False
    try:
        sys._getframe(sys.getrecursionlimit() // 3)
    except ValueError:
        return False
    return True


def on_new_stack(fn: Callable[[], Any]) -> Any:
    """fn() in a new thread that stands in for this one, which waits; its result or its error.

    Ctrl-C reaches what runs there. Where no thread can be started fn runs here.
    """
    call = _Call(fn)
    try:
        call.thread.start()
    except RuntimeError:  # the system gives no more threads, or the interpreter is about to end
        return fn()
    interrupt = call.wait()
    call.take_over()
    error, call.error = call.error, None
    try:
        if interrupt is not None:
            raise interrupt
        if error is not None:
            raise error
        return call.result
    finally:  # a traceback refers to this frame: leave no cycle
        del error, interrupt


class _Call:
    """One call on a new stack."""

    def __init__(self, fn: Callable[[], Any]):
        self.fn = fn
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()
        self.device = device_here()
        self.locals = [(local, local.__dict__) for local in list(_locals)]
        self.theirs: list[tuple[dict, dict]] = []  # (what this thread keeps in a Local, the other)
        self.context: Context = copy_context()
        self.caller, self.chain = identity(), _here.chain
        # named as the thread for which it stands in, which listeners may ask for
        name = threading.current_thread().name
        self.thread = threading.Thread(
            target=self.context.run, args=(self._run,), name=name, daemon=True
        )

    def _run(self) -> None:
        for local, mine in self.locals:
            local.__dict__.update(mine)
            self.theirs.append((mine, local.__dict__))
        _here.identity = self.caller
        _here.chain = (*self.chain, threading.get_ident())
        _running[self.caller] = _here.chain
        try:
            with self.device():
                self.result = self.fn()  # pyright: ignore[reportOptionalCall] (set until here)
        except BaseException as error:
            self.error = error
        finally:
            self.fn = None  # type: ignore[assignment]
            self.done.release()  # an interrupt may come first: `wait` also looks for the thread

    def wait(self) -> BaseException | None:
        """Until the thread has ended. What interrupts this one (Ctrl-C) is raised in the innermost
        of those that stand in for it, which is the one that runs, and returned in the end.
        """
        interrupt = None
        while True:
            try:  # with a time, as some interrupts do not end the wait for a lock
                if self.done.acquire(timeout=0.2) or self.thread.ident not in _current_frames():
                    self.thread.join()
                    return interrupt
            except BaseException as raised:  # KeyboardInterrupt, or what a signal's handler raises
                interrupt = raised
                for ident in _running.get(self.caller, ())[-1:]:
                    _raise_in(ident, type(raised))

    def take_over(self) -> None:
        """Keep what the thread has left in the Locals and context variables as this one's own."""
        if self.chain:
            _running[self.caller] = self.chain
        else:
            _running.pop(self.caller, None)
        for mine, other in self.theirs:
            mine |= other
            for gone in mine.keys() - other.keys():
                del mine[gone]
        for variable, value in self.context.items():
            if variable.get(_ABSENT) is not value:
                variable.set(value)


_ABSENT: Any = object()
_running: dict[int, tuple[int, ...]] = {}  # by identity: the chain of the thread that runs now


def _raise_in(ident: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))
