"""What this machine can do: operations a second by dtype, bytes a second from memory."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

_SECONDS = 0.3  # for each of the three measurements


@dataclass(slots=True, frozen=True)
class Peaks:
    """What this machine can do: operations a second by dtype, bytes a second from memory."""

    float32: float
    float64: float
    bandwidth: float

    def flops(self, dtype: str) -> float:
        """The peak for a dtype; narrower ones are taken as float32."""
        return self.float64 if dtype in ("float64", "complex128") else self.float32


@functools.cache
def measured_peaks() -> Peaks:
    """The peaks of this machine, measured once in a process."""
    return Peaks(_gemm(np.float32), _gemm(np.float64), _copy())


def _gemm(dtype: Any) -> float:
    n = 768
    a = np.random.default_rng(0).random((n, n)).astype(dtype)
    out = np.empty_like(a)
    return 2 * n**3 / _fastest(lambda: np.matmul(a, a, out=out))


def _copy() -> float:
    """Read and written: twice the size of what is copied; too large for any cache."""
    source = np.ones(1 << 23)
    target = np.empty_like(source)
    return 2 * source.nbytes / _fastest(lambda: np.copyto(target, source))


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of the calls that fit into a fixed time."""
    call()
    best, end = math.inf, perf_counter() + _SECONDS
    while True:
        start = perf_counter()
        call()
        now = perf_counter()
        best = min(best, now - start)
        if now > end:
            return best
