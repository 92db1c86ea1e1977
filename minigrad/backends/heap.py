"""What the C library does with the memory of a large array that is freed.

By itself glibc gives it back to the system, and the next array of that size costs a fault for each
of its pages: of a step of gelu(x)·tanh(x) on 2,000×2,000 that was 19 ms of 53. Here it is told to
keep up to KEPT bytes at the top of its heap for the next arrays, those of up to LARGEST bytes each.
The most that a process ever holds does not change, only when it gives memory back.

Settings of the process (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ and GLIBC_TUNABLES) come
first: where one of them is set nothing is changed. Other C libraries are left alone.
"""

import ctypes
import os

KEPT = 256 << 20
LARGEST = 32 << 20  # glibc takes no more: larger arrays come from the system, each by itself

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)


def keep_freed_arrays() -> None:
    """Let freed arrays of up to LARGEST bytes, KEPT in all, serve the next ones."""
    if _is_glibc() and not _set_by_the_user():
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_MMAP_THRESHOLD, LARGEST)  # setting one keeps glibc from adapting the other


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False  # Windows has no confstr, macOS and musl no such name


def _set_by_the_user() -> bool:
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return any(name in os.environ for name in names) or "glibc.malloc." in tunables
