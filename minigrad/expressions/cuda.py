"""A recorded program as CUDA: the common part of all kernels, and the elementwise kernel.

Each thread reads adjacent elements with one 16-byte load for each input, computes, and stores as
wide. 16-bit floats are computed in float32 and rounded once, when they are stored. cuda_rows.py and
cuda_columns.py have the programs with sums.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import bfloat16
from .passes import DENOMINATOR, NUMERATOR, OPERATORS, operands, steps
from .trace import ROW_FUNCTIONS, NotFusible, Symbol

_TYPES = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "int32": "int", "int64": "long long", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip

# An op in C, for floats; {f} is the suffix "f" of float32's functions.
_WORDS = OPERATORS | {
    "reciprocal": "1 / {0}",
    "power": "pow{f}({0}, {1})", "float_power": "pow{f}({0}, {1})",
    "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}",  # NaN wins; of ±0 the second, as in NumPy
    "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "clip": "clipped({0}, {1}, {2})",
    "sign": "({0} > 0) ? 1 : ({0} < 0) ? -1 : ({0} == 0) ? 0 : {0}",  # 0 for −0 too
    "heaviside": "({0} != {0}) ? {0} : ({0} == 0) ? {1} : ({0} > 0 ? 1 : 0)",
    "remainder": "remainder_of({0}, {1})",
    "logical_and": "{0} && {1}", "logical_or": "{0} || {1}", "logical_not": "!{0}",
    "isinf": "isinf({0})", "isfinite": "isfinite({0})", "signbit": "signbit({0})",
    "where": "{0} ? {1} : {2}",
    "expit": "1 / (1 + exp{f}(-{0}))",
    "ndtr": "ndtr_of({0})",
    "gammaln": "({0} == -INFINITY) ? {0} : lgamma{f}({0})",  # C's lgamma is ∞ there
}  # fmt: skip
_CALLED = {  # NumPy's name: CUDA's
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sqrt": "sqrt", "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "hypot": "hypot", "absolute": "fabs", "fabs": "fabs", "floor": "floor",
    "ceil": "ceil", "rint": "rint", "trunc": "trunc", "fmax": "fmax", "fmin": "fmin",
    "copysign": "copysign", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "erfcx",
}  # fmt: skip
_INTEGER = {  # on integers, in integers: only absolute differs from the float form
    "absolute": "({0} < 0) ? -{0} : {0}",
}
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
START = {"sum": "0", "max": "-INFINITY", "min": "INFINITY"}
FOLD = {"sum": "{0} + {1}", "max": "({0} >= {1} || {0} != {0}) ? {0} : {1}",
        "min": "({0} <= {1} || {0} != {0}) ? {0} : {1}"}  # fmt: skip
BLOCK = 256


def _horner(coefficients: Sequence[float], x: str) -> str:
    """c₀ + x (c₁ + x (c₂ + …)) in float32, in C."""
    *others, text = [f"{float(c)}f" for c in coefficients]
    for c in reversed(others):
        text = f"{c} + {x} * ({text})"
    return text


PRELUDE = f"""
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
template <typename T, int N> struct alignas(sizeof(T) * N) Lanes {{ T v[N]; }};
template <typename T> __device__ T clipped(T x, T low, T high) {{  // NaN and a zero's sign stay
    const T y = x < low ? low : x;
    return y > high ? high : y;
}}
template <typename T> __device__ T remainder_of(T a, T b) {{  // NumPy's: of b's sign, and exact
    const T m = fmod(a, b);
    return m == 0 ? copysign(T(0), b) : (m < 0) != (b < 0) ? m + b : m;
}}
__device__ double ndtr_of(double x) {{ return erfc(x * -0.7071067811865476) / 2; }}
__device__ float ndtr_of(float x) {{  // Φ(x) = s below 0, 1 − s above, s = e^−z²/2 R(z), z = |x|
    const float near = clipped(x, -40.0f, 40.0f), z = fabsf(near);
    const float e = expf(-0.5f * near * near), lost = fmaf(z, z, -(z * z));  // z² is z·z + lost
    const float r = __fdividef({_horner(NUMERATOR, "z")}, {_horner(DENOMINATOR, "z")});
    const float s = r * (e - 0.5f * lost * e);
    return x < 0 ? s : 1 - s;
}}
"""


def lanes(dtypes: Iterable[Any]) -> int:
    """The number of elements for a thread: 16 bytes of the widest of these dtypes."""
    return max(1, 16 // max(np.dtype(dt).itemsize for dt in dtypes))


def stored(dtype: Any) -> str:
    """The C type in memory."""
    name = "bfloat16" if dtype == bfloat16 else np.dtype(dtype).name
    if name not in _TYPES:
        raise NotFusible(f"{dtype} in a kernel")
    return _TYPES[name]


def computed(dtype: Any) -> str:
    """The C type in registers."""
    return "float" if stored(dtype) in ("__half", "__nv_bfloat16") else stored(dtype)


def expression(s: Symbol) -> str:
    """The C expression of one step, with the variables of its arguments."""
    args = [f"v{x.number}" for x in operands(s)]
    kind = s.args[0].dtype if s.args and isinstance(s.args[0], Symbol) else s.dtype
    f = "" if kind == np.float64 else "f"
    if s.op == "constant":
        return _literal(s.args[0], s.dtype)
    if s.op in ("length", "place"):
        return f"({computed(s.dtype)}){s.op}"
    if s.op == "number":
        return f"({computed(s.dtype)})t.a[{s.args[0]}]"  # t: see table_source
    if s.op == "cast":
        nonzero = s.dtype == bool
        return f"{args[0]} != 0" if nonzero else f"({computed(s.dtype)}){args[0]}"
    if kind.kind in "iu" and s.op in _INTEGER:
        return _INTEGER[s.op].format(*args)
    if s.op in _WORDS:
        return _WORDS[s.op].format(*args, f=f)
    if s.op in _CALLED:
        return f"{_CALLED[s.op]}{f}({', '.join(args)})"
    raise NotFusible(f"{s.op} in a kernel")


def _literal(value: Any, dtype: Any) -> str:
    if np.dtype(dtype) == bool:
        return "true" if value else "false"
    if np.dtype(dtype).kind in "iu":
        return f"({computed(dtype)}){int(value)}LL"
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        word = "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
        return f"(({computed(dtype)})({word}))"
    return f"(({computed(dtype)}){value!r})"


def pointers(inputs: Sequence[Symbol], outputs: Sequence[Symbol]) -> str:
    words = [f"const {stored(x.dtype)}* __restrict__ x{i}" for i, x in enumerate(inputs)]
    words += [f"{stored(y.dtype)}* __restrict__ y{i}" for i, y in enumerate(outputs)]
    return ", ".join(words)


def elementwise_source(
    inputs: Sequence[Symbol],
    outputs: Sequence[Symbol],
    kinds: Sequence[str],
    width: int,
    index: str = "long long",
) -> str:
    """The kernel y_k[i] = program(x_0[i], x_1[i] …).

    kinds   the read of each input: "full": like the result; "one": a single element; "part": only
            along adjacent axes, element i / s % n, where s is the size of the axes after them
    """
    parts = [i for i, kind in enumerate(kinds) if kind == "part"]
    sizes = "".join(f", long long s{i}_, long long n{i}_" for i in parts)
    narrow = " ".join(f"const Index s{i} = (Index)s{i}_, n{i} = (Index)n{i}_;" for i in parts)
    return f"""{HEADERS}{PRELUDE}
constexpr int W = {width};
typedef {index} Index;
extern "C" __global__ void fused({pointers(inputs, outputs)}, long long n{sizes}) {{
    long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * W;
    if (i >= n) return;
    {narrow}
    {_elements(inputs, outputs, kinds)}
}}
"""


def _elements(inputs: Sequence[Symbol], outputs: Sequence[Symbol], kinds: Sequence[str]) -> str:
    """The elements i … i + W − 1 of n, in C."""
    lanes_of, one = [], []  # the work on loaded element k, and on one in memory
    for s in steps(list(outputs)):
        if s.op == "input":
            n = s.number
            places = {
                "full": (f"in{n}.v[k]", f"x{n}[i + k]"), "one": (f"x{n}[0]",) * 2,
                "part": (f"x{n}[(Index)(i + k) / s{n} % n{n}]",) * 2,
            }[kinds[n]]  # fmt: skip
            for body, place in zip((lanes_of, one), places, strict=True):
                body.append(f"{computed(s.dtype)} v{n} = ({computed(s.dtype)}){place};")
        elif s.op in ROW_FUNCTIONS or s.op in ("length", "place"):
            raise NotFusible("a row's value in an elementwise kernel")
        else:
            for body in (lanes_of, one):
                body.append(f"{computed(s.dtype)} v{s.number} = {expression(s)};")
    for i, y in enumerate(outputs):
        lanes_of.append(f"out{i}.v[k] = {_rounded(y)};")
        one.append(f"y{i}[i + k] = {_rounded(y)};")
    whole = [(i, stored(inputs[i].dtype)) for i, kind in enumerate(kinds) if kind == "full"]
    load = [f"Lanes<{c}, W> in{i} = *(const Lanes<{c}, W>*)(x{i} + i);" for i, c in whole]
    made = [(i, stored(y.dtype)) for i, y in enumerate(outputs)]
    load += [f"Lanes<{c}, W> out{i};" for i, c in made]
    store = [f"*(Lanes<{c}, W>*)(y{i} + i) = out{i};" for i, c in made]
    # The last few elements do not use in and out: a loop with an index unknown to the compiler
    # would move these from registers to memory, for all threads.
    loop, tail = ("\n            ".join(body) for body in (lanes_of, one))
    return f"""if (i + W <= n) {{
        {" ".join(load)}
        #pragma unroll
        for (int k = 0; k < W; ++k) {{
            {loop}
        }}
        {" ".join(store)}
    }} else {{
        #pragma unroll 1
        for (int k = 0; k < n - i; ++k) {{
            {tail}
        }}
    }}"""


def _rounded(y: Symbol) -> str:
    """The stored form of a result, rounded to the nearest, ties to even; 16 bits go through
    float32.

    float64 is rounded to 16 bits in one step, since two roundings may miss the nearest number.
    """
    source: Any = y.args[0] if y.op == "cast" else y
    is_narrow = stored(y.dtype) != computed(y.dtype)
    value = source if is_narrow and source.dtype == np.float64 else y
    return f"({stored(y.dtype)})v{value.number}"


TABLE_BYTES = 4096  # most bytes of a kernel's arguments


def table_length(arrays: int, numbers: int) -> int:
    """The number of calls, each of this many arrays, that fit into a kernel's table with
    numbers."""
    rest = TABLE_BYTES - 8 * max(numbers, 1) - 16
    return max(1, min(64, rest // (8 * arrays + 12)))


def table_source(
    inputs: Sequence[Symbol],
    outputs: Sequence[Symbol],
    written: Sequence[int],
    width: int,
    numbers: int,
    most: int,
) -> str:
    """The kernel x_k[i] = program(x_0[i], x_1[i] …), for up to `most` lists of arrays at once.

    written   the input that each result is written to (each element by the thread that has read it)
    numbers   the number of floats a[0], a[1] … that the program reads
    """
    own = [f"const {stored(x.dtype)}* x{i} = (const {stored(x.dtype)}*)t.at[m][{i}];"
           for i, x in enumerate(inputs)]  # fmt: skip
    own += [f"{stored(y.dtype)}* y{i} = ({stored(y.dtype)}*)t.at[m][{k}];"
            for i, (y, k) in enumerate(zip(outputs, written, strict=True))]  # fmt: skip
    lines = "\n    ".join(own)
    return f"""{HEADERS}{PRELUDE}
constexpr int W = {width};
typedef long long Index;
struct Table {{
    unsigned long long at[{most}][{len(inputs)}];  // where the arrays of each call begin
    long long n[{most}];                           // how many elements they have
    double a[{max(numbers, 1)}];                   // the floats of the program
    int first[{most}];                             // the first block of threads that works on them
    int count;
}};
extern "C" __global__ void fused(const __grid_constant__ Table t) {{
    int m = 0;  // the call that this block works on, by halving
    for (int jump = 32; jump; jump >>= 1)
        if (m + jump < t.count && t.first[m + jump] <= (int)blockIdx.x) m += jump;
    {lines}
    const long long n = t.n[m];
    long long i = ((blockIdx.x - t.first[m]) * (long long)blockDim.x + threadIdx.x) * W;
    if (i >= n) return;
    {_elements(inputs, outputs, ["full"] * len(inputs))}
}}
"""
