"""docs/distributed.md: the program and the pieces that go on from it run in a world of one."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


def test_the_examples_of_the_page_run_in_a_world_of_one(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 4
    program = tmp_path / "train.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    for _ in range(2):  # the second finds the checkpoint of the first
        done = subprocess.run(
            [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "rank 0 of 1: loss" in done.stdout and "1024  tree" in done.stdout
    assert (tmp_path / "ranks.svg").exists() and (tmp_path / "run.rank-0.jsonl").exists()
