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
    for array in [np.empty(25_000_000, np.uint8) for _ in range(2)]:
        array.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do not learn it")
def test_arrays_made_after_others_of_their_size_were_freed_cost_no_page_faults():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=120,
        env=kept | {"NUMPY_MADVISE_HUGEPAGE": "0"},
    )  # fmt: skip
    first, second = map(int, done.stdout.split())
    assert first > 10_000 > 100 * second, done.stdout + done.stderr
