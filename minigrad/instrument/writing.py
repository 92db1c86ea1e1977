"""Files that take their name when they are whole: written at once, or growing while a program runs.

Of a link the target is replaced, with the permissions it had. A device or a pipe is
written into: its name is never given to a file.
"""

import contextlib
import gzip
import io
import os
import stat
from collections.abc import Iterator
from typing import IO, Any, TextIO

from ..backends import unfinished
from ..backends.leaving import contextmanager

_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_whole(path: str, text: str) -> None:
    """Write a file as a whole: no reader ever sees half of it."""
    with written_whole(path) as file:
        file.write(text)


@contextmanager
def written_whole(path: str) -> Iterator[TextIO]:
    """A file to write to, which takes its name only when the block ends without an error.

    What ends in .gz is compressed.
    """
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        try:
            with open(path, "w", encoding="utf-8") as stream:
                yield stream
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        return
    target = os.path.realpath(path)
    partial = unfinished.name_for(target, tail=".partial")
    try:
        with open(unfinished.create(partial), "wb") as raw:
            with _text(raw, path) as file:
                yield file
            raw.flush()
            if os.name != "nt":  # named while it is locked: no process takes it for abandoned
                _give_name(partial, target, mode)
        if os.name == "nt":
            _give_name(partial, target, mode)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(error, OSError) and error.filename in (None, partial):
            error.filename = str(path)  # name the file that the user asked for
        raise


class GrowingFile:
    """A text file that grows as "name.partial" and takes its name at `finish`.

    The place is settled at once: the program may change its folder later. While another process
    grows the same file, this one grows under another name: the lines never mix. The last one to
    finish gets the name. The written part stays if a write fails, or if the program is killed:
    `place` says in which file. What ends in .gz is compressed; each write can be read at once.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = self.place = os.path.realpath(path)
        self._mode = _mode(os.fspath(path))
        self._partial: str | None = None
        self._finishing = False
        zipped = self._path.endswith(".gz")
        try:
            if self._mode is not None and not stat.S_ISREG(self._mode):
                self._raw: IO[bytes] = open(path, "wb")
            else:
                self._partial, handle = _open_partial(self._path)
                self.place = self._partial
                self._raw = open(handle, "wb")
            regular = self._partial is not None
            self._zip = gzip.GzipFile(fileobj=self._raw, mode="wb") if regular and zipped else None
            self._file: TextIO = io.TextIOWrapper(self._zip or self._raw, "utf-8")
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        except BaseException:  # Ctrl-C
            if self._partial is None:
                unfinished.remove_empty(f"{self._path}.partial")
            else:
                self._remove()
            raise

    def write(self, text: str) -> None:
        """Add a text; nothing waits in memory, which a forked child would write once more."""
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            error.filename = error.filename or self._path
            self.close()
            raise

    def size(self) -> int:
        """Bytes written so far; 0 of a device or a pipe, −1 once the file is closed."""
        if self._file.closed:
            return -1
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def rename(self, path: str) -> None:
        """Take this name at `finish`; a device or a pipe has none."""
        if self._partial is not None:
            self._path, self._mode = os.path.realpath(path), _mode(path)

    def finish(self) -> None:
        """Give the file its name; call it again after a Ctrl-C."""
        again, self._finishing = self._finishing, True
        if os.name == "nt":  # where a file that is open cannot be renamed
            self.close()
        elif self._zip is not None:
            self._file.close()  # the end of what is compressed; the lock stays
        try:
            if self._partial is not None:  # named while the lock is held: no process takes it over
                _give_name(self._partial, self._path, self._mode)
                self.place = self._path
        except FileNotFoundError:
            if not again:
                raise
            self.place = self._path
        finally:
            self.close()

    def discard(self) -> None:
        """Let go of the file and leave nothing of it."""
        self.close()
        self._remove()

    def _remove(self) -> None:
        if self._partial is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._partial)

    def leave(self) -> None:
        """In a forked child: write nowhere from now on, since the file is the parent's."""
        if self._file.closed:
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._file.fileno(), inheritable=False)
        os.close(nowhere)
        self.close()

    def close(self) -> None:
        """Let go of the file, as it is."""
        for file in (self._file, self._raw):
            with contextlib.suppress(OSError):
                file.close()


@contextmanager
def _text(raw: Any, path: str) -> Iterator[TextIO]:
    """A text file that writes its bytes to `raw`."""
    if os.fspath(path).endswith(".gz"):
        with gzip.open(raw, "wt", encoding="utf-8") as file:
            yield file
        return
    file = io.TextIOWrapper(raw, "utf-8", write_through=True)
    yield file
    file.detach()


def _open_partial(path: str) -> tuple[str, int]:
    """The name and handle of an empty file with no other writer.

    A killed program's remains are overwritten; another's file, a link or a pipe is not.
    """
    partial = f"{path}.partial"
    try:
        handle = os.open(partial, _FLAGS, 0o666)
        try:
            if _is_ours(handle, partial):
                os.ftruncate(handle, 0)
                return partial, handle
        except BaseException:  # Ctrl-C, too
            os.close(handle)
            raise
        os.close(handle)
    except OSError:
        pass
    partial = unfinished.name_for(path, tail=".partial")
    try:
        return partial, unfinished.create(partial)
    except KeyboardInterrupt:
        unfinished.remove_empty(partial)
        raise


def _is_ours(handle: int, partial: str) -> bool:
    """Whether the open file is regular, locked by no other process, and still has this name."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        return False
    if not unfinished.lock(handle):
        return False
    return os.path.exists(partial) and os.path.samestat(found, os.lstat(partial))


def _mode(path: str) -> int | None:
    """Kind and permissions of what has this name; None where nothing has."""
    return os.stat(path).st_mode if os.path.exists(path) else None


def _give_name(partial: str, target: str, mode: int | None) -> None:
    if mode is not None:
        os.chmod(partial, stat.S_IMODE(mode))
    os.replace(partial, target)
