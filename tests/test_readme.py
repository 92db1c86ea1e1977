"""What the README shows is what happens: its sessions, its op, its test command."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

from minigrad import layers

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMAND = "python -m pytest -n 2 --dist worksteal"


def test_every_session_gives_what_it_shows():
    parser, runner, names = doctest.DocTestParser(), doctest.DocTestRunner(), {}
    sessions = [block for block in BLOCKS if ">>>" in block]
    for session in sessions:
        test = parser.get_doctest(session, names, "a session", "README.md", 0)
        assert test.examples
        runner.run(test, clear_globs=False)
        names = test.globs
    assert len(sessions) == 2 and runner.failures == 0


def test_the_op_of_your_own_has_under_ten_lines_and_passes_every_check(tmp_path):
    [source] = [block for block in BLOCKS if "register_op" in block]
    assert len([line for line in source.splitlines() if line.strip()]) < 10
    (tmp_path / "cube.py").write_text(source, encoding="utf-8")
    paths = [str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")]
    done = subprocess.run(
        [sys.executable, "-m", "minigrad.testing.cli", "--import", "cube", "--ops", "cube"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all passed" in done.stdout


def test_the_test_command_is_the_one_that_make_and_ci_run():
    assert f"\n{COMMAND}\n" in README
    assert f"\n{COMMAND}\n" in (ROOT / ".ci" / "run").read_text()
    assert f"\n\t$(PY) {COMMAND.removeprefix('python ')}\n" in (ROOT / "Makefile").read_text()


def test_the_reading_order_is_the_engine_s():
    [order] = re.findall(r"in this order: (.*?)\.\n", README)
    assert re.findall(r"`(\w+)`", order) == list(layers.READING)
