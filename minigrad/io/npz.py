"""npz files: a zip archive with one NumPy array a member, read without np.load's trust in sizes."""

import errno
import functools
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..backends.dtypes import bfloat16
from ..errors import FormatError

_TEXTS = "__metadata__"  # a member with the texts, in JSON, as bytes
BFLOAT16 = "minigrad.bfloat16"  # names of arrays that NumPy's format would not know
_LEAST_LIMIT = 256 << 20
_RATIO = 100
_CHUNK = 1 << 20
_LONGEST_NAME = 65_000  # bytes that a zip archive has for one
_MOST_TEXT = 16 << 20  # bytes of texts; as Python objects they may take 25 times as many
_LONGEST_HEADER = 1 << 16  # bytes of an array's description, of which NumPy takes 10,000


def write(path: str, arrays: dict[str, np.ndarray], texts: dict[str, str]) -> None:
    """Write the arrays, uncompressed, and the texts."""
    wrong = [name for name in arrays if name == _TEXTS or "\0" in name or not name]
    if wrong:
        raise ValueError(f"save: an npz file cannot hold an array named {wrong[0]!r}")
    long = [name for name in arrays if len(name.encode()) > _LONGEST_NAME]
    if long:
        raise ValueError(
            f"save: an npz file holds no name of {len(long[0]):,} characters: {long[0][:40]!r}…"
        )
    members, brain = {}, []
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc" and array.dtype != bfloat16:
            raise TypeError(f"save: {name} has dtype {array.dtype}, which npz files cannot hold")
        if array.dtype == bfloat16:
            brain.append(name)
            array = array.view(np.uint16)
        members[name] = array
    if brain:
        texts = {**texts, BFLOAT16: json.dumps(brain)}
    if texts:
        text = json.dumps(texts).encode()
        if len(text) > _MOST_TEXT:
            raise ValueError(
                f"save: the texts of this state take {len(text):,} bytes, and an npz file holds at "
                f"most {_MOST_TEXT:,}; save it in several files, or fewer numbers outside arrays"
            )
        members[_TEXTS] = np.frombuffer(text, np.uint8)
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, array in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)
    except ValueError as error:  # zipfile's, where Ctrl-C came as a member was opened: not closed
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def read(path: str, max_bytes: int | None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays by name, and the texts."""
    arrays = _members(path, max_bytes)
    texts = _texts(arrays.pop(_TEXTS, None), path)
    try:
        brain = json.loads(texts.pop(BFLOAT16, "[]"))
        for name in brain:
            arrays[name] = _brain_floats(arrays[name])
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: the list of its bfloat16 arrays is damaged: {error}") from None
    return arrays, texts


def read_metadata(path: str) -> dict[str, str]:
    """The texts alone."""
    texts = _texts(_members(path, None, only=_TEXTS).get(_TEXTS), path)
    texts.pop(BFLOAT16, None)
    return texts


def _brain_floats(array: np.ndarray) -> np.ndarray:
    if bfloat16 is None:
        raise ImportError(
            "bfloat16 needs the package ml_dtypes: pip install '/path/to/the/checkout[full]'"
        )
    return array.view(bfloat16)


def _texts(array: Any, path: str) -> dict[str, str]:
    if array is None:
        return {}
    try:
        if array.dtype != np.uint8:
            raise ValueError(f"it is {array.dtype}, not bytes")
        texts = json.loads(array.tobytes())
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("a value is not text")
    except (ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: its metadata is damaged: {error}") from None
    return texts


# -- reading with bounds -----------------------------------------------------------------------


def _members(path: str, max_bytes: int | None, only: str | None = None) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _wanted(archive, only)
            _check_sizes(path, members, max_bytes)
            return {_name(member): _array(archive, member, path) for member in members}
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # of the zip, its decompressors, its names, NumPy's shapes: any kind
        number = error.errno if isinstance(error, OSError) else None
        if number not in (None, errno.EINVAL):  # the file is missing, or may not be read
            raise
        reason = error if number is None else "a place before it"
        raise FormatError(f"{path} is not an npz file that can be read: {reason}") from None


def _wanted(archive: zipfile.ZipFile, only: str | None) -> list[zipfile.ZipInfo]:
    return [member for member in archive.infolist() if only in (None, _name(member))]


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _check_sizes(path: str, members: list[zipfile.ZipInfo], max_bytes: int | None) -> None:
    """Refuse doubles, and archives that would grow beyond the bound, by what they declare."""
    names = [_name(member) for member in members]
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: a name comes twice")
    text = sum(member.file_size for member in members if _name(member) == _TEXTS)
    if text > _MOST_TEXT + _LONGEST_HEADER:
        raise FormatError(
            f"{path}: its texts take {text:,} bytes, beyond the limit of {_MOST_TEXT:,}; a state "
            "of this size belongs into arrays"
        )
    size, total = os.path.getsize(path), sum(member.file_size for member in members)
    limit = max(_LEAST_LIMIT, _RATIO * size) if max_bytes is None else max_bytes
    if total > limit:
        raise FormatError(
            f"{path}: its {size:,} bytes would grow to {total:,}, beyond the limit of {limit:,}; "
            "load(path, max_bytes=...) allows more for a file that is trusted"
        )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> np.ndarray:
    """One member. zipfile itself ends a member at its declared size, and checks its CRC."""
    what = f"{path}: the array {_name(member)!r}"
    with archive.open(member) as file:
        shape, fortran, dtype = _array_header(file, what)
        count = math.prod(shape)
        if file.tell() + count * dtype.itemsize != member.file_size:
            raise FormatError(
                f"{what} declares {dtype} {shape}, which is not what its {member.file_size:,} "
                "bytes hold"
            )
        array = np.empty(count, dtype)
        memory = array.view(np.uint8)
        for start in range(0, len(memory), _CHUNK):
            stop = min(start + _CHUNK, len(memory))
            chunk = file.read(stop - start)
            if len(chunk) != stop - start:
                raise FormatError(f"{what} ends early")
            memory[start:stop] = np.frombuffer(chunk, np.uint8)
        file.read(1)  # at the end zipfile compares the checksum
    array = array.astype(dtype.newbyteorder("="), copy=False)
    return array.reshape(shape, order="F" if fortran else "C")


@functools.lru_cache(256)  # NumPy's parser leaves a reference cycle at each call
def _parsed(reader: Callable, header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    return reader(io.BytesIO(header))


def _array_header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    readers = {
        (1, 0): ("<H", np.lib.format.read_array_header_1_0),
        (2, 0): ("<I", np.lib.format.read_array_header_2_0),
    }
    try:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            raise ValueError(f"its format is {version}")
        size, reader = readers[version]
        start = file.read(struct.calcsize(size))
        (length,) = struct.unpack(size, start)
        if length > _LONGEST_HEADER:  # NumPy would read all of it before it says so
            raise ValueError("max_header_size")
        shape, fortran, dtype = _parsed(reader, start + file.read(length))
    except Exception as error:  # NumPy parses it as Python text: there is no end to their kinds
        long = "max_header_size" in str(error)  # NumPy's advice is for its own arguments
        reason = "it is longer than that of any array" if long else error
        raise FormatError(f"{what} has a damaged header: {reason}") from None
    if dtype.hasobject:
        raise FormatError(f"{what} holds pickled objects, which could run code; they are not read")
    if dtype.kind not in "biufc" or dtype.names:
        raise FormatError(f"{what} has the dtype {dtype}, which no tensor has")
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise FormatError(f"{what} declares the shape {shape}")
    return shape, fortran, dtype
