"""Which rows of a data set a rank takes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .ranks import is_initialized, world


class DistributedSampler:
    """Every size-th row of one order that all ranks share: together they take each once.

    shuffle    draw the order anew for each epoch, from seed + epoch: call set_epoch before each
    drop_last  leave out the last rows that do not fill all ranks; else the first ones come again,
               all ranks then have the same number of rows
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        here = world() if is_initialized() else None
        self.dataset = dataset
        self.num_replicas = (here.size if here else 1) if num_replicas is None else num_replicas
        self.rank = (here.rank if here else 0) if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"DistributedSampler: rank must be 0 or more and below num_replicas; got "
                f"rank={self.rank}, num_replicas={self.num_replicas}"
            )
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass; without it every epoch has the order of epoch 0."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.num_replicas)
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = np.arange(n)
        if self.shuffle:
            order = np.random.default_rng(self.seed + self.epoch).permutation(n)
        if n:
            order = np.resize(order, len(self) * self.num_replicas)  # cuts, or begins again
        return iter(order[self.rank :: self.num_replicas].tolist())
