"""Compiled loops on disk: a program compiles each of them once, not at every start.

numba keeps what it compiles beside the file that a function comes from, and looks whether that file
and the processor are still the same. So the source of a loop becomes a file, named by a digest of
itself and of all that is compiled into it; kernels that are written by hand get that digest beside
numba's own stamp (jit.kernel). The directory is XDG_CACHE_HOME/minigrad/loops (by
default ~/.cache/…); where nothing can be written, loops are kept in memory alone.

numba unpickles what it finds there, so whoever can write there can run code. The directory is made
for the user alone; one that is somebody else's, or that others can write to, is not used.
"""

import hashlib
import os
import stat
import warnings
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..version import __version__

MOST = 1024  # sources kept; the one written longest ago goes first


def sources() -> dict[str, str]:
    """Name -> text of every file that a loop or kernel may be compiled from.

    Kernels call each other and functions of one element across the files of this room, and take
    nothing from others but the numbers in ops/normal.py (a test looks).
    """
    room, ops = files("minigrad.compiled"), files("minigrad.ops")
    found = [entry for entry in room.iterdir() if entry.name.endswith(".py")]
    found.append(ops.joinpath("normal.py"))
    return {entry.name: entry.read_text("utf-8") for entry in found}


@cache
def digest() -> str:
    """A digest of what every loop and kernel depends on beside its own source."""
    import llvmlite
    import numba

    texts = [part for item in sorted(sources().items()) for part in item]
    versions = [__version__, numba.__version__, llvmlite.__version__]
    return hashlib.sha256("\n".join([*texts, *versions]).encode()).hexdigest()


def directory() -> Path:
    """Where the sources lie."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "minigrad" / "loops"


def file_of(source: str) -> str | None:
    """The file with this source, written if it is not there; None where that cannot be."""
    name = hashlib.sha256((source + digest()).encode()).hexdigest()[:32]
    try:
        path = directory() / f"loop_{name}.py"
        _make_private(path.parent / "__pycache__")  # where numba writes
        if not is_private(path.parent) or not is_private(path.parent / "__pycache__"):
            return None
        if not path.exists():
            _make_room(path.parent)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(source, "utf-8")
            part.replace(path)  # another process sees all of it or nothing
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return str(path)


def _make_private(folder: Path) -> None:
    """Make what is missing of this path, each folder for the user alone, whatever the umask."""
    for path in [path for path in (folder, *folder.parents) if not path.exists()][::-1]:
        path.mkdir(mode=0o700, exist_ok=True)


@cache
def is_private(folder: Path, group: bool = False) -> bool:
    """Whether nobody but the user (and root) can put a file there; else a warning, once.

    group   allow the user's own group, as in a checkout of a umask of 002
    """
    if not hasattr(os, "geteuid"):  # Windows has no such modes
        return True
    path = folder.resolve()
    wrong = next((p for p in (path, *path.parents) if not _is_ours(p, group or p != path)), None)
    if wrong is not None:
        warnings.warn(
            f"compiled loops are kept in memory alone: {wrong} is another user's, or others can "
            f"write to it, so numba might load foreign code from {folder}. Remove that folder, or "
            "chmod 700 it after a look at its contents, or set XDG_CACHE_HOME to a folder of yours",
            RuntimeWarning,
            stacklevel=2,
        )
    return wrong is None


def _is_ours(path: Path, group: bool) -> bool:
    """Whether a file or folder is the user's or root's, and none but these can change it.

    In a folder with the sticky bit others cannot replace what is not theirs.
    """
    found = path.stat()
    others = stat.S_IWOTH if group and found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
    kept = not found.st_mode & others or found.st_mode & stat.S_ISVTX
    return found.st_uid in _owners() and bool(kept)


def _owners() -> set[int]:
    return {os.geteuid(), 0}


def forget_foreign(folder: Path, stem: str) -> None:
    """Remove what numba keeps under this name and another user has written: a folder that is
    private now may hold files from a time when it was not."""
    for path in folder.glob(f"{stem}.*") if hasattr(os, "geteuid") else ():
        try:
            ours = _is_ours(path, group=True)
        except FileNotFoundError:  # another process has removed it
            continue
        if not ours:
            path.unlink()


def _make_room(folder: Path) -> None:
    """Forget the oldest sources, and what numba made of them, once there are too many."""
    found = sorted(folder.glob("loop_*.py"), key=lambda path: path.stat().st_mtime)
    for path in found[: len(found) - MOST + 1]:
        for one in [*folder.glob(f"__pycache__/{path.stem}.*"), path]:
            one.unlink(missing_ok=True)
