"""Real data that comes with the package: files/README.md names sources and licences."""

import lzma
from pathlib import Path

import numpy as np

from .dataset import ArrayDataset

_FOLDER = Path(__file__).parent / "files"


def load_digits(path: str | Path | None = None) -> ArrayDataset:
    """1,797 handwritten digits: images float32 (1797, 1, 8, 8) from 0 to 1, labels int64 (1797,).

    Alpaydin and Kaynak, UCI, 1998, CC BY 4.0. `path` names another file of `images` and `labels`.
    """
    with np.load(_found(path, "digits.npz", "load_digits"), allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    return ArrayDataset(images[:, np.newaxis].astype(np.float32) / 16, labels.astype(np.int64))


def load_text(path: str | Path | None = None) -> str:
    """Shakespeare's Hamlet, Macbeth, Othello and King Lear: 583,820 characters, 70 of them distinct

    In the public domain. `path` names another text file, in UTF-8, compressed if it ends in .xz.
    """
    file = _found(path, "tragedies.txt.xz", "load_text")
    if file.suffix == ".xz":
        return lzma.decompress(file.read_bytes()).decode()
    return file.read_text(encoding="utf-8")


def _found(path: str | Path | None, name: str, function: str) -> Path:
    file = _FOLDER / name if path is None else Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"{function}: there is no file {file}; without a path it reads {name}, which comes "
            "with minigrad"
        )
    return file
