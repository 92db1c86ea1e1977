"""The maximum and the mean of windows, and their gradients.

The reductions of fast/pool/ take large tiles, pooling_rows.py takes windows of up to 64 pixels.
The kernels here take the other windows, with a thread for each element. Kernel, stride, padding and
dilation are constants, the image's sizes are arguments. A gradient's thread gathers for one pixel
from the windows that cover it: nothing is added by atomics, and results repeat bit for bit.

max_pool records where each maximum is (the residual `hits`: a bit for each pixel of the window). So
its gradient reads one to four bytes a window instead of the image and the maxima.
"""

from functools import lru_cache
from math import isfinite, prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import is_floating
from ..backends.window_runs import are_large_tiles
from ..expressions.cuda import BLOCK, HEADERS, PRELUDE, computed, stored
from ..fusion import launch
from ..ops.pool.primitives import no_hits
from ..ops.windows import Windows
from . import pooling_rows as rows
from .install import on_gpu


def _coordinates(name: str, axes: int, sizes: str) -> str:
    """C text: the coordinates `name`0 … of element i in images of `sizes`0 …, and its `image`."""
    lines = ["Index rest = i;"]
    for k in reversed(range(axes)):
        lines.append(f"const int {name}{k} = rest % {sizes}{k}; rest /= {sizes}{k};")
    return "\n    ".join([*lines, "const Index image = rest;"])


def _place(name: str, axes: int, sizes: str) -> str:
    """C text: the offset in memory of the coordinates `name`0 … of the same image."""
    place = "image"
    for k in range(axes):
        place = f"({place} * {sizes}{k} + {name}{k})"
    return place


def _over_window(how: Windows, words: str) -> str:
    """A loop over the pixels p0 … of the window at o0 … that are inside the image."""
    loops = []
    for k, (kernel, stride, (before, _), dilation) in enumerate(how.axes()):
        loops.append(
            f"for (int k{k} = 0; k{k} < {kernel}; ++k{k}) {{ "
            f"const int p{k} = o{k} * {stride} + k{k} * {dilation} - {before}; "
            f"if (p{k} < 0 || p{k} >= size{k}) continue;"
        )
    return " ".join(loops) + f" {{ {words} }} " + "}" * len(loops)


def _over_windows(how: Windows, words: str) -> str:
    """A loop over the windows o0 … that cover the pixel at0 …, the last window first."""
    loops = []
    for k, (kernel, stride, (before, _), dilation) in enumerate(how.axes()):
        span = dilation * (kernel - 1) + 1
        loops.append(
            f"for (int m{k} = 0; m{k} < {-(-span // stride)}; ++m{k}) {{ "
            f"const int o{k} = (at{k} + {before}) / {stride} - m{k}; "
            f"const int t{k} = at{k} + {before} - o{k} * {stride}; "
            f"if (o{k} < 0 || o{k} >= out{k} || t{k} >= {span} || t{k} % {dilation}) continue;"
        )
    return " ".join(loops) + f" {{ {words} }} " + "}" * len(loops)


def _sizes(axes: int) -> str:
    names = [f"int size{k}" for k in range(axes)] + [f"int out{k}" for k in range(axes)]
    return ", ".join(names)


@lru_cache(maxsize=128)
def forward_source(how: Windows, dtype: Any, index: str = "long long") -> str:
    """y = the maximum of each window; a NaN wins. index: the C type that counts the elements."""
    axes, t, c = len(how.kernel), stored(dtype), computed(dtype)
    best = _over_window(how, (
        f"const {c} v = ({c})x[{_place('p', axes, 'size')}]; "
        "if (!any || v > best || v != v) { best = v; any = true; }"
    ))  # fmt: skip
    return f"""{HEADERS}{PRELUDE}
typedef {index} Index;
extern "C" __global__ void fused(const {t}* __restrict__ x, {t}* __restrict__ y, long long n,
                                 {_sizes(axes)}) {{
    const Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x;
    if (i >= n) return;
    {_coordinates("o", axes, "out")}
    {c} best = 0; bool any = false;
    {best}
    y[i] = ({t})best;
}}
"""


@lru_cache(maxsize=128)
def gradient_source(how: Windows, dtype: Any, index: str = "long long") -> str:
    """Each pixel's equal share of the windows with it as maximum; a NaN is always a maximum."""
    axes, t, c = len(how.kernel), stored(dtype), computed(dtype)
    ties = _over_window(how, (
        f"const {c} v = ({c})x[{_place('p', axes, 'size')}]; ties += v == top || v != v;"
    ))  # fmt: skip
    share = (
        f"const Index w = {_place('o', axes, 'out')}; const {c} top = ({c})y[w]; "
        f"if (mine == top || mine != mine) {{ int ties = 0; {ties} "
        f"sum += ties == 1 ? ({c})a[w] : ({c})a[w] / ties; }}"
    )
    return f"""{HEADERS}{PRELUDE}
typedef {index} Index;
extern "C" __global__ void fused(const {t}* __restrict__ a, const {t}* __restrict__ x,
                                 const {t}* __restrict__ y, {t}* __restrict__ gx, long long n,
                                 {_sizes(axes)}) {{
    const Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x;
    if (i >= n) return;
    {_coordinates("at", axes, "size")}
    const {c} mine = ({c})x[i];
    {c} sum = 0;
    {_over_windows(how, share)}
    gx[i] = ({t})sum;
}}
"""


@lru_cache(maxsize=128)
def sum_by_elements(how: Windows, dtype: Any, index: str, divisor: Any = 1) -> str:
    """y = the sum of each window / divisor: see pooling_rows.sum_source."""
    axes, t, c = len(how.kernel), stored(dtype), computed(dtype)
    places = _over_window(how, f"sum += ({c})x[{_place('p', axes, 'size')}];")
    sizes = [f"size{k}" for k in range(axes)]
    return f"""{HEADERS}{PRELUDE}
typedef {index} Index;
extern "C" __global__ void fused(const {t}* __restrict__ x, {t}* __restrict__ y, long long n,
                                 {_sizes(axes)}) {{
    const Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x;
    if (i >= n) return;
    {_coordinates("o", axes, "out")}
    {c} sum = 0;
    {places}
    y[i] = ({t})({rows.divided("sum", c, how, sizes, divisor)});
}}
"""


@lru_cache(maxsize=128)
def sum_gradient_by_elements(how: Windows, dtype: Any, index: str, divisor: Any = 1) -> str:
    """Each pixel's sum of a / divisor over the windows that cover it."""
    axes, t, c = len(how.kernel), stored(dtype), computed(dtype)
    value = f"({c})a[{_place('o', axes, 'out')}]"
    sizes = [f"size{k}" for k in range(axes)]
    share = f"sum += {rows.divided(value, c, how, sizes, divisor)};"
    return f"""{HEADERS}{PRELUDE}
typedef {index} Index;
extern "C" __global__ void fused(const {t}* __restrict__ a, {t}* __restrict__ gx, long long n,
                                 {_sizes(axes)}) {{
    const Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x;
    if (i >= n) return;
    {_coordinates("at", axes, "size")}
    {c} sum = 0;
    {_over_windows(how, share)}
    gx[i] = ({t})sum;
}}
"""


# -- in front of the ops -------------------------------------------------------------------------


def _index(*arrays: Any) -> str:
    """The C type of offsets in these arrays: 64-bit divisions are much slower."""
    return "unsigned int" if all(x.size < 1 << 31 for x in arrays) else "long long"


def _launch(source: str, threads: int, *arguments: Any) -> None:
    kernel = launch.compiled(array_module(arguments[0]), source)
    kernel((-(-threads // BLOCK),), (BLOCK,), arguments)


def _by_elements(source: str, arrays: list, y: Any, size: tuple, out: tuple) -> Any:
    """One thread for each element of y; the sizes are arguments."""
    _launch(source, y.size, *arrays, y, y.size, *map(np.int32, (*size, *out)))
    return y


def _by_rows(source: str, height: int, width: int, arrays: list, *ys: Any) -> None:
    """One thread for each `height` rows of `width` neighbours of the results."""
    threads = rows.threads_for(ys[0].shape, height, width)
    _launch(source, threads, *arrays, *ys, threads)


def _ready(*arrays: Any) -> bool:
    return all(
        hasattr(array_module(x), "RawKernel") and is_floating(x.dtype) and x.size for x in arrays
    )


@on_gpu("max_pool")
def max_pool(x: Any, *, how: Windows) -> Any:
    if not _ready(x):
        return None
    axes, xp = len(how.kernel), array_module(x)
    size = x.shape[-axes:]
    if are_large_tiles(how, size):
        return None
    out = how.count("max_pool", size)
    y = xp.ndarray((*x.shape[:-axes], *out), x.dtype)
    given, index = [launch.dense(x)], _index(x, y)
    if not rows.suits(how):
        source = forward_source(how, x.dtype, index)
        return _by_elements(source, given, y, size, out), no_hits(x, how)
    kind = rows.hits_dtype(how)
    hits = no_hits(x, how) if kind is None else xp.ndarray(y.shape, kind)
    source = rows.largest_source(how, size, out, x.dtype, index)
    ys = (y,) if kind is None else (y, hits)
    _by_rows(source, 1, rows.results_width(how, out, x.dtype), given, *ys)
    return y, hits


@on_gpu("max_pool_dx")
def max_pool_dx(a: Any, x: Any, y_max: Any, hits: Any = None, *, how: Windows) -> Any:
    if not _ready(a, x, y_max) or not x.dtype == y_max.dtype == a.dtype:
        return None
    axes = len(how.kernel)
    size, out = x.shape[-axes:], a.shape[-axes:]
    if are_large_tiles(how, size):
        return None
    gx, index = array_module(x).ndarray(x.shape, a.dtype), _index(x, a)
    if hits is None or not hits.size:
        arrays = [launch.dense(v) for v in (a, x, y_max)]
        return _by_elements(gradient_source(how, x.dtype, index), arrays, gx, size, out)
    source = rows.largest_gradient_source(how, size, out, a.dtype, index)
    given = [launch.dense(a), launch.dense(hits)]
    _by_rows(source, *rows.places_shape(how, size, a.dtype), given, gx)
    return gx


@on_gpu("sum_pool")
def sum_pool(x: Any, *, how: Windows, divisor: Any = 1) -> Any:
    if not _ready(x) or not _divides(how, divisor):
        return None
    axes = len(how.kernel)
    size = x.shape[-axes:]
    if _means(how, size, divisor):
        return None
    out = how.count("sum_pool", size)
    y = array_module(x).ndarray((*x.shape[:-axes], *out), x.dtype)
    given, index = [launch.dense(x)], _index(x, y)
    if not rows.suits(how):
        return _by_elements(sum_by_elements(how, x.dtype, index, divisor), given, y, size, out)
    source = rows.sum_source(how, size, out, x.dtype, index, divisor)
    _by_rows(source, 1, rows.results_width(how, out, x.dtype), given, y)
    return y


@on_gpu("sum_pool_dx")
def sum_pool_dx(a: Any, *, size: tuple, how: Windows, divisor: Any = 1) -> Any:
    if not _ready(a) or not prod(size) or not _divides(how, divisor):
        return None
    axes, size = len(how.kernel), tuple(size)
    if _means(how, size, divisor):
        return None
    out = a.shape[-axes:]
    gx = array_module(a).ndarray((*a.shape[:-axes], *size), a.dtype)
    given, index = [launch.dense(a)], _index(a, gx)
    if not rows.suits(how):
        return _by_elements(
            sum_gradient_by_elements(how, a.dtype, index, divisor), given, gx, size, out
        )
    source = rows.sum_gradient_source(how, size, out, a.dtype, index, divisor)
    _by_rows(source, *rows.places_shape(how, size, a.dtype), given, gx)
    return gx


def _means(how: Windows, size: tuple, divisor: Any) -> bool:
    """Whether the op computes means of large tiles."""
    return divisor == prod(how.kernel) and are_large_tiles(how, size)


def _divides(how: Windows, divisor: Any) -> bool:
    """Whether a kernel can have the divisor as a constant."""
    if type(divisor) is tuple:
        return all(dilation == 1 for dilation in how.dilation)
    return isfinite(divisor)
