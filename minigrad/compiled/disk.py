"""Compiled loops on disk: a program compiles each of them once, not at every start.

numba keeps what it compiles beside the file that a function comes from, and looks whether that file
and the processor are still the same. So the source of a loop becomes a file, named by a digest of
itself and of all that is compiled into it; kernels that are written by hand get that digest beside
numba's own stamp (jit.kernel). The directory is XDG_CACHE_HOME/minigrad/loops (by
default ~/.cache/…); where nothing can be written, loops are kept in memory alone.
"""

import hashlib
import os
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
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _make_room(path.parent)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(source, "utf-8")
            part.replace(path)  # another process sees all of it or nothing
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return str(path)


def _make_room(folder: Path) -> None:
    """Forget the oldest sources, and what numba made of them, once there are too many."""
    found = sorted(folder.glob("loop_*.py"), key=lambda path: path.stat().st_mtime)
    for path in found[: len(found) - MOST + 1]:
        for one in [*folder.glob(f"__pycache__/{path.stem}.*"), path]:
            one.unlink(missing_ok=True)
