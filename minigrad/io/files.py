"""mg.save and mg.load: which format a file has, and what both formats share."""

import os
import stat
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import FormatError
from ..tensor_api import create
from ..tensor_api.help import with_call_context
from . import npz, tensors
from .atomic import replaced_whole, target_of
from .tree import flatten, rebuild

_FORMATS = {".safetensors": tensors, ".npz": npz}
_STATE = "minigrad.state"  # the name of the description among the metadata


@with_call_context
def save(
    state: Mapping, path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a state to path.safetensors or path.npz; the file appears whole or not at all.

    state     {name: tensor or array}, as model.state_dict() gives it, or nested dictionaries,
              lists and tuples of these with numbers, strings, booleans and None
    metadata  texts by name to be kept with it

    The names of a plain dictionary are the names in the file: PyTorch reads them, and weights
    saved there are read here. A safetensors file keeps them in alphabetical order, npz and nested
    states in the state's order. The format safetensors needs the package of that name and has no
    complex128. OSError where the file cannot be written; the old file is kept then.
    """
    if isinstance(path, Mapping):
        raise TypeError("save: the path is a dictionary; write mg.save(state, path)")
    form = _form(path)
    arrays, description = flatten(state)
    texts = dict(metadata or {})
    own = next((name for name in (_STATE, npz.BFLOAT16) if name in texts), _STATE)
    if any(not isinstance(t, str) for pair in texts.items() for t in pair) or own in texts:
        raise TypeError(f"save: metadata must be texts by name, none of them named {own!r}")
    for text in (*arrays, *texts, *texts.values()):
        if not text.isascii() and not _is_unicode(text):
            raise ValueError(f"save: {text[:80]!r} has half a character, which no file can hold")
    if description is not None:
        texts[_STATE] = description
    with replaced_whole(path) as partial:
        form.write(partial, arrays, texts)


def check_name(path: str | os.PathLike) -> None:
    """Raise at once what `save` would raise for this name after hours of work."""
    if _form(path) is tensors:
        tensors.library()
    target_of(path)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@with_call_context
def load(
    path: str | os.PathLike, device: str | None = None, max_bytes: int | None = None
) -> dict[str, Any]:
    """Read what save, or another program, has written: the state with tensors in its places.

    Sizes that the file declares are checked against it before memory is taken. The arrays may take
    max_bytes (default: no more than the file holds; of a compressed npz 256 MiB or 100 times the
    file). FormatError for a damaged, hostile or too large file. No code in a file is ever run.
    """
    _check_kind(path)
    arrays, texts = _form(path).read(os.fspath(path), max_bytes)
    tensors_by_name = {
        name: create.as_tensor(_truths(a) if a.dtype == bool else a, device=device)
        for name, a in arrays.items()
    }
    return rebuild(tensors_by_name, texts.get(_STATE), str(path))


def _truths(a: np.ndarray) -> np.ndarray:
    """Truth values of 0 and 1. A file may have other bytes, and ops that select by the bits of a
    mask would make wrong numbers of them."""
    return a.view(np.uint8) != 0


def metadata(path: str | os.PathLike) -> dict[str, str]:
    """The texts that were saved with a state."""
    _check_kind(path)
    texts = _form(path).read_metadata(os.fspath(path))
    return {name: text for name, text in texts.items() if name != _STATE}


def _check_kind(path: str | os.PathLike) -> None:
    """FormatError for a pipe, which would be waited for, or a device, which may have no end."""
    mode = os.stat(path).st_mode if os.path.exists(path) else 0
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
        raise FormatError(f"{path} is a pipe or a device; only a file can be loaded")


def _form(path: str | os.PathLike) -> Any:
    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix not in _FORMATS:
        raise ValueError(f"{path}: the name must end in {' or '.join(_FORMATS)}")
    return _FORMATS[suffix]


__all__ = ["FormatError", "load", "metadata", "save"]
