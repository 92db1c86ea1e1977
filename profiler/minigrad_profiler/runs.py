"""Several runs of two programs in turns, each with a separate log."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from .arguments import a_script

MOST = 3  # times as many runs as requested, if fewer do not suffice


@contextlib.contextmanager
def logs_of_runs(
    before: str, after: str, runs: int
) -> Iterator[Iterator[tuple[list[str], list[str]]]]:
    """Logs of both sides after `runs` runs, twice as many …; ValueError if a run fails.

    The sides run in turns: a machine that slows down then slows both. The logs are deleted at the
    end of the block.
    """
    a_script(before)
    a_script(after)
    with tempfile.TemporaryDirectory() as folder:
        yield _in_turns(before, after, runs, folder)


def _in_turns(
    before: str, after: str, runs: int, folder: str
) -> Iterator[tuple[list[str], list[str]]]:
    logs: tuple[list[str], list[str]] = ([], [])
    for number in range(MOST * runs):
        sides = ((0, before), (1, after))
        for side, script in sides if number % 2 == 0 else sides[::-1]:
            logs[side].append(_run(script, os.path.join(folder, f"{side}-{number}.jsonl")))
        if (number + 1) % runs == 0:
            yield logs


def _run(script: str, log: str) -> str:
    command = [sys.executable, "-m", "minigrad_profiler", "run", "--quiet", "-o", log, script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ValueError(f"{script}: ended with exit code {done.returncode}: {['', *said][-1]}")
    return log
