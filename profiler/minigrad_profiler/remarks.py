"""Messages of the commands on standard error, a line each."""

import sys

from minigrad.instrument.table import printable


def remark(message: str) -> None:
    """One line, with the command's name in front."""
    print(f"minigrad-profile: {printable(message)}", file=sys.stderr)


def wrote(path: str) -> None:
    """Say which file was written."""
    remark(f"wrote {path}")


def cut_off(cut: str | None) -> None:
    """Report that a log was cut off, if it was."""
    if cut:
        remark(f"{cut}; the output covers the part before")
