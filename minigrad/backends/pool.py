"""Helper threads for large array work: NumPy and BLAS release the GIL while they compute.

    share(work, pieces)     work(piece) for every piece, on this thread and on idle helpers
    together(loop, count)   loop() on this thread and on up to count − 1 helpers at once
    keep_apart(on)          whether `share` keeps each thread on a processor of its own

The caller always takes part and never waits for a helper that has not begun, so a busy or slow
helper delays nothing. What is called from inside shared work runs where it is: threads do not
multiply. As long as pieces write to separate memory it makes no difference which thread does which
piece, so results do not depend on the number of threads.

Helpers are started at first use, are gone in a forked child (which starts its own), and end with
the interpreter.
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

LIMIT = 64  # helpers, however many are asked for
_local = Local()  # .sharing: this thread is one of several that share work


# -- how many ------------------------------------------------------------------------------------


def _default() -> int:
    """MINIGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the processors this process may use."""
    for name in ("MINIGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").split(",")[0].strip()
        if given.isdecimal() and len(given) < 10 and int(given) > 0:
            return int(given)
        if given and name.startswith("MINIGRAD") and sys.stderr is not None:
            with suppress(OSError, ValueError):  # as of other variables: a line, and no error
                said = f"{name} is an integer ≥ 1, got {given[:40]!r}; it is ignored"
                print(f"minigrad: {said}", file=sys.stderr)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_count = _default()


def get_num_threads() -> int:
    """How many threads share one large operation, the calling one included."""
    return _count


def set_num_threads(n: int) -> None:
    """Let n threads share one large operation; 1: none but the caller. The results stay the same.

    BLAS has threads of its own (OMP_NUM_THREADS, threadpoolctl). ValueError unless n ≥ 1.
    """
    global _count
    if not is_count(n):
        raise ValueError(f"set_num_threads: n must be an integer ≥ 1, got {n!r}")
    _count = int(n)


def is_count(n: Any) -> bool:
    """Whether n can be a number of threads: Python's or NumPy's integers from 1 on."""
    return isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1


# -- the helpers ---------------------------------------------------------------------------------


class _Job:
    """One call of `together`: who is at work on it, and what went wrong."""

    def __init__(self, loop: Callable[[], Any]):
        self.loop: Any = loop
        self.lock = Lock()  # for the next two
        self.running = 0
        self.closed = False
        self.left: SimpleQueue = SimpleQueue()  # an entry from each helper that is done
        self.error: BaseException | None = None
        self.device = device_here()

    def help(self, context: Context) -> None:
        """A helper's part, unless the caller has finished without it."""
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
        """Wait for those who have begun; nobody begins any more.

        Ctrl-C waits until they are done; a second Ctrl-C leaves them to end by themselves.
        """
        try:
            self._wait()
        except KeyboardInterrupt:
            self._wait()
            raise
        finally:
            self.loop = None  # a helper may find this job late: it keeps no array alive until then

    def _wait(self) -> None:
        with self.lock:
            self.closed = True
        while self.running > 0:  # one that is counted here has its entry still to come
            self.left.get()


class _Helpers:
    """Daemon threads that wait for jobs; as many as any job has asked for so far, up to LIMIT."""

    def __init__(self) -> None:
        self.stopped = False
        self.jobs: SimpleQueue = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.growing = Lock()
        self.open: set[_Job] = set()  # jobs that are not closed
        self.affinity = ThreadAffinity()

    def grow(self, count: int) -> int:
        """How many helpers a job that asks for `count` can have."""
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
            except RuntimeError:  # the system gives no more threads: go on with these
                break
            self.threads.append(thread)

    def call(self, count: int, job: _Job) -> None:
        for _ in range(count):
            self.jobs.put((job, copy_context()))  # each its own: two threads cannot be in one

    def _serve(self) -> None:
        _local.sharing = True
        jobs = self.jobs
        while (item := jobs.get()) is not None:
            job, context = item
            job.help(context)
            if (
                self is not _helpers
            ):  # forked in here: this child's caller exists only in the parent
                os._exit(1)
            # An idle helper keeps nothing alive. (Without the GIL what it made, and another thread
            # was the last to hold, goes only when it wakes again.)
            item = job = context = None

    def stop(self) -> None:
        """End the helpers; those that are still at work after half a second are left behind."""
        self.stopped = True
        for _ in self.threads:
            self.jobs.put(None)
        deadline = monotonic() + 0.5
        for thread in self.threads:
            thread.join(max(0.0, deadline - monotonic()))


_helpers = _Helpers()


def _forget() -> None:
    """In a forked child: the parent's helpers do not exist here, and no job waits for them."""
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
    With apart, and after keep_apart(True), the caller keeps its processor meanwhile and the helpers
    run on others: for loops that start no thread or process, which would inherit that.
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
            # any idle one may take the job
            here = helpers.affinity.part(helpers.threads) if apart else None
            if here is None:
                helpers.affinity.gather(helpers.threads)
            helpers.call(size, job)  # who wakes up while this thread does the rest
            helpers.affinity.stay(here, allowed)
            loop()
        finally:
            job.close()
    if job.error is not None:
        try:
            raise job.error
        finally:
            job.error = None  # an error leads to this frame, and this frame to the job


def keep_apart(on: bool) -> None:
    """Whether threads that share work keep to different processors; off: helpers are free again."""
    processors.keep_apart(on)
    if not on:
        _helpers.affinity.gather(_helpers.threads)


def share(work: Callable[[Any], Any], pieces: Iterable) -> None:
    """work(piece) for every piece, in any order, on get_num_threads() threads at most.

    After an error no further piece is begun.
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
        finally:  # reached with pieces left only by an error
            waiting.clear()

    together(loop, min(_count, len(waiting)), apart=True)
