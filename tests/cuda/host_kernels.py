"""CUDA kernels compiled for the host, so that what they compute is tested where there is no GPU.

A kernel without shared memory and shuffles is C++ that one thread after the other can run. The
words of CUDA that it uses are given here; `RawKernel` stands in for CuPy's.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile
from typing import Any

import numpy as np

_folder: Any = None  # removed when the process ends
_KEPT = pathlib.Path(__file__).parents[2] / ".pytest_cache" / "kernels"  # see --cache-clear
_OPTIONS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-fPIC")

_WORDS = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <cstddef>
using std::isinf; using std::isfinite; using std::signbit;
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#undef INFINITY
#define __int_as_float(bits) as_float(bits)
static inline float as_float(unsigned int bits) { float y; memcpy(&y, &bits, 4); return y; }
static inline unsigned int as_bits(float x) { unsigned int y; memcpy(&y, &x, 4); return y; }
struct Place { unsigned int x, y, z; };
static thread_local Place blockIdx, blockDim, threadIdx, gridDim;
struct uint4 { unsigned int x, y, z, w; };
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
    return {x, y, z, w};
}
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
    return (unsigned int)(((unsigned long long)a * b) >> 32);
}
static inline float __fdividef(float a, float b) { return a / b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
struct __half {
    _Float16 v;
    __half() = default;
    __half(float x) : v((_Float16)x) {}
    operator float() const { return (float)v; }
};
struct __nv_bfloat16 {
    unsigned short v;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {  // to the nearest, ties to even
        const unsigned int bits = as_bits(x);
        v = x != x ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    operator float() const { return as_float((unsigned int)v << 16); }
};
"""
_LAUNCH = r"""
template <typename... A, size_t... I>
static void call(void (*f)(A...), void** given, std::index_sequence<I...>) {
    f(*(A*)given[I]...);
}
template <typename... A> static void run(void (*f)(A...), const int* shape, void** given) {
    blockDim.x = shape[3];
    for (int z = 0; z < shape[2]; ++z) for (int y = 0; y < shape[1]; ++y)
        for (int x = 0; x < shape[0]; ++x) for (int t = 0; t < shape[3]; ++t) {
            blockIdx = {(unsigned)x, (unsigned)y, (unsigned)z};
            threadIdx = {(unsigned)t, 0, 0};
            call(f, given, std::index_sequence_for<A...>());
        }
}
template <typename... A> static int sizes(void (*f)(A...), size_t* y) {
    const size_t found[] = {sizeof(A)...};
    for (size_t k = 0; k < sizeof...(A); ++k) y[k] = found[k];
    return sizeof...(A);
}
extern "C" void launch_(const int* shape, void** given) { run(KERNEL, shape, given); }
extern "C" int sizes_(size_t* y) { return sizes(KERNEL, y); }
"""


@functools.cache
def _library(source: str, name: str) -> Any:
    """The source as a library of the host; kept for other processes, and for the plain mode."""
    body = "\n".join(line for line in source.splitlines() if "#include <cuda" not in line)
    text = f'#include "words.hpp"\n{body}\n#define KERNEL {name}\n{_LAUNCH}'
    stem = hashlib.sha256("".join([_compiler(), *_OPTIONS, _WORDS, text]).encode()).hexdigest()
    kept = _KEPT / f"{stem}.so"
    if not kept.exists():
        path = _words().with_name(f"{stem}.cpp")
        path.write_text(text)
        _KEPT.mkdir(parents=True, exist_ok=True)
        made = kept.with_suffix(f".{os.getpid()}")  # another process may compile the same one
        _compile(path, made, "-shared")
        made.replace(kept)
    return ctypes.CDLL(str(kept))


@functools.cache
def _compiler() -> str:
    """Which compiler it is, in its own words."""
    return subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout


@functools.cache
def _words() -> pathlib.Path:
    """The words as a header, compiled beforehand: reading it is two thirds of a kernel's time."""
    global _folder
    _folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(_folder.name) / "words.hpp"
    path.write_text(_WORDS)
    _compile(path, path.with_name("words.hpp.gch"), "-xc++-header")
    return path


def _compile(source: pathlib.Path, made: pathlib.Path, *options: str) -> None:
    command = ["c++", *options, *_OPTIONS, "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:4000])


@functools.cache
def usable() -> bool:
    """Whether there is a C++ compiler here, and it knows 16-bit floats (GCC from 12 on, Clang)."""
    try:
        _library('extern "C" void fused(__half* x) { x[0] = 1.0f; }', "fused")
    except (RuntimeError, OSError):
        return False
    return True


class RawKernel:
    """cupy.RawKernel, for arrays of the stand-in."""

    calls: list[str] = []

    def __init__(self, source: str, name: str, options: tuple = ()):
        self.source, self.name = source, name
        self.kernel = self  # CuPy's compiled function takes the same arguments

    def __call__(self, grid: tuple, block: tuple, args: tuple) -> None:
        library = _library(self.source, self.name)
        held = [_bytes(x) for x in args]
        sizes = (ctypes.c_size_t * 64)()
        count = library.sizes_(sizes)
        given = [len(x) for x in held]
        assert given == list(sizes[:count]), f"{given} bytes given, {list(sizes[:count])} taken"
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(x) for x in held])
        shape = (ctypes.c_int * 4)(*(*grid, 1, 1)[:3], block[0])
        library.launch_(shape, pointers)
        RawKernel.calls.append(self.source)


def _bytes(x: Any) -> Any:
    """An argument's bytes, as CuPy hands it over: addresses, and numbers by their kind."""
    if hasattr(x, "data") and hasattr(x.data, "ptr"):
        assert x.flags.c_contiguous, "a kernel reads contiguous arrays"
        value = np.uint64(x.data.ptr)
    elif isinstance(x, np.generic | np.ndarray):  # an array of one: a struct, by value
        value = x
    else:
        value = np.int64(x) if isinstance(x, int) else np.float64(x)
    return (ctypes.c_char * value.nbytes).from_buffer_copy(value.tobytes())
