"""Query, key and value split into heads and joined again on a GPU, by one copying kernel."""

from functools import cache
from typing import Any

from ..backends.device import array_module
from ..expressions.cuda import BLOCK
from ..fusion import launch
from ..ops.attention.heads import parts_of
from .install import on_gpu
from .products import available

_WORDS = {16: "uint4", 8: "uint2", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}


@cache
def _source(size: int, time: int, is_split: bool) -> str:
    """The kernel for words of `size` bytes, d of them for each row of a head; a thread moves one.

    is_split: from x (L, N, 3, heads, d), with time=1 (N, L, …), to q, k, v (N, heads, L, d); else
    from these to x.
    """
    at = "n * length + l" if time else "l * batch + n"
    word, to = _WORDS[size], "heads[place] = x[i];" if is_split else "x[i] = heads[place];"
    kinds = (word, "const " + word) if is_split else ("const " + word, word)
    return f"""
extern "C" __global__ void fused({kinds[0]}* q, {kinds[0]}* k, {kinds[0]}* v, {kinds[1]}* x,
        long long count, long long batch, long long head_count, long long length, long long d) {{
    const long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= count) return;
    const long long l = t / d % length, h = t / (d * length) % head_count;
    const long long place = t % (count / 3), n = place / (d * length * head_count);
    const int part = (int)(t / (count / 3));
    const long long i = ((({at}) * 3 + part) * head_count + h) * d + t % d;
    {kinds[0]}* heads = part == 0 ? q : part == 1 ? k : v;
    {to}
}}
"""


def _move(q: Any, k: Any, v: Any, x: Any, time: int, is_split: bool) -> None:
    """Copy (q, k, v) to x, or x to them; all are contiguous and aligned to a word's bytes."""
    batch, heads, length, d = q.shape
    row = d * q.dtype.itemsize
    size = next(n for n in _WORDS if row % n == 0)
    xp, d = array_module(q), row // size
    kernel = launch.compiled(xp, _source(size, time, is_split))
    count = 3 * batch * heads * length * d
    sizes = launch.whole_numbers(xp, (count, batch, heads, length, d))
    if count:
        kernel((-(-count // BLOCK),), (BLOCK,), (q, k, v, x, *sizes))


@on_gpu("split_heads")
def split_heads(x: Any, *, heads: int, time: int = 0) -> Any:
    """q, k and v, contiguous in one allocation: this copy saves one at each product with them."""
    shape = parts_of(x, heads, time).shape
    if not available(x):
        return None
    parts = array_module(x).ndarray(shape, x.dtype)
    q, k, v = parts[0], parts[1], parts[2]
    _move(q, k, v, launch.dense(x), time, is_split=True)
    return q, k, v


@on_gpu("join_heads")
def join_heads(q: Any, k: Any, v: Any, *, time: int = 0) -> Any:
    if not q.shape == k.shape == v.shape or q.ndim != 4 or not q.dtype == k.dtype == v.dtype:
        return None
    if not available(q):
        return None
    n, heads, length, d = q.shape
    lead = (n, length) if time else (length, n)
    x = array_module(q).ndarray((*lead, 3 * heads * d), q.dtype)
    _move(launch.dense(q), launch.dense(k), launch.dense(v), x, time, is_split=False)
    return x
