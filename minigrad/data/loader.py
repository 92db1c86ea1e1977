"""Batches: a data set in pieces, in order or shuffled."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends import random
from ..core.create import as_tensor
from .dataset import ArrayDataset, Dataset


class DataLoader:
    """Iterates over a data set in batches of tensors; each pass is shuffled anew with shuffle=True.

    The order is drawn from `generator`, a numpy.random.Generator; left out, from the library's
    (mg.manual_seed). The last batch may be smaller; drop_last=True leaves it out.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        generator: np.random.Generator | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"DataLoader: batch_size must be 1 or more, got {batch_size}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.generator = generator

    def __len__(self) -> int:
        """The number of batches."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[tuple]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            (self.generator or random.generator()).shuffle(order)
        for i in range(len(self)):
            rows = order[i * self.batch_size : (i + 1) * self.batch_size]
            yield tuple(as_tensor(column) for column in _columns(self.dataset, rows))


def batches(
    *arrays: Any,
    batch_size: int,
    shuffle: bool = False,
    drop_last: bool = False,
    generator: np.random.Generator | None = None,
) -> Iterator[tuple]:
    """One pass over arrays of equal length: `for x, y in batches(xs, ys, batch_size=32)`."""
    dataset = ArrayDataset(*arrays)
    return iter(DataLoader(dataset, batch_size, shuffle, drop_last=drop_last, generator=generator))


def _columns(dataset: Dataset, rows: np.ndarray) -> tuple:
    """The rows of a batch, stacked column by column."""
    if isinstance(dataset, ArrayDataset):
        return dataset[rows]
    taken = [dataset[int(i)] for i in rows]
    if not isinstance(taken[0], tuple):
        return (np.stack(taken),)
    return tuple(np.stack(column) for column in zip(*taken, strict=True))
