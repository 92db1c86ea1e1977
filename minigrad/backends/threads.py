"""Threads that stand in for others: deeply nested calls continue on the stack of a new thread.

Python bounds the depth of each thread's calls (sys.getrecursionlimit), and nested backwards are
nested calls. At a great depth `on_new_stack` starts a thread with another stack, and waits for it.
For this library the new thread is the same as the waiting one: it has the same `identity`, the same
values in a `Local` and in context variables, and the same CuPy device and stream.
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
_MOST = 256  # stand-ins for one thread: an endless recursion ends in a RecursionError


class Local(threading.local):
    """A threading.local that a thread shares with those that stand in for it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Local":
        made = super().__new__(cls, *args, **kwargs)
        _locals.add(made)
        return made


class _Here(threading.local):
    identity: int | None = None  # of the thread that this one stands in for
    chain: tuple[int, ...] = ()  # its stand-ins; the last one runs


_here = _Here()


def identity() -> int:
    """threading.get_ident(); in a stand-in, the identity of the thread that it stands in for."""
    return _here.identity or threading.get_ident()


def stack_runs_out() -> bool:
    """Whether this thread has used a third of the depth that Python allows: nested calls should
    then continue on another stack.
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

    Ctrl-C reaches the new thread. If no thread can start, fn runs here.
    """
    call = _Call(fn)
    try:
        call.thread.start()
    except RuntimeError:  # the system allows no more threads, or the interpreter is ending
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
        self.theirs: list[tuple[dict, dict]] = []  # (a Local's dict in this thread, in the other)
        self.context: Context = copy_context()
        self.caller, self.chain = identity(), _here.chain
        # the name of the thread that it stands in for, which listeners may read
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
            self.done.release()  # an interrupt may skip it: `wait` also tests the thread

    def wait(self) -> BaseException | None:
        """Wait until the thread has ended; return an interrupt of this thread, or None.

        An interrupt (Ctrl-C) is first raised in the innermost stand-in, which is the running one.
        """
        interrupt = None
        while True:
            try:  # a timeout, as some interrupts do not end the wait for a lock
                if self.done.acquire(timeout=0.2) or self.thread.ident not in _current_frames():
                    self.thread.join()
                    return interrupt
            except BaseException as raised:  # KeyboardInterrupt, or raised by a signal handler
                interrupt = raised
                for ident in _running.get(self.caller, ())[-1:]:
                    _raise_in(ident, type(raised))

    def take_over(self) -> None:
        """Take over the thread's values in the Locals and context variables."""
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
_running: dict[int, tuple[int, ...]] = {}  # by identity: the chain of the running thread


def _raise_in(ident: int, kind: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))
