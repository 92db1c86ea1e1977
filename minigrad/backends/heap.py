"""The C library's heap, tuned for large arrays while mg.accelerate is on.

The heap belongs to the process: importing this module changes nothing. By default glibc returns the
memory of a freed large array to the system. The next array of that size then costs a fault for each
page. `keep_freed_arrays` makes glibc keep up to KEPT bytes at the top of its heap for the next
arrays of up to LARGEST bytes each. The peak memory of the process stays the same; only the time of
returning memory changes.

It also asks Linux to back the used part of that heap with large pages (2 MB on most machines). A
pass over an array of some MB spends a tenth of its time on looking up the addresses of 4 kB pages.
NumPy asks for large pages only for arrays of 4 MB or more, one by one: the memory between them
keeps small pages.

`give_back` restores glibc's thresholds and returns freed memory to the system, with the large
pages. One effect lasts until the process ends: glibc no longer adapts its thresholds to freed
arrays once a program has set them.

Settings of the process (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ and GLIBC_TUNABLES, for
large pages NUMPY_MADVISE_HUGEPAGE=0) take precedence: if one of them is set, nothing changes. Other
C libraries are not touched.
"""

import ctypes
import mmap
import os
from functools import cache
from importlib import import_module
from pathlib import Path

KEPT = 256 << 20
LARGEST = 32 << 20  # glibc's maximum: the system maps each larger array separately

INITIAL = 128 << 10  # both of glibc's thresholds before they adapt

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_LARGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"

_kept = False  # whether freed arrays are kept now
_large_pages = False  # whether that memory is in large pages


def keep_freed_arrays() -> None:
    """Keep freed arrays of up to LARGEST bytes, KEPT in all, for the next ones, in large pages."""
    global _kept, _large_pages
    if _kept or not _is_glibc() or _set_by_the_user():
        return
    _thresholds()  # measured, to restore them
    c = _c_library()
    _kept = True  # first: after Ctrl-C, `give_back` undoes a part
    c.mallopt(_TRIM_THRESHOLD, KEPT)
    c.mallopt(_MMAP_THRESHOLD, LARGEST)  # setting one keeps glibc from adapting the other
    _large_pages = _large_pages_on_demand()
    if _large_pages:
        _advise_large_pages(c)


def give_back() -> None:
    """Undo `keep_freed_arrays`: restore the thresholds, return freed memory to the system."""
    global _kept, _large_pages
    if not _kept:
        return
    c, (by_itself, kept) = _c_library(), _thresholds()
    c.mallopt(_MMAP_THRESHOLD, by_itself)
    c.mallopt(_TRIM_THRESHOLD, kept)
    c.malloc_trim(0)
    _kept = _large_pages = False


def said() -> str:
    """The state of the heap now, for a bug report."""
    if _kept:
        pages = " in large pages" if _large_pages else ""
        return f"glibc keeps up to {KEPT >> 20} MB of freed arrays{pages}"
    if _is_glibc() and _set_by_the_user():
        return "glibc's heap as the environment sets it"
    if _thresholds.cache_info().currsize:
        by_itself, kept = _thresholds()
        return f"glibc's heap as before, its thresholds fixed at {by_itself} and {kept} bytes"
    return "the C library's heap untouched"


class _Usage(ctypes.Structure):
    """The result of mallinfo2(3); arena: bytes of the heap, hblks: blocks mapped separately."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


@cache
def _thresholds() -> tuple[int, int]:
    """glibc's thresholds before minigrad's first change: (bytes from which an array is mapped
    separately, free bytes at the top of the heap from which they return to the system).

    No function returns them. The search therefore allocates blocks of different sizes and never
    touches them: either one more block is mapped, or the heap has grown. A block that fits in free
    memory shows neither; it is held, and another one of its size follows. The second threshold is
    twice the first once they adapt.
    """
    c = _c_library()
    try:
        usage = c.mallinfo2  # from glibc 2.33 on
    except AttributeError:
        return INITIAL, INITIAL
    usage.restype = _Usage
    page = mmap.PAGESIZE
    low, high, taken = INITIAL, LARGEST, []  # not mapped from low bytes, mapped from high
    while high - low > page and len(taken) < 40:
        size, before = (low + high) // 2 // page * page, usage()
        block, after = c.malloc(size), usage()
        if not block:
            break
        taken.append(block)
        if after.hblks > before.hblks:
            high = size
        elif after.arena > before.arena:
            low = size
    for block in reversed(taken):
        c.free(block)
    return (INITIAL, INITIAL) if low == INITIAL else (high, 2 * high)


@cache
def _c_library() -> ctypes.CDLL:
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.free.argtypes = [ctypes.c_void_p]
    c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    c.malloc_trim.argtypes = [ctypes.c_size_t]
    return c


def _advise_large_pages(c: ctypes.CDLL) -> None:
    """Ask for large pages for the next KEPT bytes of the heap.

    They are allocated, marked, and freed without being touched: that fixes addresses and uses no
    memory. They are a little less than KEPT, which the C library would return to the system.
    """
    size, page = LARGEST - (64 << 10), mmap.PAGESIZE  # from LARGEST on, outside of the heap
    taken = [c.malloc(size) for _ in range(KEPT // LARGEST)]
    for start in filter(None, taken):
        first = start // page * page
        c.madvise(first, -(-(start + size) // page) * page - first, mmap.MADV_HUGEPAGE)
    for start in reversed(taken):
        c.free(start)


def _large_pages_on_demand() -> bool:
    """Whether the system gives large pages on request, and the user has not switched them off.

    False where addresses are limited (ulimit -v), as the request fixes addresses in advance.
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
