"""Files with a temporary name, locked while a program writes them.

The lock distinguishes a growing file from one that a killed program left: the next program that
writes to the same target removes the latter. Without locks (Windows, some network drives) such
files stay.
"""

import contextlib
import os
import re
import stat
import time
from typing import Any

try:
    import fcntl
except ImportError:
    fcntl: Any = None

_YOUNG = 1.0  # seconds in which the creator of an empty file may still lock it


def name_for(target: str, head: str = "", tail: str = "") -> str:
    """A new name in the target's folder, "<head>name.<12 hex digits><tail>", short for any file
    system.

    It removes files of such names that this user's killed programs have left.
    """
    folder, name = os.path.split(target)
    stem = f"{head}{name[:40]}."
    if fcntl is not None:
        pattern = re.compile(f"{re.escape(stem)}[0-9a-f]{{12}}{re.escape(tail)}")
        with contextlib.suppress(OSError):  # the folder may not be listed
            for other in filter(pattern.fullmatch, os.listdir(folder or ".")):
                with contextlib.suppress(OSError):  # another program writes it, or it is gone
                    _remove_if_abandoned(os.path.join(folder, other))
    return os.path.join(folder, f"{stem}{os.urandom(6).hex()}{tail}")


def create(path: str, mode: int = 0o666) -> int:
    """The handle of a new file, locked until it is closed; OSError if the name is taken."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
    lock(handle)
    return handle


def lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another program has locked it."""
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
    return True


def remove_empty(path: str) -> None:
    """Remove an empty file without a lock. A program that opens it at this time checks its name."""
    with contextlib.suppress(OSError):
        if fcntl is not None and os.lstat(path).st_size == 0:
            _remove_if_abandoned(path, young=0.0)


def _remove_if_abandoned(path: str, young: float = _YOUNG) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return
        if found.st_size == 0 and time.time() - found.st_mtime < young:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(found, os.lstat(path)):
            os.unlink(path)
    finally:
        os.close(handle)
