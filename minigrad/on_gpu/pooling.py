"""The maximum of windows and its gradient, a thread an element; kernel, stride … are constants.

The gradient goes from the image's side: each place asks the windows that cover it, so nothing is
added by atomics and results repeat bit for bit.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import is_floating
from ..fusion.cuda import BLOCK, HEADERS, PRELUDE, computed, stored
from ..fusion.launch import compiled
from ..ops.windows import Windows
from .install import on_gpu


def _coordinates(name: str, axes: int, sizes: str) -> str:
    """`name`0 … of element i in an image of sizes `sizes`0 …, and `image`, which image it is in."""
    lines = ["Index rest = i;"]
    for k in reversed(range(axes)):
        lines.append(f"const int {name}{k} = rest % {sizes}{k}; rest /= {sizes}{k};")
    return "\n    ".join([*lines, "const Index image = rest;"])


def _place(name: str, axes: int, sizes: str) -> str:
    """Where the coordinates `name`0 … of the same image lie in memory."""
    place = "image"
    for k in range(axes):
        place = f"({place} * {sizes}{k} + {name}{k})"
    return place


def _over_window(how: Windows, words: str, start: str = "o") -> str:
    """A loop over the places p0 … of the window at `start`0 … that lie in the image."""
    loops = []
    for k, (kernel, stride, (before, _), dilation) in enumerate(how.axes()):
        loops.append(
            f"for (int k{k} = 0; k{k} < {kernel}; ++k{k}) {{ "
            f"const int p{k} = {start}{k} * {stride} + k{k} * {dilation} - {before}; "
            f"if (p{k} < 0 || p{k} >= size{k}) continue;"
        )
    return " ".join(loops) + f" {{ {words} }} " + "}" * len(loops)


def _over_windows(how: Windows, words: str) -> str:
    """A loop over the windows o0 … that cover the place at0 …"""
    loops = []
    for k, (kernel, stride, (before, _), dilation) in enumerate(how.axes()):
        loops.append(
            f"for (int t{k} = 0; t{k} < {kernel}; ++t{k}) {{ "
            f"const int shifted{k} = at{k} + {before} - t{k} * {dilation}; "
            f"if (shifted{k} < 0 || shifted{k} % {stride}) continue; "
            f"const int o{k} = shifted{k} / {stride}; if (o{k} >= out{k}) continue;"
        )
    return " ".join(loops) + f" {{ {words} }} " + "}" * len(loops)


def _sizes(axes: int) -> str:
    names = [f"int size{k}" for k in range(axes)] + [f"int out{k}" for k in range(axes)]
    return ", ".join(names)


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


def gradient_source(how: Windows, dtype: Any, index: str = "long long") -> str:
    """Each place's equal shares of the windows whose maximum it is."""
    axes, t, c = len(how.kernel), stored(dtype), computed(dtype)
    ties = _over_window(how, f"ties += ({c})x[{_place('p', axes, 'size')}] == top;")
    share = (
        f"const Index w = {_place('o', axes, 'out')}; const {c} top = ({c})y[w]; "
        f"if (mine == top) {{ int ties = 0; {ties} "
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


def _index(*arrays: Any) -> str:
    """The C type for places in these arrays: 64-bit divisions take several times longer."""
    return "unsigned int" if all(x.size < 1 << 31 for x in arrays) else "long long"


def _launch(source: str, arrays: list, y: Any, sizes: tuple) -> Any:
    kernel = compiled(array_module(y), source)
    if y.size:
        kernel((-(-y.size // BLOCK),), (BLOCK,), (*arrays, y, y.size, *map(np.int32, sizes)))
    return y


def _ready(*arrays: Any) -> bool:
    return all(hasattr(array_module(x), "RawKernel") and is_floating(x.dtype) for x in arrays)


def _contiguous(x: Any) -> Any:
    return x if x.flags.c_contiguous else x.copy(order="C")


@on_gpu("max_pool")
def max_pool(x: Any, *, how: Windows) -> Any:
    if not _ready(x) or not x.size:
        return None
    axes = len(how.kernel)
    size = x.shape[-axes:]
    out = how.count("max_pool", size)
    if any(2 * max(pair) > k for pair, k in zip(how.padding, how.kernel, strict=True)):
        return None  # a window may lie in the padding alone: its maximum is −∞
    y = array_module(x).empty((*x.shape[:-axes], *out), x.dtype)
    return _launch(forward_source(how, x.dtype, _index(x, y)), [_contiguous(x)], y, (*size, *out))


@on_gpu("max_pool_dx")
def max_pool_dx(a: Any, x: Any, y_max: Any, *, how: Windows) -> Any:
    if not _ready(a, x, y_max) or not x.dtype == y_max.dtype == a.dtype or not prod(x.shape):
        return None
    axes = len(how.kernel)
    arrays = [_contiguous(v) for v in (a, x, y_max)]
    y = array_module(x).empty(x.shape, a.dtype)
    sizes = (*x.shape[-axes:], *a.shape[-axes:])
    return _launch(gradient_source(how, x.dtype, _index(x, a)), arrays, y, sizes)
