"""A small process on a machine, separate from its ranks, which can still report when they are
killed.

A killed process says nothing, and MPI's launcher ends the others at once. The witness holds the
read end of a pipe from each rank. If a pipe closes without a farewell, its rank has died. The
witness reads the last note of this rank, and says so on standard error. The system queues what
happens to the pipes, so the first to die is told from those that the launcher ended after it,
however late the witness gets a processor.

Run by its path, with the standard library alone. In the job's folder each rank K has `pipe-K`, a
named pipe that it holds open, and `rank-K`, its note.
"""

import os
import selectors
import shutil
import sys

FAREWELL = b"q"


def main(size: str, folder: str) -> None:
    """Watch the pipes of the folder until all have closed; then remove the folder.

    Standard output is closed when all are watched: that tells the ranks, which have waited for it.
    """
    with selectors.DefaultSelector() as pipes:
        for name in os.listdir(folder):
            if name.startswith("pipe-"):
                pipe = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
                pipes.register(pipe, selectors.EVENT_READ, name.removeprefix("pipe-"))
        try:
            # an end before we opened it makes no event; the ranks go on when all that is read
            cause = _heard([*pipes.get_map().values()], pipes, None, size, folder)
            os.close(1)
            while pipes.get_map():
                ended = [pipe for pipe, _ in pipes.select()]
                cause = _heard(ended, pipes, cause, size, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _heard(
    ended: list, pipes: selectors.BaseSelector, cause: str | None, size: str, folder: str
) -> str | None:
    """Report the ranks whose pipes these are, in this order, unless they live.

    cause, and what is returned: why the others end, once that is known; "" where a rank has said it
    itself
    """
    for pipe in ended:
        try:
            farewell = os.read(pipe.fd, len(FAREWELL)) == FAREWELL
        except BlockingIOError:  # the rank lives
            continue
        pipes.unregister(pipe.fd)
        note = _read(os.path.join(folder, f"rank-{pipe.data}"))
        who = f"rank {pipe.data} of {size}"
        if farewell:
            cause = cause or ""
        elif cause is None:
            cause = f"{who} was killed or crashed {note}"
            _say(cause)
        else:
            _say(f"{who} was ended {note}" + (f", because {cause}" if cause else ""))
    return cause


def _say(text: str) -> None:
    try:
        os.write(2, f"minigrad.distributed: {text}\n".encode())
    except OSError:  # the launcher is gone, and with it who would read this
        pass


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(4096).rstrip(b"\0 ").decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
