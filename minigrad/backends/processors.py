"""Threads that share work, kept on different processors while mg.accelerate says so.

A scheduler may wake a helper on the processor of the thread that called it, where the two take
turns while another processor sleeps: some virtual machines pack threads so that wait often. So
while work is shared the caller stays where it is, and helpers run on any processor but that one.
Which of them is left to the system, and threads of others stay free. But the caller is not ours,
and a thread or process that it starts meanwhile inherits its processor: nothing here runs unless
`keep_apart` has been called.

MINIGRAD_KEEP_APART=0 leaves all of it to the system. So do systems other than Linux.

`queued` tells how long a thread was ready to run while all processors were busy.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread

_processor_number: Callable[[], int] | None = None  # the C library's, while threads are kept apart


def keep_apart(on: bool) -> None:
    """Whether threads that share work keep to different processors from here on."""
    global _processor_number
    off = os.environ.get("MINIGRAD_KEEP_APART", "").strip().lower() in ("0", "false", "no", "off")
    if not on or off or not sys.platform.startswith("linux"):
        _processor_number = None
    else:
        _processor_number = getattr(ctypes.PyDLL(None), "sched_getcpu", None)


def said() -> str:
    """What holds for threads now, for a bug report."""
    if _processor_number is None:
        return "threads run where the system lets them"
    return "threads that share work keep to different processors"


def queued(thread: int | None = None) -> int | None:
    """Nanoseconds that a thread of this process, by default this one, has waited for a processor.

    Ready to run, that is, and not for a lock. None where the system does not count them: Linux
    does, in the second number of /proc/…/schedstat.
    """
    of = "/proc/thread-self" if thread is None else f"/proc/self/task/{thread}"
    try:
        with open(f"{of}/schedstat", "rb", buffering=0) as file:
            return int(file.read(80).split()[1])
    except (OSError, ValueError, IndexError):
        return None


class ThreadAffinity:
    """On which processors the helper threads of one pool may run, as far as we have said so."""

    def __init__(self) -> None:
        self.given: dict[int, set[int]] = {}  # thread id of the system: processors

    def part(self, helpers: Iterable[Thread]) -> int | None:
        """Keep the helpers off this thread's processor, which is the result.

        None where they are not to be kept apart, where there is one processor, or no way to ask.
        """
        number = _processor_number  # another thread may switch it off
        if number is None:
            return None
        here, allowed = number(), os.sched_getaffinity(0)
        if here not in allowed or len(allowed) < 2:
            return None
        try:
            self._send(helpers, allowed - {here})
        except OSError:  # not permitted, or a processor has gone: the system knows better
            return None
        return here

    def stay(self, here: int | None, allowed: set[int]) -> None:
        """Keep this thread on the processor that `part` gave.

        allowed: an empty set, into which goes what `free` wants back.
        """
        if here is None:
            return
        allowed |= os.sched_getaffinity(0)
        with suppress(OSError):
            os.sched_setaffinity(0, {here})

    def free(self, allowed: set[int]) -> None:
        """Let this thread run again where it could before `stay`."""
        if allowed:
            os.sched_setaffinity(0, allowed)

    def gather(self, helpers: Iterable[Thread]) -> None:
        """Let helpers run where this thread may: for work that may start threads of its own."""
        if self.given:
            with suppress(OSError):  # one that has ended
                self._send(helpers, os.sched_getaffinity(0))
            self.given.clear()

    def _send(self, helpers: Iterable[Thread], processors: set[int]) -> None:
        for number in (helper.native_id for helper in helpers):
            if number is not None and self.given.get(number) != processors:
                os.sched_setaffinity(number, processors)
                self.given[number] = processors
