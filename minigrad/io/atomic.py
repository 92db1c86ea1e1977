"""Files that appear whole or not at all."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ..backends import unfinished
from ..backends.leaving import contextmanager


def target_of(path: str | os.PathLike) -> Path:
    """The file that a save would replace; OSError where there can be none."""
    target = Path(os.path.realpath(path))  # of a link the target is replaced
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(target.parent))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise OSError(errno.EINVAL, "only a regular file can be replaced", str(path))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no file can be made in", str(target.parent))
    return target


@contextmanager
def replaced_whole(path: str | os.PathLike) -> Iterator[str]:
    """The name of a file to write, which takes `path`'s place when the block ends without error.

    It lies in the same directory and is forced to the disk before it is renamed. So a reader of
    `path` finds the old file or the new one, also after a crash. After an error, Ctrl-C included,
    the old file is as it was and nothing is left behind; the next save removes what a kill leaves.
    """
    target = target_of(path)
    # the name is known before the file is there: an interrupt at any moment leaves none behind
    partial, handle = unfinished.name_for(str(target), head="."), None
    try:
        is_new = not target.exists()
        # of a new file the umask leaves this; to ask for the umask is to set it, for all threads
        handle = unfinished.create(partial, 0o666 if is_new else 0o600)
        if os.name == "nt":  # where a file that is open cannot be renamed
            os.close(handle)
            handle = None
        mode = stat.S_IMODE(os.stat(partial if is_new else target).st_mode)
        os.chmod(partial, 0o600)
        yield partial
        _to_disk(partial)
        os.chmod(partial, mode)
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(error, OSError) and error.filename in (None, partial):
            error.filename = os.fspath(path)  # name the file that the user asked for
        raise
    finally:
        if handle is not None:
            os.close(handle)
    with contextlib.suppress(OSError):  # not every file system lets a directory be synced
        _to_disk(target.parent)


def _to_disk(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
