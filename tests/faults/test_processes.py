"""Kills, Ctrl-C, full disks, memory that ends and forks, in processes of their own with time-outs.

Whatever writes a file leaves the old one or the new one, whole; whatever computes gradients leaves
them whole or untouched, and the same run gives the right bits afterwards.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOP = HERE.parent.parent
pytestmark = [
    pytest.mark.promise(
        "kill -9 or Ctrl-C, at any moment of a write of any kind, leaves the old file or the "
        "new one, whole. The next write removes the rest of a killed one",
        "a disk that is full after any number of bytes: one error, the old file, nothing left over",
        "memory that ends in a forward, backward, save or load: MemoryError, files and gradients "
        "whole or untouched, the next run's bits right",
        "a fork at any call of the user's code: parent and child have the right bits, or the "
        "child an error that says why",
    ),
    pytest.mark.skipif(
        not os.path.exists("/proc/self/statm"), reason="signals, limits and forks of Linux"
    ),
]
FILES = ["npz", "safetensors", "checkpoint", "log", "graph", "drawing", "report", "trace"]


def run(program, *arguments):
    """What a program says that must end by itself, in time, without an error."""
    paths = [str(TOP), str(TOP / "viz"), str(TOP / "profiler")]
    done = subprocess.run(
        [sys.executable, str(HERE / "programs" / program), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("sent", ["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("file", FILES)
def test_a_file_is_old_or_new_whenever_its_writer_is_killed_and_the_next_write_tidies_up(
    tmp_path, file, sent
):
    assert "6 kills" in run("kills.py", file, sent, 6, tmp_path)


@pytest.mark.parametrize("file", [file for file in FILES if file != "log"])
def test_a_disk_that_is_full_after_any_number_of_bytes_is_one_error_and_the_old_file_stays(
    tmp_path, file
):
    run("disks.py", file, 8, tmp_path)


@pytest.mark.parametrize("job", ["serial", "parallel", "tape", "npz"])
def test_where_memory_ends_what_was_there_is_whole_and_the_next_run_has_the_right_bits(
    tmp_path, job
):
    assert "ended in MemoryError" in run("memory.py", job, tmp_path)


@pytest.mark.parametrize("engine", ["serial", "parallel", "tape"])
def test_a_fork_at_any_call_of_the_users_code_hurts_neither_parent_nor_child(engine):
    assert "forks" in run("forks.py", engine)
