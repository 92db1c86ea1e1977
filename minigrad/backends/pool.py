"""Helper threads for large array work: NumPy and BLAS release the GIL while they compute.

    share(work, pieces)     work(piece) for every piece, on this thread and on idle helpers
    together(loop, count)   loop() on this thread and on up to count − 1 helpers at once
    keep_apart(on)          whether `share` keeps each thread on a separate processor

The caller always takes part and never waits for a helper that has not begun: a busy or slow helper
delays nothing. Inside shared work, further calls run on their own thread: threads do not multiply.
Pieces write to separate memory. Results then depend neither on the number of threads nor on which
thread computes which piece.

Helpers start at first use and end with the interpreter. A forked child has none of them, and starts
its own.
"""

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from numbers import Integral
from queue import SimpleQueue
from time import monotonic
from typing import Any

from . import processors
from .device import device_here
from .leaving import ended_by
from .locks import Lock
from .processors import ThreadAffinity
from .threads import Local

LIMIT = 64  # helpers at most
_local = Local()  # .sharing: whether this thread is one of several that share work


# -- how many ------------------------------------------------------------------------------------


def _default() -> int:
    """MINIGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the processors this process may use."""
    for name in ("MINIGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()
        if given.isdecimal() and len(given) < 10 and int(given) > 0:
            return int(given)
        if given and name.startswith("MINIGRAD") and sys.stderr is not None:
            with suppress(OSError, ValueError):  # a line and no error, as for other variables
                said = f"{name} is an integer ≥ 1, got {given[:40]!r}; it is ignored"
                print(f"minigrad: {said}", file=sys.stderr)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_count = _default()


def get_num_threads() -> int:
    """The number of threads that share one large operation, with the calling one."""
    return _count


def set_num_threads(n: int) -> None:
    """Let n threads share one large operation; 1: only the caller. The results stay the same.

    BLAS has separate threads (OMP_NUM_THREADS, threadpoolctl). ValueError unless n ≥ 1.
    """
    global _count
    if not is_count(n):
        raise ValueError(f"set_num_threads: n must be an integer ≥ 1, got {n!r}")
    _count = int(n)


def is_count(n: Any) -> bool:
    """Whether n can be a number of threads: an integer of Python or NumPy, 1 or more."""
    return isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1


# -- the helpers ---------------------------------------------------------------------------------


class _Job:
    """One call of `together`: its running helpers, and the first error."""

    def __init__(self, loop: Callable[[], Any]):
        self.loop: Any = loop
        self.lock = Lock()  # for the next two
        self.running = 0
        self.closed = False
        self.left: SimpleQueue = SimpleQueue()  # an entry from each helper that is done
        self.error: BaseException | None = None
        self.device = device_here()

    def help(self, context: Context) -> None:
        """Run the loop on a helper, unless the caller has finished without it."""
        with self.lock:
            if self.closed:
                return
            self.running += 1
        try:
            with self.device():
                context.run(self.loop)
        except BaseException as error:
            self.error = self.error or error
        with self.lock:
            self.running -= 1
        self.left.put(None)

    def close(self) -> None:
        """Wait for the helpers that have begun; no further one may begin.

        Ctrl-C waits until they are done; a second Ctrl-C lets them end by themselves.
        """
        try:
            self._wait()
        except KeyboardInterrupt:
            self._wait()
            raise
        finally:
            self.loop = None  # a late helper finds the job empty: it keeps no array alive

    def _wait(self) -> None:
        with self.lock:
            self.closed = True
        while self.running > 0:  # each counted helper still puts its entry
            self.left.get()


class _Helpers:
    """Daemon threads that wait for jobs; as many as the largest job so far asked for, up to
    LIMIT."""

    def __init__(self) -> None:
        self.stopped = False
        self.jobs: SimpleQueue = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.growing = Lock()
        self.open: set[_Job] = set()  # jobs that are not closed
        self.affinity = ThreadAffinity()

    def grow(self, count: int) -> int:
        """The number of helpers for a job that asks for `count`."""
        with self.growing:
            self._start(min(count, LIMIT))
        return min(count, len(self.threads))

    def _start(self, count: int) -> None:
        """Start threads until there are `count`. Under the lock."""
        while len(self.threads) < count and not self.stopped:
            name = f"minigrad-{len(self.threads) + 1}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system allows no more threads: continue with these
                break
            self.threads.append(thread)

    def call(self, count: int, job: _Job) -> None:
        for _ in range(count):
            self.jobs.put((job, copy_context()))  # two threads cannot enter one context

    def _serve(self) -> None:
        _local.sharing = True
        jobs = self.jobs
        while (item := jobs.get()) is not None:
            job, context = item
            job.help(context)
            if self is not _helpers:  # forked here: the caller exists only in the parent
                os._exit(1)
            # An idle helper keeps nothing alive. (Without the GIL, an object that it made and
            # another thread held last is freed only when the helper wakes again.)
            item = job = context = None

    def stop(self) -> None:
        """End the helpers; do not wait for those that still work after half a second."""
        self.stopped = True
        for _ in self.threads:
            self.jobs.put(None)
        deadline = monotonic() + 0.5
        for thread in self.threads:
            thread.join(max(0.0, deadline - monotonic()))


_helpers = _Helpers()


def _forget() -> None:
    """In a forked child, where the parent's helpers do not exist: no job may wait for them."""
    global _helpers
    for job in _helpers.open:
        job.lock, job.running = Lock(), 0
    _helpers = _Helpers()
    _local.sharing = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _helpers.stop())


def sharing() -> bool:
    """Whether this thread is already one of several that share work."""
    return getattr(_local, "sharing", False)


def together(loop: Callable[[], Any], count: int, apart: bool = False) -> None:
    """Run loop() on this thread and, at the same time, on up to count − 1 helpers.

    The loop must end on every thread when there is no work left, and may run on this one alone. An
    error on any of them is raised here, after all have ended. Helpers see the caller's context
    variables (NumPy's errstate) and CuPy's current device and stream, not other thread-local state.
    With apart, and after keep_apart(True), the caller stays on its processor during the call, and
    the helpers run on others. That is only for loops that start no thread or process, which would
    inherit the restriction.
    """
    if count < 2 or sharing():
        loop()
        return
    job, helpers = _Job(loop), _helpers
    allowed: set[int] = set()  # the processors that this thread had

    def end() -> None:
        _local.sharing = False
        helpers.affinity.free(allowed)
        helpers.open.discard(job)

    with ended_by(end):
        helpers.open.add(job)
        _local.sharing = True
        try:
            size = helpers.grow(count - 1)
            # any idle helper may take the job
            here = helpers.affinity.part(helpers.threads) if apart else None
            if here is None:
                helpers.affinity.gather(helpers.threads)
            helpers.call(size, job)  # they wake up during the next lines
            helpers.affinity.stay(here, allowed)
            loop()
        finally:
            job.close()
    if job.error is not None:
        try:
            raise job.error
        finally:
            job.error = None  # breaks the cycle of error, frame and job


def keep_apart(on: bool) -> None:
    """Set whether threads that share work keep to different processors; off frees helpers again."""
    processors.keep_apart(on)
    if not on:
        _helpers.affinity.gather(_helpers.threads)


def share(work: Callable[[Any], Any], pieces: Iterable) -> None:
    """work(piece) for every piece, in any order, on get_num_threads() threads at most.

    After an error, no further piece begins.
    """
    waiting = deque(pieces)

    def loop() -> None:
        try:
            while True:
                try:
                    piece = waiting.popleft()
                except IndexError:
                    return
                work(piece)
        finally:  # pieces are left here only after an error
            waiting.clear()

    together(loop, min(_count, len(waiting)), apart=True)
