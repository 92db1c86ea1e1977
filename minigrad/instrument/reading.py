"""Opening a file that is to be read, which may be a named pipe."""

import contextlib
import errno
import os
import stat
import threading
from typing import BinaryIO

PATIENCE = 5.0  # seconds


def opened(path: str | os.PathLike) -> BinaryIO:
    """The file, opened for reading bytes; OSError where that cannot be.

    Of a named pipe, `open` waits for somebody who opens it for writing. If nobody does within
    PATIENCE that is an OSError too: a command should not wait for ever for a file that was only
    named by mistake.
    """
    if not _is_pipe(path):
        return open(path, "rb")
    in_vain = threading.Event()

    def stop_waiting() -> None:
        in_vain.set()
        with contextlib.suppress(OSError):  # nobody waits any more
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
        raise OSError(errno.ETIMEDOUT, "it is a pipe, and nobody writes into it")
    return file


def _is_pipe(path: str | os.PathLike) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False
