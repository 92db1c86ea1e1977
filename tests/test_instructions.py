"""The hot path in machine instructions: no clock, so a busy machine changes nothing."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import instructions

TOLERATED = 1.05  # times the recorded number: memory addresses alone change counts by 1 %


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting needs valgrind")
def test_no_step_takes_more_instructions_than_were_recorded():
    before = instructions.recorded()
    if before is None:
        pytest.skip(f"no counts are recorded for {instructions.key()}")
    now = instructions.count()
    grown = {name: (n, now[name]) for name, n in before.items() if now[name] > n * TOLERATED}
    assert not grown, (
        f"(recorded, now): {grown}. The hot path has grown; if that is wanted, record it anew: "
        "python benchmarks/instructions.py --record"
    )
