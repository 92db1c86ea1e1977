"""Helpers of commands: standard output and error in any state (closed, a pipe cut off, too plain),
and checks of arguments."""

import argparse
import codecs
import errno
import io
import os
import shutil
import sys
import textwrap

# One character for one keeps the columns: units, dots and lines, bars of charts.
_PLAIN = str.maketrans("µ…·×–−─│✓✗▁▂▃▄▅▆▇█", "u.*x---|+!12345678")


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replacements for the characters that a plain encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error("minigrad.plain", _plainly)


def require_stdout() -> None:
    """Let standard output take any text; OSError where it is closed.

    A character that its encoding lacks is written as a similar one, or as an escape.
    """
    if sys.stdout is None:  # as Python has it after `command >&-`
        raise OSError(errno.EBADF, "it is closed", "standard output")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="minigrad.plain")


def require_stderr() -> None:
    """Where standard error is closed, let it be nowhere; print would take standard output."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")


def reader_left() -> int:
    """After a BrokenPipeError: keep the interpreter from saying so at exit. Returns exit code 1."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def count(text: str) -> int:
    """The value of a command's argument: an integer from 0 on."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} should be an integer, 0 or more")
    return int(text)


def columns() -> int:
    """How wide the terminal is, or COLUMNS says; 80 where standard output is none."""
    return shutil.get_terminal_size().columns if _has_a_width() else 80


def _has_a_width() -> bool:
    there = sys.stdout is not None and sys.stdout.isatty()
    return there or bool(os.environ.get("COLUMNS"))


_CODE = " " * 4  # lines that begin so are to be copied as they are


def folded(text: str) -> str:
    """The text with its long lines broken between words to fit the terminal, the rest of each
    indented. In a pipe or a file every line stays whole, as grep needs it; so does a line of code.
    """
    if not _has_a_width():
        return text
    width = max(columns(), 2 * len(_CODE))
    lines = []
    for line in text.split("\n"):
        if len(line) <= width or line.startswith(_CODE):
            lines.append(line)
            continue
        margin = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line, width, subsequent_indent=margin + _CODE,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)
