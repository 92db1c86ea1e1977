"""numba with the options that all kernels of this folder share.

nogil       threads of backends/pool.py run kernels at the same time
numpy       a division by 0 gives NaN or an infinity, as in NumPy
contract    a·b + c may be one instruction with one rounding, in hand-written kernels and functions.
            Not in generated loops: there the contracted products, and hence a gradient's bits,
            would depend on what else the loop computes

Nothing else is relaxed: NaN, infinities and signed zeros behave as in NumPy.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from . import disk

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(fn: Callable) -> Callable:
    """Decorator: a loop over arrays, compiled at its first call and kept on disk (by numba)."""
    options = {"fastmath": {"contract"}, **_OPTIONS}
    kept = _forgiving(numba.njit(cache=True, **options)(fn))
    return kept if _stamp(kept) and _is_private(kept) else numba.njit(**options)(fn)


def _stamp(kept: Any) -> bool:
    """Let a kernel on disk count as old after a change of anything compiled into it.

    numba checks only the file of the kernel, not the files of the functions that it calls. False
    for a version of numba with another place for its stamp; then nothing is kept.
    """
    index: Any = getattr(getattr(kept, "_cache", None), "_cache_file", None)
    if not hasattr(index, "_source_stamp"):
        return False
    index._source_stamp = (index._source_stamp, disk.digest())
    return True


def kernel_of(fn: Callable, on_disk: bool) -> Callable:
    """The same for a generated function: kept on disk if it comes from a file."""
    made = numba.njit(cache=on_disk, **_OPTIONS)(fn)
    if on_disk and not _is_private(made):
        return numba.njit(**_OPTIONS)(fn)
    return _forgiving(made) if on_disk else made


def _is_private(kept: Any) -> bool:
    """Whether only the user can write to numba's folder of the kernel: NUMBA_CACHE_DIR may be
    shared."""
    return disk.is_private(Path(kept._cache.cache_path), group=True)


def _forgiving(kept: Any) -> Any:
    """The kernel, compiled again if its files on disk are damaged or another user's.

    With damaged files (truncated on a full disk, for example) numba would raise at every call,
    until someone removes them.
    """
    cache = kept._cache
    load, save = cache.load_overload, cache.save_overload
    stem = getattr(getattr(cache, "_impl", None), "filename_base", "")

    def load_or_compile(*asked: Any) -> Any:
        try:
            disk.forget_foreign(Path(cache.cache_path), stem)
            return load(*asked)
        except Exception:  # unpickling a damaged file can raise anything
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def save_or_not(*made: Any) -> None:
        with contextlib.suppress(Exception):  # it first reads the damaged index
            save(*made)

    cache.load_overload, cache.save_overload = load_or_compile, save_or_not
    return kept


def element(fn: Callable) -> Callable:
    """Decorator: a function of one element, for use in kernels, where LLVM inlines it."""
    return numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)(fn)


@numba.njit(fastmath={"reassoc"})
def add(a, b):  # type: ignore[no-untyped-def]
    """a + b of a sum whose order the compiler may choose, to add in vector lanes.

    The compiled loop fixes the order: it is the same at every call, for any number of threads.
    """
    return a + b


def _of_llvm(name: str) -> Any:
    """LLVM's function of two numbers of this name."""

    @intrinsic
    def function(context, a, b):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
            t = args[0].type
            form = ir.FunctionType(t, (t, t))
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", (t,), form), args)

        return (signature(a, a, b), code) if isinstance(a, types.Float) and a == b else None

    return function


maximum, minimum = _of_llvm("maximum"), _of_llvm("minimum")  # NaN wins, as in NumPy


@element
def larger(a, b):  # type: ignore[no-untyped-def]
    """np.maximum: NaN wins, and of equal numbers (0 and −0) the second"""
    return a if (a > b) | (a != a) else b


@element
def smaller(a, b):  # type: ignore[no-untyped-def]
    return a if (a < b) | (a != a) else b


@element
def select(condition, a, b):  # type: ignore[no-untyped-def]
    return a if condition else b


@element
def clipped(x, low, high):  # type: ignore[no-untyped-def]
    """np.clip between two numbers: NaN stays, and a zero at a bound of 0 keeps its sign"""
    y = low if x < low else x
    return high if y > high else y


@element
def sign(x, one):  # type: ignore[no-untyped-def]
    """np.sign: −1 or 1 (one is 1 in x's dtype), 0 for −0 too, and NaN for NaN"""
    y = one - one if x == 0 else x
    y = one if x > 0 else y
    return -one if x < 0 else y
