"""Types and checks of the commands' arguments."""

import argparse
import os
import stat
from collections.abc import Callable
from typing import Any

from minigrad.instrument.schedule import Schedule, schedule_from
from minigrad.instrument.terminal import count


def columns_wide(text: str) -> int:
    """A width that a table can have."""
    return max(20, count(text))


def microseconds(text: str) -> float:
    """A time that a clock can measure."""
    value = _number(text, float)
    if not 0 <= value < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of microseconds")
    return value


def schedule(text: str) -> Schedule:
    """1,1,3: which steps to record."""
    try:
        return schedule_from(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def percent(text: str) -> float:
    """10% or 10 as 0.1."""
    value = _number(text.removesuffix("%"), float) / 100
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage such as 10%")
    return value


def _number(text: str, kind: Callable[[str], float]) -> Any:
    """The number; −1, which all of these arguments exclude, if the text is no number."""
    try:
        return kind(text)
    except ValueError:
        return -1


def a_script(path: str) -> None:
    """ValueError for a path that is no program to run: no file, or the log of a run."""
    if not os.path.isfile(path):
        raise ValueError(f"{path}: there is no such file to run")
    if path.endswith(".jsonl"):
        raise ValueError(f"{path}: is no Python program; minigrad-profile view {path} shows a log")


def not_over(out: str | None, *sources: str) -> None:
    """ValueError where a result would replace its source or another result, under any name."""
    for source in sources if out else ():
        if os.path.realpath(out or "") == os.path.realpath(source):
            raise ValueError(f"{out}: would replace {source} itself; name another file")


def in_a_folder(out: str | None) -> None:
    """ValueError where the folder of a result does not exist: checked before a long run."""
    if out and not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise ValueError(f"{out}: there is no such folder to write it into")


def read_again(log: str, why: str) -> None:
    """ValueError where a command reads a log more than once and the log comes through a pipe."""
    if os.path.exists(log) and stat.S_ISFIFO(os.stat(log).st_mode):
        raise ValueError(f"{log}: a pipe can be read only once, and {why}; keep the log in a file")
