"""Compiled loops on disk: a program compiles each of them once, not at every start.

numba keeps compiled code next to the file of a function, and checks whether that file and the
processor are still the same. The source of a loop therefore becomes a file, named by a digest of
the source and of everything compiled into it. Hand-written kernels add that digest to numba's stamp
(jit.kernel). The directory is XDG_CACHE_HOME/minigrad/loops (by default ~/.cache/…). If it cannot
be written, loops are kept only in memory.

numba unpickles the files there: anyone who can write to the directory can run code. It is created
for the user alone. A directory of another user, or one that others can write to, is not used.
"""

import hashlib
import os
import stat
import warnings
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..version import __version__

MOST = 1024  # sources kept; the oldest one is removed first


def sources() -> dict[str, str]:
    """Name -> text of every file that a loop or kernel may be compiled from.

    Kernels call each other and functions of one element across the files of this folder. From other
    files they take only the numbers in ops/normal.py (a test checks it).
    """
    room, ops = files("minigrad.compiled"), files("minigrad.ops")
    found = [entry for entry in room.iterdir() if entry.name.endswith(".py")]
    found.append(ops.joinpath("normal.py"))
    return {entry.name: entry.read_text("utf-8") for entry in found}


@cache
def digest() -> str:
    """A digest of everything that loops and kernels depend on, except their own source."""
    import llvmlite
    import numba

    texts = [part for item in sorted(sources().items()) for part in item]
    versions = [__version__, numba.__version__, llvmlite.__version__]
    return hashlib.sha256("\n".join([*texts, *versions]).encode()).hexdigest()


def directory() -> Path:
    """The folder of the sources."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "minigrad" / "loops"


def file_of(source: str) -> str | None:
    """The file with this source, written if it is missing; None if that is not possible."""
    name = hashlib.sha256((source + digest()).encode()).hexdigest()[:32]
    try:
        path = directory() / f"loop_{name}.py"
        _make_private(path.parent / "__pycache__")  # the folder that numba writes
        if not is_private(path.parent) or not is_private(path.parent / "__pycache__"):
            return None
        if not path.exists():
            _make_room(path.parent)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(source, "utf-8")
            part.replace(path)  # atomic: another process never sees a part
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return str(path)


def _make_private(folder: Path) -> None:
    """Create the missing folders of this path, for the user alone, for any umask."""
    for path in [path for path in (folder, *folder.parents) if not path.exists()][::-1]:
        path.mkdir(mode=0o700, exist_ok=True)


@cache
def is_private(folder: Path, group: bool = False) -> bool:
    """Whether only the user (and root) can put a file there; else a warning, once.

    group   allow the user's group, as in a checkout with umask 002
    """
    if not hasattr(os, "geteuid"):  # Windows lacks such modes
        return True
    path = folder.resolve()
    wrong = next((p for p in (path, *path.parents) if not _is_ours(p, group or p != path)), None)
    if wrong is not None:
        warnings.warn(
            f"compiled loops are kept only in memory: {wrong} is another user's, or others can "
            f"write to it, and numba might load foreign code from {folder}. Remove that folder, or "
            "check its contents and chmod 700 it, or set XDG_CACHE_HOME to a folder of yours",
            RuntimeWarning,
            stacklevel=2,
        )
    return wrong is None


def _is_ours(path: Path, group: bool) -> bool:
    """Whether a file or folder belongs to the user or root, and only they can change it.

    In a folder with the sticky bit, others cannot replace files that are not theirs.
    """
    found = path.stat()
    others = stat.S_IWOTH if group and found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
    kept = not found.st_mode & others or found.st_mode & stat.S_ISVTX
    return found.st_uid in _owners() and bool(kept)


def _owners() -> set[int]:
    return {os.geteuid(), 0}


def forget_foreign(folder: Path, stem: str) -> None:
    """Remove numba's files of this name that another user has written: a folder that is private now
    may hold files from a time when it was not."""
    for path in folder.glob(f"{stem}.*") if hasattr(os, "geteuid") else ():
        try:
            ours = _is_ours(path, group=True)
        except FileNotFoundError:  # another process has removed it
            continue
        if not ours:
            path.unlink()


def _make_room(folder: Path) -> None:
    """Remove the oldest sources, with numba's files for them, once there are too many."""
    found = sorted(folder.glob("loop_*.py"), key=lambda path: path.stat().st_mtime)
    for path in found[: len(found) - MOST + 1]:
        for one in [*folder.glob(f"__pycache__/{path.stem}.*"), path]:
            one.unlink(missing_ok=True)
