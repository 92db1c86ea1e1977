"""Samplers: in which order rows are taken, and how they are gathered into batches."""

import itertools
import operator
from collections.abc import Iterable, Iterator
from types import GenericAlias
from typing import Any

import numpy as np

from ..backends import random
from ..tensor_api.help import WithClassContext


def is_whole(value: Any) -> bool:
    """Whether a value is an integer: Python's, NumPy's, or a tensor or array of one."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _require_count(owner: str, num_samples: Any) -> None:
    if not is_whole(num_samples) or num_samples < 0:
        raise ValueError(f"{owner}: num_samples must be an integer, 0 or more, got {num_samples!r}")


class Sampler(WithClassContext):
    """Base of users' samplers, for a common type: they need only `__iter__`.

    A DataLoader knows its length where its sampler has `__len__`.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__; define __iter__(self)")


class SequentialSampler(Sampler):
    """0, 1, 2, ... for each row of a data set."""

    def __init__(self, data_source: Any):
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))


class RandomSampler(Sampler):
    """Every row once in random order; with replacement=True num_samples rows, any of them.

    num_samples is by default the number of rows, also where that grows.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: np.random.Generator | None = None,
    ):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        _require_count("RandomSampler", self.num_samples)
        if replacement and self.num_samples and not len(data_source):
            raise ValueError("RandomSampler: there are no rows to draw from")
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many rows a pass takes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        draw, n = self.generator or random.generator(), len(self.data_source)
        if self.replacement:
            return iter(draw.integers(0, n, self.num_samples).tolist())
        order: list[int] = []
        while len(order) < self.num_samples and n:
            order += draw.permutation(n).tolist()
        return iter(order[: self.num_samples])


class SubsetRandomSampler(Sampler):
    """The given indices, each once, in random order."""

    def __init__(self, indices: Any, generator: np.random.Generator | None = None):
        self.indices = indices
        self.generator = generator

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        draw = self.generator or random.generator()
        return (int(self.indices[i]) for i in draw.permutation(len(self.indices)))


class WeightedRandomSampler(Sampler):
    """num_samples rows, drawn with probabilities proportional to their weights."""

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: np.random.Generator | None = None,
    ):
        self.weights = np.asarray(weights, np.float64)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator
        counted = self.weights.ndim == 1 and ((self.weights >= 0) & np.isfinite(self.weights)).all()
        if not counted or not self.weights.any():
            raise ValueError(
                "WeightedRandomSampler: weights must be a vector of finite numbers ≥ 0, not all 0; "
                f"got shape {self.weights.shape}"
            )
        _require_count("WeightedRandomSampler", num_samples)
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"WeightedRandomSampler: {num_samples} rows without replacement, but only "
                f"{np.count_nonzero(self.weights)} have a weight above 0"
            )

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        draw, p = self.generator or random.generator(), self.weights / self.weights.max()
        p /= p.sum()  # that of the weights themselves might be infinite
        return iter(draw.choice(len(p), self.num_samples, self.replacement, p).tolist())


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler; drop_last leaves out a shorter last one."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False):
        if not is_whole(batch_size) or batch_size < 1:
            raise ValueError(
                f"BatchSampler: batch_size must be an integer, 1 or more, got {batch_size!r}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(iter(self.sampler))  # the order is drawn now, not with batch 0

    def _batches(self, order: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(itertools.islice(order, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch
