"""Several runs of two programs in turns, each into a log of its own."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from .arguments import a_script


@contextlib.contextmanager
def logs_of_runs(before: str, after: str, runs: int) -> Iterator[tuple[list[str], list[str]]]:
    """The logs of both sides, which are gone afterwards; ValueError where a run fails.

    In turns, so that a machine that becomes slower meanwhile does so for both.
    """
    a_script(before)
    a_script(after)
    with tempfile.TemporaryDirectory() as folder:
        logs: tuple[list[str], list[str]] = ([], [])
        for number in range(runs):
            sides = ((0, before), (1, after))
            for side, script in sides if number % 2 == 0 else sides[::-1]:
                logs[side].append(_run(script, os.path.join(folder, f"{side}-{number}.jsonl")))
        yield logs


def _run(script: str, log: str) -> str:
    command = [sys.executable, "-m", "minigrad_profiler", "run", "--quiet", "-o", log, script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ValueError(f"{script}: ended with exit code {done.returncode}: {['', *said][-1]}")
    return log
