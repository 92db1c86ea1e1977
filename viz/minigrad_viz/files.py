"""Opening a file that may be a named pipe; writing a result whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import threading
import time
from typing import Any, BinaryIO

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None

_YOUNG = 1.0  # seconds in which an empty file may be about to be locked
PATIENCE = 5.0  # seconds; `opened` is as in minigrad/instrument/reading.py, which is not imported


def opened(path: str) -> BinaryIO:
    """The file, opened for reading bytes; OSError where that cannot be.

    Of a named pipe, `open` waits for a writer. If none comes within PATIENCE that is an OSError
    too: a command should not wait for ever for a file that was named by mistake.
    """
    if not _is_pipe(path):
        return open(path, "rb")
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


def _is_pipe(path: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def write_whole(path: str, data: bytes) -> None:
    """Puts `data` at `path` ("-" is standard output). On failure what was there stays as it was."""
    try:
        if path == "-":
            if sys.stdout is None:  # as Python has it after `command >&-`
                raise ViewerError("standard output: cannot be written (it is closed)")
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:  # a StringIO, or what a notebook has there: it takes text alone
                sys.stdout.write(data.decode("utf-8"))
            else:
                stream.write(data)
            sys.stdout.flush()
        elif _is_stream(path):
            with open(path, "wb") as stream:
                stream.write(data)
        else:
            _replace(os.path.realpath(path), data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        name = "standard output" if path == "-" else shown(path, 200, "tail")
        raise ViewerError(f"{name}: cannot be written ({reason})") from None


def not_over(out: str | None, *sources: str) -> None:
    """ViewerError where a result would replace its own dump, under any name."""
    for source in sources if out else ():
        if out != "-" and os.path.realpath(out or "") == os.path.realpath(source):
            name = shown(out or "", 120, "tail")
            raise ViewerError(f"{name}: would replace the dump itself; name another file with -o")


def _is_stream(path: str) -> bool:
    """Whether `path` is a device or a pipe, which is written into and never replaced."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "it is a folder")
    return not stat.S_ISREG(mode)


def _replace(path: str, data: bytes) -> None:
    folder, name = os.path.split(path)
    # the name is known before the file is there: an interrupt at any moment leaves none behind
    stem = f".{name[:40]}."
    _remove_abandoned(folder or ".", stem)
    beside = os.path.join(folder, f"{stem}{os.urandom(6).hex()}.part")
    try:
        handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            _lock(handle)
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode_for(path))
            if fcntl is not None:  # named while it is locked: no process takes it for abandoned
                os.replace(beside, path)
        if fcntl is None:
            os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _remove_abandoned(folder: str, stem: str) -> None:
    """Remove what killed writers of this name left: no one that writes has it locked."""
    if fcntl is None:
        return
    pattern = re.compile(rf"{re.escape(stem)}[0-9a-f]{{12}}\.part")
    with contextlib.suppress(OSError):  # the folder may not be listed
        for name in filter(pattern.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # another process writes it, or it is gone
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(handle, "rb") as file:
                    found = os.fstat(handle)
                    young = not found.st_size and time.time() - found.st_mtime < _YOUNG
                    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not young:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(path)


def _lock(handle: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _mode_for(path: str) -> int:
    """The permissions of the file that is replaced, or those a new file gets."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(os.stat(path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
