"""A small process for each rank, which can still report when the rank is killed.

A killed process says nothing, and MPI's launcher ends the others at once. The witness holds the
read end of a pipe from its rank: when that closes without a farewell, the rank has died, and the
witness reads its last note and says so on the standard error that both share. The first witness of
a machine leaves its message in the job's folder, so the others can name the cause.

Run by its path, with the standard library alone.
"""

import os
import sys
import time

FAREWELL = b"q"


def main(rank: str, size: str, folder: str) -> None:
    """Wait for the end of the pipe on standard input; speak unless a farewell came first.

    Standard output is closed at once: that tells the rank that it is watched.
    """
    os.close(1)
    farewell = os.read(0, 1) == FAREWELL
    if not farewell:
        _speak(rank, size, folder)
        os.close(2)  # the launcher waits until nobody can write there
        time.sleep(1)  # the other witnesses read what was left for them
    _remove(rank, folder)


def _speak(rank: str, size: str, folder: str) -> None:
    note = _read(os.path.join(folder, f"rank-{rank}"))
    first = os.path.join(folder, "first")
    text = f"rank {rank} of {size} was killed or crashed {note}"
    try:
        os.symlink(text, first)  # points nowhere: it is made in one step, with its text, or not
    except OSError:
        cause = _first(first)
        text = f"rank {rank} of {size} was ended {note}" + (f", because {cause}" if cause else "")
    try:
        os.write(2, f"minigrad.distributed: {text}\n".encode())
    except OSError:  # the launcher is gone, and with it who would read this
        pass


def _remove(rank: str, folder: str) -> None:
    """Remove this rank's note; the last witness removes the folder."""
    for name in (f"rank-{rank}", "first"):
        try:
            others = [other for other in os.listdir(folder) if other.startswith("rank-")]
            if name != "first" or not others:
                os.unlink(os.path.join(folder, name))
        except OSError:
            pass
    try:
        os.rmdir(folder)
    except OSError:
        pass


def _first(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(4096).rstrip(b"\0 ").decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
