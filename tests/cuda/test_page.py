"""docs/gpu.md: its programs run, on a GPU where there is one and else on the CPU or a stand-in."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"


PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_the_first_program_runs_with_and_without_a_gpu():
    done = subprocess.run([sys.executable, "-c", PROGRAMS[0]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loss, copies = done.stdout.split(" ", 1)
    assert 0 < float(loss) < 2.2 and copies.startswith("Transfers(")


def test_the_program_over_two_gpus_leaves_each_gradient_where_its_parameter_is(two, capsys):
    exec(PROGRAMS[1], {})
    assert capsys.readouterr().out == "cuda:0 cuda:1\n"
