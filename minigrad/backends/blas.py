"""The number of BLAS threads, and a limit on them while minigrad's threads compute.

Two threads that each call a BLAS with two threads slow each other down. The last bits of a matrix
product may depend on the number of threads. The limit needs threadpoolctl (the extra `full`). It
holds for all threads of the process and is counted: the first block to enter sets it, the last one
to leave restores the number before.
"""

import importlib
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from .leaving import contextmanager, ended_by
from .locks import Lock

FEW = 1 << 18  # multiplications up to which OpenBLAS takes one thread by itself
# After a product on two threads, OpenBLAS's second thread goes on spinning for a long time, which
# takes a core from the threads that share a convolution. Below MIDDLE multiplications the second
# thread gains less than that costs. Below FEW there is one thread in any case.
MIDDLE = 3 << 20

_lock = Lock()
_controllers: list | None = None  # of the BLAS libraries found; None: not searched yet
_limits: list[tuple[Any, int]] = []  # (library, threads before), while a limit holds
_holders: set[object] = set()  # the `one_thread` blocks now entered


def _libraries() -> list:
    global _controllers
    if _controllers is None:
        try:
            threadpoolctl = importlib.import_module("threadpoolctl")
        except ImportError:
            _controllers = []
        else:
            found = threadpoolctl.ThreadpoolController().select(user_api="blas")
            _controllers = list(found.lib_controllers)
    return _controllers


@cache
def packs_no_small_factors() -> bool:
    """Whether BLAS multiplies small matrices without packing them.

    OpenBLAS does on AVX-512 processors, up to a million multiplications. False where threadpoolctl
    does not find a BLAS.
    """
    kernels = {getattr(library, "architecture", "") for library in _libraries()}
    return bool(kernels) and kernels <= {"SkylakeX", "Cooperlake", "SapphireRapids"}


def threads() -> int | None:
    """The threads a BLAS call may use now; None where threadpoolctl or a BLAS is not found."""
    return max((library.get_num_threads() for library in _libraries()), default=None)


def limit(count: int) -> None:
    """Let BLAS use at most this many threads from here on, where threadpoolctl finds it."""
    for library in _libraries():
        library.set_num_threads(min(count, library.get_num_threads()))


def on_one_thread() -> bool:
    """Whether a product of any size would run on one thread of BLAS now."""
    return bool(_holders) or threads() == 1


@contextmanager
def one_thread() -> Iterator[int | None]:
    """Inside, BLAS uses one thread, in every thread of the process; yields 1, or None without a
    limit."""
    mine = object()

    def leave() -> None:
        with _lock:
            _holders.discard(mine)
            if not _holders:
                _restore()

    with ended_by(leave):
        with _lock:
            _holders.add(mine)
            if len(_holders) == 1:
                _limit_to_one()
        yield 1 if _limits else None


def _limit_to_one() -> None:
    _limits[:] = [(library, library.get_num_threads()) for library in _libraries()]
    for library, before in _limits:
        if before != 1:
            library.set_num_threads(1)


def _restore() -> None:
    for library, before in _limits:
        if before != 1 and library.get_num_threads() == 1:  # else the program has set it since
            library.set_num_threads(before)
    _limits.clear()


def _in_child() -> None:
    """After a fork: no thread of the child holds a limit that the parent's threads have set."""
    _holders.clear()
    _restore()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )
