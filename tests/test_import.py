"""What `import minigrad` brings with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

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


# What an editable install of setuptools leaves in an environment: a finder behind Python's own.
EDITABLE = f"""
from importlib.util import spec_from_file_location
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "minigrad":
            return spec_from_file_location(name, {str(ROOT / "minigrad" / "__init__.py")!r})
sys.meta_path.append(Finder)
"""


@pytest.mark.parametrize("install", ["", EDITABLE], ids=["not installed", "editable install"])
def test_in_the_folder_above_a_checkout_import_finds_the_package(tmp_path, install):
    (tmp_path / "minigrad").symlink_to(ROOT, target_is_directory=True)
    code = f"""
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
{install}
import minigrad as mg, minigrad.testing
print(mg.optim.__name__, sys.modules["minigrad"] is mg, mg.tensor([1.0, 2.0]).sum().item())
print(mg.__file__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "minigrad.optim True 3.0", str(ROOT / "minigrad" / "__init__.py")
    ], done.stdout + done.stderr  # fmt: skip
