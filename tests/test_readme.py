"""What the README shows is what happens: its sessions, its op, its figures, its test command."""

import doctest
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from minigrad import layers
from minigrad.instrument import formats
from minigrad.testing.checks import CHECKS

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


def test_the_figures_are_those_of_the_source():
    assert len(layers.READING) == 11 and "eleven files" in README
    assert layers.BUDGETS["engine"] == 1500 and "under 1,500 lines of code" in README
    assert f"[{len(CHECKS)} checks]" in README
    assert len(list((ROOT / "tutorials").glob("[0-9]*.py"))) == 17 and "Seventeen" in README


def test_the_table_of_extras_names_each_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"(?m)^\| (`[a-z`, ]+`) \|", README.partition("| extra |")[2])
    named = set(re.findall(r"`(\w+)`", "".join(rows)))
    assert named == set(project["optional-dependencies"])


def test_the_changelog_names_the_versions_of_formats():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for name in (formats.GRAPH, formats.EVENTS):
        assert "`{}` {}.{}".format(name, *formats._VERSIONS[name]) in changes
