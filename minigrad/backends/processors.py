"""Threads that share work, kept on different processors.

A scheduler may wake a helper on the processor of the thread that called it, where the two take
turns while another processor sleeps: some virtual machines pack threads so that wait often. A
convolutional network's step on two threads took 25 ms there and takes 16 apart. So while work is
shared the caller stays where it is, and helpers run on any processor but that one. Which of them
is left to the system; nothing is bound for longer, and threads and processes of others stay free.

MINIGRAD_KEEP_APART=0 leaves all of it to the system. So do systems other than Linux.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from threading import Thread


def _find_processor_number() -> Callable[[], int] | None:
    """The C library's sched_getcpu; None where there is none, or where it is not to be used."""
    off = os.environ.get("MINIGRAD_KEEP_APART", "").strip().lower() in ("0", "false", "no", "off")
    if off or not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)


_processor_number = _find_processor_number()


class Places:
    """On which processors the helper threads of one pool may run, as far as we have said so."""

    def __init__(self) -> None:
        self.given: dict[int, set[int]] = {}  # thread id of the system: processors

    def part(self, helpers: Iterable[Thread]) -> int | None:
        """Keep the helpers off this thread's processor, which is the result.

        None where there is one processor, or no way to ask for it.
        """
        if _processor_number is None:
            return None
        here, allowed = _processor_number(), os.sched_getaffinity(0)
        if here not in allowed or len(allowed) < 2:
            return None
        try:
            self._send(helpers, allowed - {here})
        except OSError:  # not permitted, or a processor has gone: the system knows better
            return None
        return here

    def stay(self, here: int | None) -> set[int] | None:
        """Keep this thread on the processor that `part` gave. Returns what `free` wants back."""
        if here is None:
            return None
        allowed = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {here})
        except OSError:
            return None
        return allowed

    def free(self, allowed: set[int] | None) -> None:
        """Let this thread run again where it could before `part`."""
        if allowed is not None:
            os.sched_setaffinity(0, allowed)

    def gather(self, helpers: Iterable[Thread]) -> None:
        """Let helpers run where this thread may: for work that may start threads of its own."""
        if self.given:
            self._send(helpers, os.sched_getaffinity(0))
            self.given.clear()

    def _send(self, helpers: Iterable[Thread], processors: set[int]) -> None:
        for number in (helper.native_id for helper in helpers):
            if number is not None and self.given.get(number) != processors:
                os.sched_setaffinity(number, processors)
                self.given[number] = processors
