"""Threads that share work, kept on different processors while mg.accelerate is on.

A scheduler may wake a helper on the processor of the calling thread, where the two take turns while
another processor sleeps. Some virtual machines do so for threads that wait often. During shared
work the caller therefore stays on its processor, and helpers run on any other. The system chooses
which one, and threads of other libraries stay free. But the caller belongs to the program, and a
thread or process that it starts during the call inherits its processor. Nothing here runs unless
`keep_apart` has been called.

MINIGRAD_KEEP_APART=0 leaves the choice to the system; so do systems other than Linux.

`queued` returns how long a thread was ready to run while all processors were busy.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread

_processor_number: Callable[[], int] | None = None  # of the C library, while threads are kept apart


def keep_apart(on: bool) -> None:
    """Set whether threads that share work keep to different processors from here on."""
    global _processor_number
    off = os.environ.get("MINIGRAD_KEEP_APART", "").strip().lower() in ("0", "false", "no", "off")
    if not on or off or not sys.platform.startswith("linux"):
        _processor_number = None
    else:
        _processor_number = getattr(ctypes.PyDLL(None), "sched_getcpu", None)


def said() -> str:
    """The state of threads now, for a bug report."""
    if _processor_number is None:
        return "threads run where the system lets them"
    return "threads that share work keep to different processors"


def queued(thread: int | None = None) -> int | None:
    """Nanoseconds that a thread of this process, by default this one, has waited for a processor.

    It counts the time in which the thread was ready to run, not waiting for a lock. None where the
    system does not count it: Linux does, in the second number of /proc/…/schedstat.
    """
    of = "/proc/thread-self" if thread is None else f"/proc/self/task/{thread}"
    try:
        with open(f"{of}/schedstat", "rb", buffering=0) as file:
            return int(file.read(80).split()[1])
    except (OSError, ValueError, IndexError):
        return None


class ThreadAffinity:
    """The processors where the helper threads of one pool may run, as set here."""

    def __init__(self) -> None:
        self.given: dict[int, set[int]] = {}  # the system's thread id: processors

    def part(self, helpers: Iterable[Thread]) -> int | None:
        """Keep the helpers off this thread's processor, which is the result.

        None if threads are not kept apart, or there is one processor, or the system cannot tell.
        """
        number = _processor_number  # another thread may switch it off
        if number is None:
            return None
        here, allowed = number(), os.sched_getaffinity(0)
        if here not in allowed or len(allowed) < 2:
            return None
        try:
            self._send(helpers, allowed - {here})
        except OSError:  # not permitted, or a processor has gone
            return None
        return here

    def stay(self, here: int | None, allowed: set[int]) -> None:
        """Keep this thread on the processor that `part` returned.

        allowed: an empty set, which receives this thread's processors for `free`.
        """
        if here is None:
            return
        allowed |= os.sched_getaffinity(0)
        with suppress(OSError):
            os.sched_setaffinity(0, {here})

    def free(self, allowed: set[int]) -> None:
        """Let this thread run again on the processors before `stay`."""
        if allowed:
            os.sched_setaffinity(0, allowed)

    def gather(self, helpers: Iterable[Thread]) -> None:
        """Let helpers run on this thread's processors: for work that may start further threads."""
        if self.given:
            with suppress(OSError):  # one that has ended
                self._send(helpers, os.sched_getaffinity(0))
            self.given.clear()

    def _send(self, helpers: Iterable[Thread], processors: set[int]) -> None:
        for number in (helper.native_id for helper in helpers):
            if number is not None and self.given.get(number) != processors:
                os.sched_setaffinity(number, processors)
                self.given[number] = processors
