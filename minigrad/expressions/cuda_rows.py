"""A program with sums or maxima of rows as one CUDA kernel.

Groups of threads take a row each: a part of a warp for short rows, a whole block for long ones. The
row's inputs are loaded once, 16 bytes at a time, and stay in registers for all passes over them.
softmax reads x once, though it needs its maximum, then its sum, then each element again. The next
pass computes values again, which costs less than keeping them in registers. A result that needs no
later sum is stored in the pass of an earlier one.

Each pass reads rows that are too long for the registers of a block again (`looped_source`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .cuda import FOLD, HEADERS, PRELUDE, START, computed, expression, pointers, stored
from .passes import Passes, steps
from .trace import ROW_FUNCTIONS, Symbol, of_row

VALUES = 64  # 32-bit registers of a thread for loaded values
THREADS = 256  # in a block, for rows that need fewer


class Layout(NamedTuple):
    """The distribution of a row: each of `threads` takes `items` pieces of `width` elements."""

    width: int
    threads: int
    items: int

    @property
    def rows(self) -> int:
        """The number of rows of a block."""
        return max(1, THREADS // self.threads) if self.threads <= 32 else 1


def layout_of(length: int, full: Sequence[Any]) -> Layout | None:
    """The layout for rows of this length and arrays of these dtypes; None: the row is too long."""
    sizes = [np.dtype(dtype).itemsize for dtype in full] or [4]
    width = 16 // max(sizes)
    while length % width:
        width //= 2
    pieces = -(-length // width)
    registers = width * sum(max(size, 4) // 4 for size in sizes)  # for one piece of each array
    threads = 1
    while threads < min(pieces, 32) or threads < THREADS and pieces > 4 * threads:
        threads *= 2
    # Larger blocks wait longer for their slowest warp: only rows that need them get them.
    while threads < 1024 and -(-pieces // threads) > min(8, VALUES // registers):
        threads *= 2
    items = -(-pieces // threads)
    return Layout(width, threads, items) if items * registers <= VALUES else None


def row_source(
    inputs: Sequence[Symbol], outputs: Sequence[Symbol], kinds: Sequence[str], layout: Layout
) -> str:
    """The kernel that runs the program on each row of `length` elements.

    kinds   "full": an element for each entry; "line": one value for each row; "lines": for row r
    the
            value at r / s % n; "one": a single value; "row": one row of values for all rows;
            "rows": for row r the row r / s % n of an array
    """
    writer = _Writer(inputs, outputs, kinds, layout)
    width, threads, items = layout
    full = writer.full
    loads = [f"Lanes<{stored(inputs[i].dtype)}, {width}> in{i}[{items}];" for i in full]
    if full:
        words = " ".join(
            f"in{i}[c] = *(const Lanes<{stored(inputs[i].dtype)}, {width}>*)"
            f"(x{i} + row * length + place0);"
            for i in full
        )
        loads.append(writer.pieces(words))
    code = "\n    ".join([*loads, *writer.passes()])
    folds = _folds(writer.phases, threads)
    return f"""{HEADERS}{PRELUDE}{folds}
extern "C" __global__ __launch_bounds__({threads * layout.rows})
void fused({pointers(inputs, outputs)}, long long rows, long long length{writer.sizes}) {{
    const int lane = threadIdx.x % {threads};
    const long long given = blockIdx.x * (long long){layout.rows} + threadIdx.x / {threads};
    const bool there = given < rows;
    const long long row = there ? given : rows - 1;  // all threads take part in every sum
    {code}
}}
"""


def looped_source(inputs: Sequence[Symbol], outputs: Sequence[Symbol], kinds: Sequence[str]) -> str:
    """The same for rows of any length: a block takes a row, and reads it again in each pass."""
    writer = _Writer(inputs, outputs, kinds, None)
    code = "\n    ".join(writer.passes())
    return f"""{HEADERS}{PRELUDE}{_folds(writer.phases, 1024)}
extern "C" __global__ __launch_bounds__(1024)
void fused({pointers(inputs, outputs)}, long long rows, long long length{writer.sizes}) {{
    const int lane = threadIdx.x;
    const long long row = blockIdx.x;
    const bool there = true;
    {code}
}}
"""


class _Writer(Passes):
    """The passes of a program over its row, in C."""

    def __init__(
        self,
        inputs: Sequence[Symbol],
        outputs: Sequence[Symbol],
        kinds: Sequence[str],
        layout: Layout | None,
    ):
        super().__init__(inputs, outputs, [kind in ("line", "lines", "one") for kind in kinds])
        self.kinds, self.layout = kinds, layout
        self.full = [x.number for x in self.used if kinds[x.number] == "full"]
        self.sizes = "".join(
            f", long long s{i}, long long n{i}"
            for i, kind in enumerate(kinds)
            if kind in ("lines", "rows")
        )

    def passes(self) -> list[str]:
        code: list[str] = []
        left = [(i, y) for i, y in enumerate(self.outputs) if not of_row(y)]
        for phase in self.phases:
            (x,), t, f = phase.args, computed(phase.dtype), phase.op
            fold = FOLD[f].format("sum", f"v{x.number}")
            ready = [(i, y) for i, y in left if self._is_ready(y)]
            left = [(i, y) for i, y in left if not self._is_ready(y)]
            code.append(self._row_values([x, *[y for _, y in ready]]))
            code.append(f"{t} r{phase.number} = {START[f]};")
            fold = f"{{ {t} sum = r{phase.number}; r{phase.number} = {fold}; }}"
            code.append(self._pass([x], fold, ready))
            code.append(f"{t} v{phase.number} = over_row_{f}(r{phase.number});")
            self.given.add(phase.number)
        code.append(self._row_values(self.outputs))
        for i, y in enumerate(self.outputs):
            if of_row(y):
                code.append(f"if (there && lane == 0) y{i}[row] = ({stored(y.dtype)})v{y.number};")
        if left:
            code.append(self._pass([], "", left))
        return code

    def _is_ready(self, y: Symbol) -> bool:
        """Whether y needs no sum or maximum that is not computed yet."""
        return all(s.op not in ROW_FUNCTIONS for s in steps([y], self.given))

    def places(self, words: str) -> str:
        """A loop over this thread's positions in the row, named `place`."""
        if self.layout is None:
            return (
                "for (long long place = lane; place < length; place += blockDim.x) {\n"
                f"        {words}\n    }}"
            )
        width = self.layout.width
        return self.pieces(
            f"#pragma unroll\n        for (int k = 0; k < {width}; ++k) {{ "
            f"const long long place = place0 + k; {words} }}"
        )

    def pieces(self, words: str) -> str:
        """A loop over this thread's pieces of the row."""
        assert self.layout is not None
        width, threads, items = self.layout
        return (
            f"#pragma unroll\n    for (int c = 0; c < {items}; ++c) {{\n"
            f"        const long long place0 = (long long)(lane + c * {threads}) * {width};\n"
            f"        if (place0 < length) {{\n        {words}\n        }}\n    }}"
        )

    def _pass(self, wanted: Sequence[Symbol], fold: str, whole: Sequence[tuple]) -> str:
        """A loop over the row: `fold` of the wanted values, and stores of the results `whole`."""
        words = f"{self._element([*wanted, *[y for _, y in whole]])} {fold}"
        if not whole:
            return self.places(words)
        if self.layout is None:
            stores = " ".join(
                f"y{i}[row * length + place] = ({stored(y.dtype)})v{y.number};" for i, y in whole
            )
            return self.places(f"{words} {stores}")
        width = self.layout.width
        declared = " ".join(f"Lanes<{stored(y.dtype)}, {width}> out{i};" for i, y in whole)
        filled = " ".join(f"out{i}.v[k] = ({stored(y.dtype)})v{y.number};" for i, y in whole)
        stores = " ".join(
            f"*(Lanes<{stored(y.dtype)}, {width}>*)(y{i} + row * length + place0) = out{i};"
            for i, y in whole
        )
        return self.pieces(
            f"{declared}\n        #pragma unroll\n        for (int k = 0; k < {width}; ++k) {{ "
            f"const long long place = place0 + k; {words} {filled} }}\n"
            f"        if (there) {{ {stores} }}"
        )

    def _row_values(self, wanted: Sequence[Symbol]) -> str:
        """The steps with one value for each row that these symbols need."""
        return " ".join([self._step(s) for s in self.row_steps(wanted)])

    def _element(self, wanted: Sequence[Symbol]) -> str:
        """The steps at one position that these symbols need."""
        return " ".join(self._step(s) for s in steps(wanted, self.given))

    def _step(self, s: Symbol) -> str:
        value = self._read(s) if s.op == "input" else expression(s)
        return f"{computed(s.dtype)} v{s.number} = {value};"

    def _read(self, s: Symbol) -> str:
        i = s.number
        whole = f"x{i}[row * length + place]" if self.layout is None else f"in{i}[c].v[k]"
        place = {
            "full": whole, "line": f"x{i}[row]", "lines": f"x{i}[row / s{i} % n{i}]",
            "one": f"x{i}[0]", "row": f"x{i}[place]",
            "rows": f"x{i}[row / s{i} % n{i} * length + place]",
        }[self.kinds[i]]  # fmt: skip
        return f"({computed(s.dtype)}){place}"


def _folds(phases: Sequence[Symbol], threads: int) -> str:
    """For each kind of sum a function that folds one value of each thread over a row's threads.

    The order is fixed: results repeat bit for bit.
    """
    return "".join(
        _over_row(f, t, threads) for f, t in sorted({(p.op, computed(p.dtype)) for p in phases})
    )


def _over_row(f: str, t: str, threads: int) -> str:
    fold = FOLD[f].format("value", "other")
    across = (
        ""
        if threads <= 32
        else f"""
    __shared__ {t} parts[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int w = 1; w < blockDim.x / 32; ++w) {{ {t} other = parts[w]; value = {fold}; }}"""
    )
    return f"""
__device__ {t} over_row_{f}({t} value) {{
    #pragma unroll
    for (int step = {min(threads, 32) // 2}; step > 0; step >>= 1) {{
        {t} other = __shfl_xor_sync(0xffffffff, value, step);
        value = {fold};
    }}{across}
    return value;
}}
"""
