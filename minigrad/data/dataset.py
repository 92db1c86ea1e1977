"""Data sets: rows that can be taken by index, and their division into two parts."""

import math
from typing import Any, Protocol

import numpy as np


class Dataset(Protocol):
    """Anything with a length and rows by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Any: ...


class ArrayDataset:
    """Arrays of equal length; row i is the tuple of their i-th rows.

    An index may be an integer, a slice or an array of integers: a batch is taken in one go.
    """

    def __init__(self, *arrays: Any):
        if not arrays:
            raise ValueError("ArrayDataset needs at least one array")
        self.arrays = tuple(a if hasattr(a, "shape") else np.asarray(a) for a in arrays)
        lengths = [len(a) for a in self.arrays]
        if len(set(lengths)) > 1:
            raise ValueError(f"ArrayDataset: the arrays have different lengths: {lengths}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> tuple:
        return tuple(array[index] for array in self.arrays)

    def __repr__(self) -> str:
        parts = ", ".join(f"{a.dtype} {tuple(a.shape)}" for a in self.arrays)
        return f"ArrayDataset({parts})"


def train_test_split(
    dataset: ArrayDataset, test: float = 0.2, seed: int = 0
) -> tuple[ArrayDataset, ArrayDataset]:
    """(training part, held-out part): shuffled rows, the same ones for the same seed.

    `test` is the fraction that is held out; its number of rows is rounded up.
    """
    if not 0 < test < 1:
        raise ValueError(f"train_test_split: test is a fraction between 0 and 1, got {test}")
    order = np.random.default_rng(seed).permutation(len(dataset))
    held_out = math.ceil(test * len(dataset))
    return ArrayDataset(*dataset[order[held_out:]]), ArrayDataset(*dataset[order[:held_out]])
