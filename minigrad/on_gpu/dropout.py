"""Dropout as one kernel each way: each thread draws for the elements that it reads.

The kernel draws the same numbers as the generator's `random`: draw e is word e % 4 of the counter
first + ⌊e / 4⌋. It uses up as many counters, too. So masks, saved states and checkpoints that
replay a forward do not depend on whether this kernel ran.
"""

from functools import lru_cache
from math import ceil, gcd
from typing import Any

import numpy as np

from ..backends import random
from ..backends.device import array_module, device_of
from ..backends.dtypes import is_floating
from ..backends.philox import PHILOX, DeviceGenerator, key_words
from ..expressions.cuda import BLOCK, HEADERS, PRELUDE, computed, stored
from ..fusion import launch
from ..ops.dropout import scale_of
from .install import on_gpu

_BITS = 24  # of a draw, which is a float32 from [0, 1)


@lru_cache(maxsize=256)
def source(dtype: Any, index: str, run: int = 1, shared: tuple[bool, ...] = ()) -> str:
    """y = x·scale where its draw is `least` or more, else 0; mask: whether it is.

    shared  for each group of axes, whether its elements share a draw; (): each has its own
    run     the number of neighbours that are known to share one
    """
    t, c = stored(dtype), computed(dtype)
    size = np.dtype(dtype).itemsize
    width = width_of(dtype)
    sizes = "".join(f", const Index n{k}" for k in range(1, len(shared)))
    draw = _draw_shared(shared) if shared else _DRAW_EACH
    return f"""{HEADERS}{PRELUDE}{PHILOX}
constexpr int W = {width}, LOAD = {16 // size}, RUN = {run};
typedef {index} Index;
extern "C" __global__ void fused(const {t}* __restrict__ x, {t}* __restrict__ y,
                                 bool* __restrict__ mask, const long long n_, unsigned int k0,
                                 unsigned int k1, unsigned long long first, unsigned int least,
                                 double scale_{sizes}) {{
    const Index n = (Index)n_;
    const Index i = (blockIdx.x * (Index)blockDim.x + threadIdx.x) * W;
    if (i >= n) return;
    const {c} scale = ({c})scale_;
    const int here = n - i < W ? (int)(n - i) : W;
    Lanes<{t}, LOAD> v[W / LOAD];  // asked for first, so that they arrive while the words are drawn
    if (here == W) {{
        #pragma unroll
        for (int k = 0; k < W / LOAD; ++k) v[k] = *(const Lanes<{t}, LOAD>*)(x + i + k * LOAD);
    }} else {{
        #pragma unroll
        for (int k = 0; k < W; ++k) if (k < here) v[k / LOAD].v[k % LOAD] = x[i + k];
    }}
    Lanes<bool, W> kept;
    {draw}
    #pragma unroll
    for (int k = 0; k < W; ++k) {{
        {t}& place = v[k / LOAD].v[k % LOAD];
        place = kept.v[k] ? ({t})(({c})place * scale) : ({t})0.0f;
    }}
    if (here == W) {{
        #pragma unroll
        for (int k = 0; k < W / LOAD; ++k) *(Lanes<{t}, LOAD>*)(y + i + k * LOAD) = v[k];
    }} else {{
        #pragma unroll
        for (int k = 0; k < W; ++k) if (k < here) y[i + k] = v[k / LOAD].v[k % LOAD];
    }}
}}
"""


_DRAW_EACH = """
    #pragma unroll
    for (int k = 0; k < W; k += 4) {
        const uint4 w = philox(first + (i + k) / 4, k0, k1);
        kept.v[k] = w.x >> 8 >= least; kept.v[k + 1] = w.y >> 8 >= least;
        kept.v[k + 2] = w.z >> 8 >= least; kept.v[k + 3] = w.w >> 8 >= least;
    }
    if (here == W) *(Lanes<bool, W>*)(mask + i) = kept;
    else {
        #pragma unroll
        for (int k = 0; k < W; ++k) if (k < here) mask[i + k] = kept.v[k];
    }"""


def _draw_shared(shared: tuple[bool, ...]) -> str:
    """A draw for every RUN elements; the first element that shares it writes the mask."""
    place = []
    for k in reversed(range(1, len(shared))):
        take = "lead = lead && c == 0;" if shared[k] else f"e += c * apart; apart *= n{k};"
        place.append(f"{{ const Index c = rest % n{k}; rest /= n{k}; {take} }}")
    place.append("lead = lead && rest == 0;" if shared[0] else "e += rest * apart;")
    words = " ".join(place)
    return f"""uint4 w; Index held = 0; bool any = false;
    #pragma unroll
    for (int k = 0; k < W; k += RUN) {{
        Index rest = i + k, e = 0, apart = 1; bool lead = true;
        {words}
        if (!any || e / 4 != held) w = philox(first + e / 4, k0, k1);
        held = e / 4; any = true;
        const unsigned int word = e & 2 ? (e & 1 ? w.w : w.z) : (e & 1 ? w.y : w.x);
        const bool is_kept = word >> 8 >= least;
        if (lead && k < here) mask[e] = is_kept;
        #pragma unroll
        for (int j = 0; j < RUN; ++j) kept.v[k + j] = is_kept;
    }}"""


def width_of(dtype: Any) -> int:
    """Elements of a thread: 16 bytes, but at least as many as a counter has words."""
    return max(4, 16 // np.dtype(dtype).itemsize)


def groups(shape: tuple, shared: tuple) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """(sizes, whether they share a draw) of the axes, with neighbours of one kind merged.

    Both are empty where no element shares the draw of another.
    """
    sizes: list[int] = []
    flags: list[bool] = []
    for k, n in enumerate(shape):
        if n == 1:
            continue
        if flags and flags[-1] == (k in shared):
            sizes[-1] *= n
        else:
            sizes.append(n)
            flags.append(k in shared)
    return (tuple(sizes), tuple(flags)) if any(flags) else ((), ())


def as_reals(x: Any) -> Any:
    """A complex array as a real one with its parts along a new last axis; a real one unchanged."""
    if x.dtype.kind != "c":
        return x
    x = x if x.flags.c_contiguous else x.copy(order="C")
    return x.reshape(*x.shape, 1).view(x.real.dtype)


def least_kept(p: float) -> int:
    """The least of a draw's 24 bits that keep an element: bits / 2²⁴ ≥ p, with p in float32."""
    return ceil(float(np.float32(p)) * 2**_BITS)


@on_gpu("drop")
def drop(x: Any, *, p: float, shared: tuple = (), generator: Any = None) -> Any:
    xp: Any = array_module(x)
    if not hasattr(xp, "RawKernel") or not (is_floating(x.dtype) or x.dtype.kind == "c"):
        return None
    source_of_numbers = generator or random.generator_on(device_of(x))
    if not isinstance(source_of_numbers, DeviceGenerator):
        return None  # this generator draws on the host
    shared = tuple([k % x.ndim for k in shared])
    mask = xp.empty([1 if k in shared else n for k, n in enumerate(x.shape)], bool)
    counter = source_of_numbers.reserve(mask.size)
    reals = as_reals(x)
    if reals is not x:
        shared = (*shared, x.ndim)  # both parts of a complex number share its draw
    reals = launch.dense(reals)
    y = xp.empty(x.shape, x.dtype)
    if x.size:
        sizes, flags = groups(reals.shape, shared)
        width = width_of(reals.dtype)
        run = gcd(sizes[-1], width) if flags and flags[-1] else 1
        index = "unsigned int" if reals.size < 1 << 31 else "long long"
        kernel = launch.compiled(xp, source(reals.dtype, index, run, flags))
        counts = [(np.uint32 if index == "unsigned int" else np.int64)(n) for n in sizes[1:]]
        given = (*key_words(source_of_numbers.seed), np.uint64(counter), np.uint32(least_kept(p)))
        blocks = -(-reals.size // (BLOCK * width))
        kernel((blocks,), (BLOCK,), (reals, y, mask, reals.size, *given, scale_of(p), *counts))
    return y, mask


@on_gpu("drop_dx")
def drop_dx(a: Any, mask: Any, *, p: float) -> Any:
    if a.dtype.kind != "c" or not a.size:
        return _kept(a, mask, p)
    reals = _kept(as_reals(a), mask.reshape(*mask.shape, 1), p)
    return None if reals is None else launch.shaped(reals.view(a.dtype), a.shape)


def _kept(a: Any, mask: Any, p: float) -> Any:
    """a·scale where the mask is True, else 0, by one kernel; None where one kernel cannot."""
    scale = scale_of(p)

    def words(a: Any, mask: Any) -> list:
        return [(np.where(mask, a, 0) * scale).astype(a.dtype, copy=False)]

    found = launch.run(("drop_dx", scale), words, [a, mask])
    return None if found is None else found[0]
