"""Source text shared by kernels whose threads compute neighbouring pixels of an image's rows."""

from collections.abc import Sequence
from typing import Any

from ..expressions.cuda import HEADERS, PRELUDE


def place_of(name: str, size: Sequence[Any], last: str = "0") -> str:
    """C text: the offset of the row `name`0 … of this image, + last."""
    words = "image"
    for k, n in enumerate(size[:-1]):
        words = f"({words} * {n} + {name}{k})"
    return f"{words} * {size[-1]} + {last}"


def kernel_text(
    index: str, inputs: dict[str, str], outputs: list[tuple], shape: tuple, width: int,
    body: str, end: str = "", prologue: str = "", height: int = 1,
) -> str:  # fmt: skip
    """A kernel whose threads compute `height` × `width` pixels of images of `shape`.

    inputs   names and C types; outputs: (name, C type, C expression of result w)
    body     computes `result`, row after row, for the chunk of the image that image, o0 …, q and r
             give. It begins at row r·height or o…, column q·width
    end      C statements before each result's store
    """
    takes = ", ".join(f"const {t}* __restrict__ {name}" for name, t in inputs.items())
    gives = ", ".join(f"{t}* __restrict__ {name}" for name, t, _ in outputs)
    lines = ["Index rest = i;"]
    axes = [f"o{k}" for k in range(len(shape) - 1)] + ["q"]
    chunks = [*shape[:-1], -(-shape[-1] // width)]
    if height > 1:
        axes[-2], chunks[-2] = "r", -(-shape[-2] // height)
    for axis, count in zip(reversed(axes), reversed(chunks), strict=True):
        lines.append(f"const int {axis} = rest % {count}; rest /= {count};")
    if height > 1:
        lines.append(f"const int o{len(shape) - 2} = r * {height};")
    elif len(shape) > 1:
        lines.append(f"const int r = o{len(shape) - 2}; (void)r;")
    found = "\n    ".join([*lines, "const Index image = rest;"])
    to = place_of("o", shape, f"q * {width}")
    partial = height > 1 and shape[len(shape) - 2] % height != 0
    stores = "\n    ".join(
        _stores(outputs, shape, width, end, row, partial) for row in range(height)
    )
    return f"""{HEADERS}{PRELUDE}{_WIDE}{prologue}
typedef {index} Index;
extern "C" __global__ void fused({takes}, {gives}, long long n) {{
    const Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x;
    if (i >= n) return;
    {found}
    {body}
    const Index to = {to};
    {stores}
}}
"""


_WIDE = """
template <typename T, int N> constexpr int PART = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
template <typename T, int N> __device__ __forceinline__ void store(T* y, const Lanes<T, N>& v) {
    constexpr int P = PART<T, N>;
    #pragma unroll
    for (int k = 0; k < N; k += P) {
        Lanes<T, P> some;
        #pragma unroll
        for (int m = 0; m < P; ++m) some.v[m] = v.v[k + m];
        *(Lanes<T, P>*)(y + k) = some;
    }
}
template <typename T, int N> __device__ __forceinline__ Lanes<T, N> load(const T* x) {
    constexpr int P = PART<T, N>;
    Lanes<T, N> v;
    #pragma unroll
    for (int k = 0; k < N; k += P) {
        const Lanes<T, P> some = *(const Lanes<T, P>*)(x + k);
        #pragma unroll
        for (int m = 0; m < P; ++m) v.v[k + m] = some.v[m];
    }
    return v;
}
"""  # in parts of 16 bytes, the most that one instruction moves


def _stores(
    outputs: list[tuple], shape: tuple, width: int, end: str, row: int, partial: bool
) -> str:
    """C text: store row `row` of a thread's results, as vectors where rows divide evenly."""
    length, at = shape[-1], f"to + {row * shape[-1]}"
    outputs = [(n, t, v.replace("[w]", f"[{row * width} + w]")) for n, t, v in outputs]
    if length % width or width & (width - 1):
        words = " ".join(f"{name}[{at} + w] = {value};" for name, _, value in outputs)
        inside = f"if (q * {width} + w < {length}) " if length % width else ""
        lines = [f"for (int w = 0; w < {width}; ++w) {inside}{{ {end} {words} }}"]
    else:
        kept = " ".join(f"{name}_.v[w] = {value};" for name, _, value in outputs)
        lines = [f"Lanes<{t}, {width}> {name}_;" for name, t, _ in outputs]
        lines += ["#pragma unroll", f"for (int w = 0; w < {width}; ++w) {{ {end} {kept} }}"]
        lines += [f"store<{t}, {width}>({name} + {at}, {name}_);" for name, t, _ in outputs]
    test = f"if (o{len(shape) - 2} + {row} < {shape[-2]}) " if partial else ""
    unroll = "" if len(lines) > 1 else "\n    #pragma unroll\n    "
    return f"{test}{{ {unroll}" + "\n    ".join(lines) + " }"
