"""Opening a file that is to be read, which may be a named pipe, and the text of a program."""

import contextlib
import errno
import gzip
import os
import re
import stat
import threading
import zlib
from typing import BinaryIO, cast

from ..backends.sites import running_shell

PATIENCE = 5.0  # seconds
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)  # what reading a compressed file may raise
MOST_SOURCE = 1 << 20  # bytes of a program's file
_CELL = re.compile(r"In\[(\d+)\]")


def opened(path: str | os.PathLike) -> BinaryIO:
    """The file, opened for reading bytes, decompressed; OSError where that cannot be.

    Of a named pipe, `open` waits for a writer. If none comes within PATIENCE that is an OSError
    too: a command should not wait for ever for a file that was named by mistake.
    """
    if not _is_pipe(path):
        file = open(path, "rb")
        if file.read(2) == b"\x1f\x8b":
            file.close()
            return cast(BinaryIO, gzip.open(path))
        file.seek(0)
        return file
    in_vain = threading.Event()

    def stop_waiting() -> None:
        in_vain.set()
        with contextlib.suppress(OSError):  # no one waits any more
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))

    timer = threading.Timer(PATIENCE, stop_waiting)
    timer.daemon = True
    timer.start()
    try:
        file = open(path, "rb")
    finally:
        timer.cancel()
    if in_vain.is_set():
        file.close()
        raise OSError(errno.ETIMEDOUT, "it is a pipe without a writer")
    return file


def source_of(file: str) -> bytes | None:
    """The content of a Python file; None where it is none, is too large or cannot be read.

    In[3] is the third cell of the notebook, or of the IPython, that this program runs in.
    """
    if cell := _CELL.fullmatch(file):
        return _cell(int(cell[1]))
    if not file.endswith(".py"):
        return None
    try:
        # a pipe of that name would keep an open that waits waiting for ever
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_SOURCE:
                return None
            return source.read(MOST_SOURCE)
    except (OSError, ValueError):
        return None


def is_cell(file: str) -> bool:
    """Whether this names a notebook's cell, whose text no other program can read."""
    return _CELL.fullmatch(file) is not None


def _cell(number: int) -> bytes | None:
    history = getattr(running_shell(), "history_manager", None)
    cells = getattr(history, "input_hist_parsed", ())  # as they are run: %magic is Python there
    text = cells[number] if 0 < number < len(cells) else None
    content = text.encode() if isinstance(text, str) else b""
    return content if 0 < len(content) <= MOST_SOURCE else None


def _is_pipe(path: str | os.PathLike) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False
