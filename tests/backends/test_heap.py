"""Freed arrays serve the next ones."""

import os
import platform
import subprocess
import sys

import pytest

MEASURE = """
import resource
import numpy as np
import minigrad

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for array in [np.empty(25_000_000, np.uint8) for _ in range(8)]:
        array.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), faults())
"""


pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone"
)


def faults(**settings: str) -> list[int]:
    """Page faults of making and filling the arrays a first and a second time."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=120,
        env=kept | {"NUMPY_MADVISE_HUGEPAGE": "0"} | settings,
    )  # fmt: skip
    return [int(n) for n in done.stdout.split()]


def test_arrays_made_after_others_of_their_size_were_freed_cost_no_page_faults():
    first, second = faults()
    assert first > 40_000 > 400 * second


@pytest.mark.parametrize(
    "setting",
    [
        {"MALLOC_TRIM_THRESHOLD_": "1000000"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1000000"},
    ],
    ids=["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"],
)
def test_what_the_user_told_the_c_library_holds(setting):
    first, second = faults(**setting)
    assert second > 0.9 * first
