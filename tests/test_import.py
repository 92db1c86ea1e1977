"""What `import minigrad` brings with it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.promise("`import minigrad` leaves heavy packages for their first use")

HEAVY = "scipy numba rich threadpoolctl cupy asyncio opt_einsum importlib.metadata multiprocessing"


def test_import_minigrad_leaves_heavy_packages_for_their_first_use():
    code = f"""
import sys, numpy
before = set(sys.modules)
import minigrad
print([name for name in {HEAVY.split()} if name in sys.modules and name not in before])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
