"""A thread that drives transfers on while the program computes.

MPI moves a non-blocking transfer only while a caller asks about it, so a thread asks. It sleeps
between questions: a rank whose peers are late must not take a core from their computation.
"""

import queue
import threading
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from ..engine import events
from .transport import Request

_SPINS = 20  # questions in a row before the thread sleeps
_NAP = 1e-4  # seconds; shorter ones cost the backward its core


class Transfer:
    """One transfer: asked for at `asked`, under way from `begun` to `ended` (nanoseconds)."""

    def __init__(self, start: Callable[[], Request], name: str):
        self.start, self.name = start, name
        self.asked = perf_counter_ns()
        self.begun = self.ended = 0
        self.error: BaseException | None = None
        self.finished = threading.Event()
        self.request: Request | None = None

    def wait_until(self, seconds: float) -> bool:
        """Whether it is complete after at most so long; its error is raised here."""
        complete = self.finished.wait(seconds)
        if self.error is not None:
            raise self.error
        return complete


class Progress:
    """Starts transfers in the order in which they are given, and completes them."""

    def __init__(self, name: str = "minigrad-communication"):
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._last_end = 0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, start: Callable[[], Request], name: str) -> Transfer:
        """Start a transfer soon, after all that were given before."""
        transfer = Transfer(start, name)
        self._queue.put(transfer)
        return transfer

    def close(self) -> None:
        """Let the thread end when everything given so far is complete."""
        self._queue.put(None)

    def _run(self) -> None:
        pending: list[Transfer] = []
        spins = 0
        while True:
            # new ones are started at once; with nothing under way the thread sleeps for the next
            while not pending or not self._queue.empty():
                transfer = self._queue.get()
                if transfer is None:
                    return
                self._begin(transfer)
                pending.append(transfer)
            before = len(pending)
            pending = [transfer for transfer in pending if not self._done(transfer)]
            spins = 0 if len(pending) < before else spins + 1
            if spins > _SPINS:
                time.sleep(_NAP if spins < 500 * _SPINS else 20 * _NAP)

    def _begin(self, transfer: Transfer) -> None:
        try:
            transfer.request = transfer.start()
        except BaseException as error:
            transfer.error = error

    def _done(self, transfer: Transfer) -> bool:
        try:
            complete = transfer.error is not None or transfer.request.done()  # type: ignore[union-attr]
        except BaseException as error:
            complete, transfer.error = True, error
        if complete:
            self._note(transfer)
        return complete

    def _note(self, transfer: Transfer) -> None:
        """Times of the transfer: one that waited behind another begins when that has ended."""
        transfer.ended = perf_counter_ns()
        transfer.begun = max(transfer.asked, self._last_end)
        self._last_end = transfer.ended
        transfer.request = None
        if events.listeners:
            events.tell(
                "marked", "communication", transfer.name, transfer.begun, transfer.ended, None
            )
        transfer.finished.set()


def of_gpu(request: Any, name: str) -> Transfer:
    """A transfer that the GPU drives by itself; it is waited for on the stream."""
    transfer = Transfer(lambda: request, name)
    transfer.request = request
    transfer.finished.set()
    return transfer
