"""While mg.accelerate is on freed arrays serve the next ones, in large pages; off it is undone."""

import os
import platform
import subprocess
import sys

import pytest

from minigrad.backends.heap import KEPT, _large_pages_on_demand

MEASURE = """
import resource
import numpy as np
import minigrad as mg

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for array in [np.empty(25_000_000, np.uint8) for _ in range(8)]:
        array.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
mg.accelerate(compiled=False)
on = faults(), faults()
mg.accelerate(False)
print(before, *on, faults(), faults())
"""


pytestmark = [
    pytest.mark.promise(
        "with mg.accelerate freed arrays serve the next ones without page faults, in large pages;"
        " off, that is undone"
    ),
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone"
    ),
]


def faults(**settings: str) -> list[int]:
    """Page faults of making and filling the arrays: before it is switched on, twice while it is on,
    and twice after it was switched off.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=120,
        env=kept | {"NUMPY_MADVISE_HUGEPAGE": "0"} | settings,
    )  # fmt: skip
    return [int(n) for n in done.stdout.split()]


def test_arrays_made_after_others_of_their_size_were_freed_cost_no_page_faults():
    before, first, second, *_ = faults()
    assert min(before, first) > 40_000 > 400 * second


def test_switched_off_freed_arrays_go_back_to_the_system_again():
    before, _, _, first, second = faults()
    assert min(first, second) > 0.9 * before


@pytest.mark.parametrize(
    "setting",
    [
        {"MALLOC_TRIM_THRESHOLD_": "1000000"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1000000"},
    ],
    ids=["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"],
)
def test_what_the_user_told_the_c_library_holds(setting):
    before, first, second, *_ = faults(**setting)
    assert min(first, second) > 0.9 * before


HEAP = """
import os, resource, sys
from minigrad.backends.heap import give_back, keep_freed_arrays

def marked():
    total, heap = 0, False
    for line in open("/proc/self/smaps"):
        name, *words = line.split()
        if "-" in name:
            heap = line.rstrip().endswith("[heap]")
        if name == "Size:":
            size = int(words[0]) * 1024
        if heap and name == "VmFlags:" and "hg" in words:
            total += size
    return total

assert marked() == 0
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
keep_freed_arrays()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
on = marked()
give_back()
print(on, used * 1024, marked())
"""


def heap(**settings: str) -> list[int]:
    """Bytes of the heap for which large pages are asked, what that has used of memory, and for how
    many they are still asked when it is undone.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    kept.pop("NUMPY_MADVISE_HUGEPAGE", None)
    done = subprocess.run(
        [sys.executable, "-c", "import numpy\n" + HEAP], capture_output=True, text=True,
        timeout=120, env=kept | settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(n) for n in done.stdout.split()]


@pytest.mark.skipif(
    not _large_pages_on_demand(), reason="this system gives no large pages on demand"
)
def test_the_heap_that_is_kept_lies_in_large_pages_and_uses_no_memory_before_it_is_touched():
    marked, used, left = heap()
    assert 0.9 * KEPT < marked < 1.1 * KEPT
    assert used < KEPT / 32 and left < KEPT / 32


@pytest.mark.parametrize(
    "setting",
    [{"NUMPY_MADVISE_HUGEPAGE": "0"}, {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}],
    ids=["NUMPY_MADVISE_HUGEPAGE", "GLIBC_TUNABLES"],
)
def test_a_user_who_wants_no_large_pages_gets_none(setting):
    marked, *_ = heap(**setting)
    assert marked == 0


def test_where_addresses_are_limited_none_are_fixed_beforehand():
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + "import numpy\n" + HEAP], capture_output=True, text=True,
        timeout=120, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout.startswith("0 "), done.stderr


def test_where_the_heap_may_not_grow_it_can_be_switched_on_all_the_same():
    limited = (  # some MB more than NumPy has taken already: without the GIL it takes more
        "import resource, numpy\n"
        "taken = next(s.split()[1] for s in open('/proc/self/status') if s[:6] == 'VmData')\n"
        "resource.setrlimit(resource.RLIMIT_DATA, 2 * ((int(taken) << 10) + (100 << 20),))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited + "import minigrad as mg; mg.accelerate(compiled=False)\n"
         "print(mg.tensor([1.0]).item())"],
        capture_output=True, text=True, timeout=120, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "1.0", done.stderr


THRESHOLDS = """
import numpy as np
from minigrad.backends.heap import _thresholds
block = np.empty({size}, np.uint8)
del block
print(*_thresholds())
"""


@pytest.mark.parametrize("size", [1 << 20, 5_000_000, 30 << 20])
def test_the_thresholds_that_are_put_back_are_those_to_which_glibc_had_adapted(size):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", THRESHOLDS.format(size=size)], capture_output=True, text=True,
        timeout=120, env=kept,
    )  # fmt: skip
    by_itself, top = [int(n) for n in done.stdout.split()]
    chunk = (size + 16) // 4096 * 4096 + 4096  # with its header, in whole pages
    assert (by_itself, top) == (chunk, 2 * chunk)
