"""This machine's peaks: operations a second, bytes a second from its caches and from memory.

A command measures them in a second or two when it needs them. Each figure comes from the fastest of
many short calls: even on a busy machine, some calls run undisturbed.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.backends import blas, pool

_SECONDS = 0.04  # for each measurement
_CALLS = 10  # at least, of a copy that takes some ms
_PRODUCTS = (256, 768)  # rows of the matrices: half a millisecond on one thread of BLAS, and more
_TRAFFIC = [1 << power for power in range(15, 28)]  # bytes read and written, the last from memory
_SHARED = 1 << 23  # bytes moved: from so many on, ops may share their work among threads


@dataclass(slots=True, frozen=True)
class Peaks:
    """Operations a second by dtype, and bytes a second.

    bandwidth  from memory
    caches     (bytes that a call reads and writes, bytes a second), the fewest bytes first. Arrays
               that fit a cache come from there; one thread reads small ones. () if not measured
    """

    float32: float
    float64: float
    bandwidth: float
    caches: tuple[tuple[int, float], ...] = ()

    def flops(self, dtype: str) -> float:
        """The peak for a dtype; narrower dtypes count as float32."""
        return self.float64 if dtype in ("float64", "complex128") else self.float32

    def traffic(self, moved: int) -> float:
        """Bytes a second at best for a call that moves so many bytes."""
        fitting = [speed for most, speed in self.caches if moved < 2 * most]
        return fitting[0] if fitting else self.bandwidth

    @property
    def cached(self) -> float:
        """Bytes a second from the fastest cache."""
        return max([self.bandwidth, *(speed for _, speed in self.caches)])


@functools.cache
def measured_peaks() -> Peaks:
    """The peaks of this machine, measured once in a process."""
    count = pool.get_num_threads()
    alone = _falling([_copy(nbytes) for nbytes in _TRAFFIC])
    shared = _falling([_copy(n, count) if n >= _SHARED and count > 1 else 0.0 for n in _TRAFFIC])
    speeds = [
        max(one, several if nbytes >= _SHARED else 0.0)
        for nbytes, one, several in zip(_TRAFFIC, alone, shared, strict=True)
    ]
    caches = tuple(zip(_TRAFFIC[:-1], speeds[:-1], strict=True))
    return Peaks(_product(np.float32), _product(np.float64), speeds[-1], caches)


def _falling(speeds: list[float]) -> list[float]:
    """Each at least those after it: a speed reached with many bytes is possible with fewer."""
    return [max(speeds[i:]) for i in range(len(speeds))]


def _product(dtype: Any) -> float:
    """Operations a second of matrix products, with BLAS as it is and at one thread: one may win on
    a busy machine."""
    best = 0.0
    for n in _PRODUCTS:
        a = np.random.default_rng(0).random((n, n)).astype(dtype)
        out = np.empty_like(a)
        call = functools.partial(np.matmul, a, a, out=out)
        with blas.one_thread():
            best = max(best, 2 * n**3 / _fastest(call))
        best = max(best, 2 * n**3 / _fastest(call))
    return best


def _copy(nbytes: int, count: int = 1) -> float:
    """Bytes a second of copies, half read and half written, by so many of the threads that ops
    share."""
    source = np.ones(nbytes // 16)
    target = np.empty_like(source)
    parts = list(zip(*(np.array_split(a, count) for a in (target, source)), strict=True))
    if count == 1:
        return nbytes / _fastest(lambda: np.copyto(target, source))
    return nbytes / _fastest(lambda: pool.share(lambda pair: np.copyto(*pair), parts))


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of the calls that fit into a fixed time, and of at least `_CALLS`."""
    call()
    best, count, end = math.inf, 0, perf_counter() + _SECONDS
    while True:
        start = perf_counter()
        call()
        now = perf_counter()
        best, count = min(best, now - start), count + 1
        if now > end and count >= _CALLS:
            return best
