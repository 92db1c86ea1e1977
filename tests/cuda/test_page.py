"""docs/gpu.md: its program runs, on a GPU where there is one and on the CPU elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


def test_the_program_of_the_page_runs_with_and_without_a_gpu():
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loss, copies = done.stdout.split(" ", 1)
    assert 0 < float(loss) < 2.2 and copies.startswith("Transfers(")
