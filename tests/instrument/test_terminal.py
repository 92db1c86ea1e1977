"""The three commands, where standard output is closed, full, left by its reader, or plain ASCII."""

import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument import dump_graph, event_log

pytestmark = pytest.mark.promise(
    "where standard output is closed, full or plain ASCII, a command says so in one line"
)

if os.name != "posix":
    pytest.skip("the shell's redirections", allow_module_level=True)

ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    x = mg.tensor(np.ones((2, 2)), requires_grad=True)
    with event_log(folder / "log.jsonl"):
        with mg.scope("größe"):
            y = (x * x).sum()
        y.backward(retain_graph=True)
    dump_graph(y, folder / "graph.json")
    return folder


COMMANDS = {
    "view": "minigrad_profiler view log.jsonl --by scope",
    "advice": "minigrad_profiler advice log.jsonl",
    "view --json": "minigrad_profiler view log.jsonl --json",
    "info": "minigrad_viz info graph.json",
    "render": "minigrad_viz graph.json -o - --format svg",
    "gradcheck --list": "minigrad.testing.cli --list",
}
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


def shell(folder, command, rest, **env):
    line = f"{shlex.quote(sys.executable)} -m {command} {rest}"
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120,
        encoding="utf-8", env={**os.environ, **env},
    )  # fmt: skip


@every_command
@pytest.mark.parametrize("rest", [">&-", ">/dev/full"])
def test_output_that_cannot_be_written_is_one_line_and_exit_2(files, command, rest):
    if rest == ">/dev/full" and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = shell(files, command, rest)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert ("No space left" if "full" in rest else "closed") in done.stderr


@every_command
def test_a_reader_that_leaves_ends_a_command_in_silence(files, command):
    done = shell(files, command, "| true; exit ${PIPESTATUS[0]}")
    assert done.stderr == "" and done.returncode in (0, 1)


@every_command
def test_what_the_encoding_does_not_have_is_no_error(files, command):
    done = shell(files, command, "", **ASCII)
    assert done.returncode == 0 and done.stderr == ""


def test_units_and_charts_are_as_wide_in_plain_ascii(files):
    with event_log(files / "memory.jsonl", memory=True):
        mg.tanh(mg.ones((8, 8)))
    command = "minigrad_profiler memory memory.jsonl"
    plain, full = (shell(files, command, "", **env).stdout for env in (ASCII, {"PYTHONUTF8": "1"}))
    assert plain.isascii() and "\\" not in plain
    assert list(map(len, plain.splitlines())) == list(map(len, full.splitlines()))


def test_what_is_said_beside_a_result_is_not_put_into_it_where_standard_error_is_closed(files):
    render = "minigrad_viz graph.json -o - --format svg --max-nodes 2"
    assert "drawn as" in shell(files, render, ">/dev/null").stderr
    assert shell(files, render, "2>&-").stdout.endswith("</svg>\n")
    log = (files / "log.jsonl").read_bytes()
    (files / "cut.jsonl").write_bytes(log[: len(log) // 2])
    view = "minigrad_profiler view --json cut.jsonl"
    assert "cut off" in shell(files, view, ">/dev/null").stderr
    assert json.loads(shell(files, view, "2>&-").stdout)["cut"]


def test_standard_input_that_is_closed_is_one_line_and_exit_2(files):
    done = shell(files, "minigrad_viz info -", "<&-")
    assert done.returncode == 2 and done.stderr.splitlines() == [
        "minigrad-viz: standard input: cannot be read (it is closed)"
    ]
