"""Counter-based random numbers on a GPU: number n of a seed is a function of n and the seed.

J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): Philox4x32-10. Ten rounds of
multiplying and mixing turn a counter of four 32-bit words into four random ones: the whole state is
the seed and the number of used counters. It can be stored and restored (checkpointing), and a
kernel needs no memory for it.
"""

from math import prod
from typing import Any

import numpy as np

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85  # added to the halves of the key in each round
_LOW = 0xFFFFFFFF

# The random words of one counter, for kernels that draw their own numbers (on_gpu/dropout.py).
PHILOX = """
__device__ __forceinline__ uint4 philox(unsigned long long counter, unsigned int k0,
                                        unsigned int k1) {
    unsigned int a = (unsigned int)counter, b = (unsigned int)(counter >> 32), c = 0, d = 0;
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned int ha = __umulhi(0xD2511F53u, a), la = 0xD2511F53u * a;
        unsigned int hc = __umulhi(0xCD9E8D57u, c), lc = 0xCD9E8D57u * c;
        a = hc ^ b ^ k0; b = lc; c = ha ^ d ^ k1; d = la;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    return make_uint4(a, b, c, d);
}
"""
_SOURCE = f"""{PHILOX}
extern "C" __global__
void words(unsigned int k0, unsigned int k1, unsigned long long first, long long n, uint4* y) {{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = philox(first + i, k0, k1);
}}
"""
_kernels: dict[int, Any] = {}  # by device: a compiled kernel belongs to one


def words(xp: Any, seed: int, first: int, n: int) -> Any:
    """Random 32-bit words (n, 4) of the counters first, first + 1 … first + n − 1."""
    if not hasattr(xp, "RawKernel"):
        return _words_by_arrays(xp, seed, first, n)
    device = xp.cuda.runtime.getDevice()
    if device not in _kernels:
        _kernels[device] = xp.RawKernel(_SOURCE, "words")
    y = xp.empty((n, 4), xp.uint32)
    if n:
        given = (*key_words(seed), np.uint64(first), np.int64(n), y)
        _kernels[device](((n + 255) // 256,), (256,), given)
    return y


def key_words(seed: int) -> tuple[Any, Any]:
    """A seed's two halves, as arguments of kernels."""
    return np.uint32(seed & _LOW), np.uint32(seed >> 32 & _LOW)


def _words_by_arrays(xp: Any, seed: int, first: int, n: int) -> Any:
    """The same in NumPy: the readable form, which tests compare with the kernel."""
    counter = xp.arange(n, dtype=np.uint64) + first
    a, b = counter & _LOW, counter >> 32
    c = d = xp.zeros(n, dtype=np.uint64)
    k0, k1 = seed & _LOW, seed >> 32 & _LOW
    for _ in range(10):
        first_product, second_product = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = (second_product >> 32) ^ b ^ k0, second_product & _LOW
        c, d = (first_product >> 32) ^ d ^ k1, first_product & _LOW
        k0, k1 = k0 + _STEPS[0] & _LOW, k1 + _STEPS[1] & _LOW
    return xp.stack([a, b, c, d], axis=1).astype(np.uint32)


class DeviceGenerator:
    """numpy.random.Generator's `random`, `standard_normal` and `integers` on a GPU."""

    def __init__(self, xp: Any, seed: int):
        self.xp, self.seed, self.used = xp, seed, 0

    def state(self) -> tuple[int, int]:
        """(seed, used counters): the state for `set_state`."""
        return self.seed, self.used

    def set_state(self, state: tuple[int, int]) -> None:
        """Continue from a state."""
        self.seed, self.used = state

    def reserve(self, count: int) -> int:
        """The first of the counters for `count` words, which count as used from now on."""
        first = self.used
        self.used += -(-count // 4)
        return first

    def _words(self, count: int) -> Any:
        first = self.reserve(count)
        return words(self.xp, self.seed, first, self.used - first).reshape(-1)[:count]

    def random(self, size: Any = (), dtype: Any = np.float64) -> Any:
        """Uniform on [0, 1): 24 random bits as float32, 53 as float64."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        count = prod(shape)
        if np.dtype(dtype) == np.float32:
            return ((self._words(count) >> 8).astype(np.float32) * 2.0**-24).reshape(shape)
        high, low = self._words(2 * count).reshape(2, count).astype(np.uint64)
        return (((high >> 5) * 2**26 + (low >> 6)).astype(np.float64) * 2.0**-53).reshape(shape)

    def standard_normal(self, size: Any = (), dtype: Any = np.float64) -> Any:
        """Standard normal, by G. Box and M. Muller (1958): √(−2 ln u) cos 2πv."""
        u, v = self.random(size, dtype), self.random(size, dtype)
        return np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)

    def integers(
        self, low: int, high: int | None = None, size: Any = (), dtype: Any = np.int64
    ) -> Any:
        """Integers from [low, high), or from [0, low) without high; int64 or uint64.

        For ranges beyond the 53 bits of a float: floor(r · range / 2⁶⁴) for 64 random bits r.
        """
        low, high = (0, low) if high is None else (low, high)
        span = high - low
        if span <= 2**53:
            offsets = (self.random(size) * span).astype(np.uint64)
        else:
            shape = (size,) if isinstance(size, int) else tuple(size)
            high, low_bits = self._words(2 * prod(shape)).reshape(2, *shape).astype(np.uint64)
            offsets = _scaled(high, low_bits, span)
        return (offsets + np.uint64(low % 2**64)).view(dtype)


def _scaled(high: Any, low: Any, span: int) -> Any:
    """floor((2³² high + low) · span / 2⁶⁴) of 32-bit numbers, by schoolbook multiplication."""
    if span == 2**64:
        return (high << 32) + low
    upper, lower = np.uint64(span >> 32), np.uint64(span & _LOW)
    middle = high * lower + (low * lower >> 32)
    carried = (middle & _LOW) + low * upper
    return high * upper + (middle >> 32) + (carried >> 32)
