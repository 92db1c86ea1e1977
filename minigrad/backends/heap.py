"""What the C library does with the memory of large arrays.

By itself glibc gives the memory of a large array that is freed back to the system, and the next
array of that size costs a fault for each of its pages: of a step of gelu(x)·tanh(x) on 2,000×2,000
that was 19 ms of 53. Here it is told to keep up to KEPT bytes at the top of its heap for the next
arrays, those of up to LARGEST bytes each. The most that a process ever holds does not change, only
when it gives memory back.

And Linux is asked to back that heap with large pages (2 MB on most machines) as far as it is used.
A pass over an array of some MB spends a tenth of its time on looking up where pages of 4 kB lie:
of two threads a convnet's step took 17 ms so and 15 with large pages. NumPy asks for its arrays of
4 MB or more, one by one; then what lies between them stays small.

Settings of the process (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ and GLIBC_TUNABLES, for
large pages NUMPY_MADVISE_HUGEPAGE=0) come first: where one of them is set nothing is changed. Other
C libraries are left alone.
"""

import ctypes
import mmap
import os
from importlib import import_module
from pathlib import Path

KEPT = 256 << 20
LARGEST = 32 << 20  # glibc takes no more: larger arrays come from the system, each by itself

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_LARGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


def keep_freed_arrays() -> None:
    """Let freed arrays of up to LARGEST bytes, KEPT in all, serve the next ones, in large pages."""
    if not _is_glibc() or _set_by_the_user():
        return
    c = ctypes.CDLL(None)
    c.mallopt(_TRIM_THRESHOLD, KEPT)
    c.mallopt(_MMAP_THRESHOLD, LARGEST)  # setting one keeps glibc from adapting the other
    if _large_pages_on_demand():
        _advise_large_pages(c)


def _advise_large_pages(c: ctypes.CDLL) -> None:
    """Ask for large pages for the next KEPT bytes of the heap.

    They are taken from the C library, marked, and given back without being touched: that fixes
    addresses and uses no memory. A little less than KEPT, which it would hand on to the system.
    """
    c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.free.argtypes = [ctypes.c_void_p]
    c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size, page = LARGEST - (64 << 10), mmap.PAGESIZE  # from LARGEST on they are not of the heap
    taken = [c.malloc(size) for _ in range(KEPT // LARGEST)]
    for start in filter(None, taken):
        first = start // page * page
        c.madvise(first, -(-(start + size) // page) * page - first, mmap.MADV_HUGEPAGE)
    for start in reversed(taken):
        c.free(start)


def _large_pages_on_demand() -> bool:
    """Whether the system gives large pages to those who ask, and the user has not said no.

    Where addresses are limited (ulimit -v) none are fixed beforehand.
    """
    try:
        asked = "[madvise]" in Path(_LARGE_PAGES).read_text()
    except OSError:
        return False
    resource = import_module("resource")  # Windows has none
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return asked and not limited and os.environ.get("NUMPY_MADVISE_HUGEPAGE") != "0"


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False  # Windows has no confstr, macOS and musl no such name


def _set_by_the_user() -> bool:
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return any(name in os.environ for name in names) or "glibc.malloc." in tunables
