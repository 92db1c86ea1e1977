"""Sums of a program over all rows: y_k[j] = Σ_r program(x…[r, j]), in a fixed order.

A block takes 32 columns (times the width of a load) and a share of the rows. Each of its eight
warps adds up every eighth row, and then the warps' sums are added. A second run of the same kernel
adds the sums of the blocks. A gradient of a bias or of a norm's weight then reads its arrays once.
"""

from collections.abc import Sequence

from .cuda import HEADERS, PRELUDE, computed, expression, pointers, stored
from .passes import steps
from .trace import ROW_FUNCTIONS, NotFusible, Symbol

WARPS = 8


def column_source(
    inputs: Sequence[Symbol], outputs: Sequence[Symbol], kinds: Sequence[str], width: int
) -> str:
    """The kernel; grid (columns / (32 · width), shares of the rows); y is (shares, columns).

    kinds   as in cuda_rows: "full", "line", "row", "one"
    """
    words = []
    for s in steps(list(outputs)):
        if s.op in ROW_FUNCTIONS or s.op in ("length", "place"):
            raise NotFusible("a row's value in a sum over rows")
        value = expression(s)if s.op != "input" else f"({computed(s.dtype)})" + {
            "full": f"in{s.number}.v[k]", "line": f"x{s.number}[row]",
            "row": f"x{s.number}[column + k]", "one": f"x{s.number}[0]",
        }[kinds[s.number]]  # fmt: skip
        words.append(f"{computed(s.dtype)} v{s.number} = {value};")
    words += [f"sum{i}[k] += v{y.number};" for i, y in enumerate(outputs)]
    full = [i for i, kind in enumerate(kinds) if kind == "full"]
    loads = "\n        ".join(
        f"const Lanes<{stored(inputs[i].dtype)}, W> in{i} = "
        f"*(const Lanes<{stored(inputs[i].dtype)}, W>*)(x{i} + row * columns + column);"
        for i in full
    )
    ends = []
    for i, y in enumerate(outputs):
        t = computed(y.dtype)
        ends.append(f"""{{
        __shared__ {t} parts[{WARPS}][32 * W];
        for (int k = 0; k < W; ++k) parts[warp][lane * W + k] = sum{i}[k];
        __syncthreads();
        for (int j = threadIdx.x; j < 32 * W; j += blockDim.x) {{
            {t} sum = 0;
            for (int w = 0; w < {WARPS}; ++w) sum += parts[w][j];
            const long long place = blockIdx.x * 32LL * W + j;
            if (place < columns) y{i}[blockIdx.y * columns + place] = ({stored(y.dtype)})sum;
        }}
    }}""")
    sums = " ".join(f"{computed(y.dtype)} sum{i}[W] = {{}};" for i, y in enumerate(outputs))
    text, folded = " ".join(words), "\n    ".join(ends)
    return f"""{HEADERS}{PRELUDE}
constexpr int W = {width};
extern "C" __global__ __launch_bounds__({32 * WARPS})
void fused({pointers(inputs, outputs)}, long long rows, long long columns, long long share) {{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long column = (blockIdx.x * 32LL + lane) * W;
    const long long start = blockIdx.y * share, stop = min(start + share, rows);
    {sums}
    if (column < columns) for (long long row = start + warp; row < stop; row += {WARPS}) {{
        {loads}
        #pragma unroll
        for (int k = 0; k < W; ++k) {{ {text} }}
    }}
    {folded}
}}
"""
