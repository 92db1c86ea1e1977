"""docs/ops.md is what the registry says now, and every op explains itself in it."""

import subprocess
import sys
from pathlib import Path

import minigrad.testing.samples  # registers the specs  # noqa: F401
from minigrad.core.primitive import Primitive
from minigrad.core.registry import op
from minigrad.testing.spec import specs

ROOT = Path(__file__).parents[1]


def test_the_page_of_ops_is_up_to_date():
    program = "import runpy; print(runpy.run_path('docs/make_ops.py')['page'](), end='')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert done.stdout == written, "run: python docs/make_ops.py"


def test_every_op_has_a_formula():
    assert specs
    assert not [name for name in specs if not (getattr(op, name).__doc__ or "").strip()]


def test_every_primitive_is_reached_by_one_name():
    for entry in op:
        name = entry.name if isinstance(entry, Primitive) else entry.__name__
        assert getattr(op, name) is entry
