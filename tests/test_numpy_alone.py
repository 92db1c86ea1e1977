"""With NumPy alone installed, ops work, and the gradcheck harness says what it leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = "cupy scipy ml_dtypes opt_einsum safetensors threadpoolctl rich mpmath torch".split()
WITHOUT_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"


def run(source):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + source],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_a_layer_runs_forward_and_backward():
    done = run(
        "import minigrad as mg\n"
        "layer = mg.nn.Linear(3, 2)\n"
        "mg.relu(layer(mg.ones(4, 3, dtype='float32'))).sum().backward()\n"
        "print(layer.weight.grad.shape)"
    )
    assert done.stdout == "(2, 3)\n", done.stderr


@pytest.mark.layer("courtesy")
def test_bfloat16_is_absent_rather_than_none_which_would_mean_the_default_dtype():
    done = run(
        "import minigrad as mg\n"
        "print(hasattr(mg, 'bfloat16'), mg.zeros(1, dtype='float16').dtype)\n"
        "mg.zeros(3, dtype=mg.bfloat16)"
    )
    assert done.stdout == "False float16\n"
    assert "here it is a dtype of the package ml_dtypes: pip install" in done.stderr


def test_the_harness_passes_and_counts_what_it_skips():
    done = run(
        "from minigrad.testing.cli import main\n"
        "sys.exit(main(['--ops', 'relu,matmul,tanh', '-j', '1']))"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bfloat16: ml_dtypes is not installed" in done.stdout
    assert "3 ops" in done.stdout and "all passed" in done.stdout
