"""safetensors files, read through the library of that name.

The library checks that declared shapes, dtypes and offsets agree with each other and with the
file. Faults that it lets pass are checked here first: duplicate names, and the bound on memory.
"""

import json
import os
import re
import struct
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import FormatError

METADATA = "__metadata__"
_WRITERS = {("format", kind) for kind in ("np", "pt", "tf", "flax", "mlx", "paddle")}  # no user's
# the format's names of dtypes, in the order in which the library places arrays
_DTYPES = {
    "uint64": "U64", "int64": "I64", "float64": "F64", "complex64": "C64", "float32": "F32",
    "uint32": "U32", "int32": "I32", "bfloat16": "BF16", "float16": "F16", "uint16": "U16",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_LONGEST = 300  # of a message of the library's
# a text of JSON, or one that nothing closes: looked for from each quote anew, that would take
# quadratic time
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
MAX_HEADER = 100_000_000  # bytes, the format's own limit


def library() -> ModuleType:
    """The package safetensors."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "safetensors files need the package safetensors: pip install "
            "'/path/to/the/checkout[full]', or name the file .npz"
        ) from None
    return safetensors


def write(path: str, arrays: dict[str, np.ndarray], texts: dict[str, str]) -> None:
    """Write the arrays and texts; TypeError for a dtype that the format does not have.

    The bytes are the library's. It would itself write them into a file of another name and rename
    that; a kill would leave this file behind, without a known owner.
    """
    library()  # it has to be there to read the file again
    if METADATA in arrays:  # its place in the header is taken
        raise ValueError(f"save: a safetensors file cannot hold an array named {METADATA!r}")
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise TypeError(
                f"save: {name} has dtype {array.dtype}, which safetensors files cannot hold. Name "
                "the file .npz, or cast"
            )
    ranks = {dtype: rank for rank, dtype in enumerate(_DTYPES)}
    names = sorted(arrays, key=lambda name: (ranks[arrays[name].dtype.name], name))
    header: dict[str, Any] = {METADATA: dict(sorted({"format": "np", **texts}.items()))}
    end = 0
    for name in names:
        array, start = arrays[name], end
        end += array.nbytes
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"save: the names and texts of this state take {len(text):,} bytes, and a safetensors "
            f"file holds at most {MAX_HEADER:,}; save it in several files"
        )
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            array = arrays[name].reshape(-1)
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).data)


def read(path: str, max_bytes: int | None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays by name, and the texts."""
    safetensors = library()
    header = _header(path)
    size = os.path.getsize(path)
    if max_bytes is not None and size > max_bytes:
        raise FormatError(f"{path}: {size:,} bytes, and max_bytes is {max_bytes:,}")
    for name, entry in header.items():
        dtype = entry.get("dtype") if isinstance(entry, dict) else None
        if name != METADATA and dtype not in _DTYPES.values():
            raise FormatError(
                f"{path}: {name[:80]!r} has the dtype {str(dtype)[:40]!r}, which no tensor has"
            )
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            # copies: a file that is mapped, not read, could be cut short while it is in use
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = str(error)[:_LONGEST]  # which repeats what it found
        raise FormatError(f"{path} is not a safetensors file that can be read: {reason}") from None
    return arrays, _texts(header, path)


def read_metadata(path: str) -> dict[str, str]:
    """The texts alone."""
    return _texts(_header(path), path)


def _texts(header: dict, path: str) -> dict[str, str]:
    texts = header.get(METADATA, {})
    if not isinstance(texts, dict) or any(not isinstance(t, str) for t in texts.values()):
        raise FormatError(f"{path}: {METADATA} must hold texts")
    return {name: text for name, text in texts.items() if (name, text) not in _WRITERS}


def _header(path: str) -> dict[str, Any]:
    """The JSON header, whose length is in the first 8 bytes."""
    with open(path, "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, MAX_HEADER):
            raise FormatError(
                f"{path} is not a safetensors file: it has {size:,} bytes and declares a header of "
                f"{length:,}"
            )
        try:
            raw = file.read(length)
            _check_nesting(raw)
            header = json.loads(raw, object_pairs_hook=_without_doubles)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: its header is damaged: {error}") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: its header is not a JSON object")
    return header


def _check_nesting(raw: bytes) -> None:
    """ValueError for more lists and objects than entries have: as Python's they would take 25 times
    their bytes. An entry is an object with two lists; texts may contain any brackets."""
    most = 3 * raw.count(b'"data_offsets"') + 2  # the header itself and its texts are objects
    if raw.count(b"[") + raw.count(b"{") > most:
        bare = _TEXT.sub(b"", raw)
        if bare.count(b"[") + bare.count(b"{") > most:
            raise ValueError("it holds lists or objects that are no entry's")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise ValueError("a name comes twice")
    return names
