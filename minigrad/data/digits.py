"""Real data that comes with the checkout."""

from pathlib import Path

import numpy as np

from .dataset import ArrayDataset


def load_digits(path: str | Path | None = None) -> ArrayDataset:
    """1,797 handwritten digits: images float32 (1797, 1, 8, 8) from 0 to 1, labels int64 (1797,).

    The file is tutorials/data/digits.npz of the checkout; tutorials/data/README.md names its
    source (Alpaydin and Kaynak, UCI, 1998) and licence. `path` names it where the package was
    installed without its checkout.
    """
    if path is None:
        path = Path(__file__).parents[2] / "tutorials" / "data" / "digits.npz"
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}. The digits come with minigrad's checkout: install it from there "
            "with `pip install -e .`, or say load_digits('.../tutorials/data/digits.npz')"
        )
    with np.load(path, allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    return ArrayDataset(images[:, np.newaxis].astype(np.float32) / 16, labels.astype(np.int64))
