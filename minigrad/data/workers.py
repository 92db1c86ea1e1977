"""Workers of a DataLoader: threads or processes that fetch batches ahead of their use.

Batch i belongs to worker i mod n, and each worker does its batches in order. So neither the
division of work nor the order of results depends on the workers' speed. Random numbers belong to
rows (randomness.py), so random augmentation does not depend on the workers either.
"""

import copy
import os
import pickle
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..backends.leaving import contextmanager, ended_by
from . import randomness

_here = threading.local()  # .worker: the worker of this thread or process


@dataclass
class WorkerInfo:
    """Which worker of a DataLoader is running.

    `seed` is the same in all workers of a pass, and another one in each pass.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any

    @property
    def generator(self) -> np.random.Generator:
        """For random augmentation: the row's own, seeded from `seed` and the row alone."""
        return randomness.of_worker()


def get_worker_info() -> WorkerInfo | None:
    """The worker that this code runs in; None outside of a loader's workers."""
    worker = getattr(_here, "worker", None)
    return worker.info if worker is not None else None


class _Worker:
    """The state of one worker: the data set, how to fetch a batch, and its place."""

    def __init__(self, info: WorkerInfo, fetch: Any, process: bool, init_fn: Any):
        self.info = info
        self.fetch = fetch
        fetch.worker = info.id
        self.process = process
        self.init_fn = init_fn

    def run(self, batch: int, task: Any) -> Any:
        if self.init_fn is not None:  # here, with the first batch: its errors are then raised
            init_fn, self.init_fn = self.init_fn, None
            with randomness.numbers_of(self.info.seed, randomness.START, self.info.id):
                init_fn(self.info.id)
        return fetched(self.fetch, self.info.dataset, task, batch)


def fetched(fetch: Callable, dataset: Any, task: Any, batch: int) -> Any:
    """What fetch gives; RuntimeError for a StopIteration, which would end the loop over batches."""
    try:
        return fetch(dataset, task, batch)
    except StopIteration as error:
        raise RuntimeError(
            f"DataLoader: the {type(dataset).__name__} or what collates its rows raised "
            f"StopIteration as batch {batch} was made; catch it there"
        ) from error


def _start(info: WorkerInfo, fetch: Callable, process: bool, init_fn: Callable | None) -> None:
    if process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
        end_with_parent()
        randomness.begin_process()
    _here.worker = _Worker(info, copy.copy(fetch), process, init_fn)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever."""
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Ctrl-C waits until the end: Python drops an exception in the callbacks of a fork; it makes
    the start of a thread fail with another error.
    """
    before, came = signal.getsignal(signal.SIGINT), []
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with ended_by(lambda: signal.signal(signal.SIGINT, before)):
            signal.signal(signal.SIGINT, lambda number, _: came.append(number))
            yield
    finally:
        if came:
            signal.raise_signal(signal.SIGINT)


def _run(batch: int, task: Any) -> Any:
    worker = _here.worker
    try:
        return worker.run(batch, task)
    except StopIteration as error:
        raise RuntimeError("DataLoader: worker_init_fn raised StopIteration; catch it") from error
    except SystemExit as error:  # it would end the program, with no word of where
        raise RuntimeError(
            f"DataLoader: a worker called sys.exit({error.code!r}) as it made batch {batch}; raise "
            "an error there instead"
        ) from error
    except Exception as error:
        if worker.process and not _travels(error):
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


def _travels(error: Exception) -> bool:
    """Whether it can be sent to another process.

    One whose __init__ takes other arguments cannot: the parent would fail to unpickle it, and think
    that the worker had died.
    """
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        return False


_ending: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()  # managers of lanes shut down


@cache
def _wait_at_exit() -> None:
    """From now on the interpreter waits, as it exits, for processes that end in the background.

    It would wait anyway, but Python before 3.13 first writes to the pipe that the manager of such
    a process closes at that moment: "OSError: Bad file descriptor" at the end of a good program.
    """
    register = getattr(threading, "_register_atexit", None)  # the last one registered runs first
    if register is not None:
        register(lambda: [manager.join() for manager in list(_ending)])


class Crew:
    """The workers of one pass. `results(tasks)` yields what fetch gives for each, in order."""

    def __init__(
        self, dataset: Any, fetch: Callable, count: int, *, processes: bool, context: Any,
        prefetch: int, timeout: float, init_fn: Callable | None, seed: int,
    ):  # fmt: skip
        self.count = count
        self.ahead = count * prefetch
        self.timeout = timeout or None
        self.processes = processes
        self.context = context
        self.infos = [WorkerInfo(i, count, seed, dataset) for i in range(count)]
        self.fetch, self.init_fn = fetch, init_fn
        self.lanes: list[Executor] = []  # one worker each, started with its first batch

    def _lane(self, i: int) -> Executor:
        """Worker i, which starts when it is given its first batch."""
        options: dict[str, Any] = {
            "max_workers": 1, "initializer": _start,
            "initargs": (self.infos[i], self.fetch, self.processes, self.init_fn),
        }  # fmt: skip
        if not self.processes:
            return ThreadPoolExecutor(thread_name_prefix=f"loader-{i}", **options)
        import multiprocessing  # here, since few need it and its import is long
        from concurrent.futures import ProcessPoolExecutor

        _wait_at_exit()
        return ProcessPoolExecutor(mp_context=multiprocessing.get_context(self.context), **options)

    def results(self, tasks: Iterable) -> Iterator[Any]:
        """Each task's result; an error of a worker is raised here, with its traceback."""
        try:
            yield from self._in_turn(tasks)
        finally:  # also where the loop over the batches was left, by break, an error or Ctrl-C
            for lane in self.lanes:
                manager = getattr(lane, "_executor_manager_thread", None)
                if manager is not None:
                    _ending.add(manager)
                lane.shutdown(wait=False, cancel_futures=True)

    def _in_turn(self, tasks: Iterable) -> Iterator[Any]:
        waiting: deque = deque()
        for i, task in enumerate(tasks):
            if len(waiting) == self.ahead:
                yield self._result(*waiting.popleft())
            with ctrl_c_held_back() if i < self.count else nullcontext():
                waiting.append((i, self._submitted(i, task)))
        while waiting:
            yield self._result(*waiting.popleft())

    def _submitted(self, i: int, task: Any) -> Future:
        """The future batch i; a failed one where its worker has died, told when its turn comes."""
        if i < self.count:  # not earlier: a forked process has all pipes that are there by then
            self.lanes.append(self._lane(i))
        try:
            future = self.lanes[i % self.count].submit(_run, i, task)
            if self.processes:
                hear_of_deaths(self.lanes[i % self.count])
            return future
        except BrokenExecutor as error:
            failed: Future = Future()
            failed.set_exception(error)
            return failed

    def _result(self, i: int, future: Any) -> Any:
        who = f"DataLoader: worker {i % self.count}"
        try:
            return future.result(self.timeout)
        except BrokenExecutor as error:
            raise RuntimeError(
                f"{who} has died while it made batch {i} (killed, for its memory "
                "perhaps); num_workers=0 runs the data set here, where errors show"
            ) from error
        except FutureTimeout:
            if future.done():  # the data set's own TimeoutError
                raise
            self._stop()
            raise RuntimeError(f"{who} has not made batch {i} in {self.timeout} s") from None
        except Exception as error:
            error.add_note(f"(in {who[12:]} of the DataLoader, batch {i})")
            raise

    def _stop(self) -> None:
        """End processes that do not answer; a thread cannot be ended from outside."""
        for lane in self.lanes:
            for process in list((getattr(lane, "_processes", None) or {}).values()):
                process.terminate()


def hear_of_deaths(pool: Any) -> None:
    """Close this process's sending end of the pipe for results, with all processes of it started.

    Where one of them is killed in the middle of a result, its reader then finds the pipe ended.
    While this process could write to it too, the reader would wait for the rest for ever.
    """
    queue = getattr(pool, "_result_queue", None)
    writer = getattr(queue, "_writer", None)
    if writer is not None:
        writer.close()


def default_context() -> str | None:
    """ "fork" where there is one: data sets defined in a notebook or under __main__ work then."""
    return "fork" if os.name == "posix" and os.uname().sysname == "Linux" else None


def end_with_parent() -> None:
    """From now on this process ends when its parent has ended, killed or not."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
