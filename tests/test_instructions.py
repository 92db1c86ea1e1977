"""The hot path in machine instructions: no clock, so a busy machine changes nothing."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import instructions

pytestmark = pytest.mark.promise(
    "the hot path does not grow (callgrind; skips without valgrind or recorded counts)"
)

TOLERATED = 1.05  # times the recorded number
TRIES = 3  # addresses alone change a count by up to 4 %; code that has grown has in every run


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counting needs valgrind")
@pytest.mark.layer("fast")
def test_no_step_takes_more_instructions_than_were_recorded():
    before = instructions.recorded()
    if before is None:
        pytest.skip(f"no counts are recorded for {instructions.key()}")
    grown = dict(before)
    for _ in range(TRIES):
        now = instructions.count()
        grown = {name: now[name] for name in grown if now[name] > before[name] * TOLERATED}
        if not grown:
            break
    assert not grown, (
        f"now {grown}, recorded {before}. The hot path has grown; if that is wanted, "
        "record it anew: python benchmarks/instructions.py --record"
    )
