"""Data sets: rows that can be taken by index, or that come one after the other; and their parts."""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Any

import numpy as np

from ..backends import random
from ..engine.errors import describe
from ..tensor_api.help import WithClassContext, with_call_context
from ..tensor_api.tensor import Tensor


class Dataset(WithClassContext):
    """Rows by index. A subclass, or any object with them, defines __getitem__ and __len__.

    Dataset[T], as here every class of this package, is the class again: an annotation.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__(self, index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no __len__(self)")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(WithClassContext):
    """Rows that come one after the other (a stream): a subclass defines __iter__.

    Each worker of a DataLoader runs through the whole of it unless __iter__ takes its share:
    get_worker_info() says which worker is asking.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __iter__(self) -> Iterator:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__(self)")

    def __add__(self, other: "IterableDataset") -> "ChainDataset":
        return ChainDataset([self, other])


class ArrayDataset(Dataset):
    """Arrays of equal length; row i is the tuple of their i-th rows.

    An index may be an integer, a slice or an array of integers: a batch is taken in one go.
    """

    def __init__(self, *arrays: Any):
        if not arrays:
            raise ValueError(f"{type(self).__name__} needs at least one array")
        self.arrays = tuple(a if hasattr(a, "shape") else np.asarray(a) for a in arrays)
        lengths = [len(a) for a in self.arrays]
        if len(set(lengths)) > 1:
            raise ValueError(f"{type(self).__name__}: the arrays have different lengths: {lengths}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> tuple:
        return tuple(array[index] for array in self.arrays)

    def __repr__(self) -> str:
        parts = ", ".join(f"{a.dtype} {tuple(a.shape)}" for a in self.arrays)
        return f"{type(self).__name__}({parts})"


class TensorDataset(ArrayDataset):
    """ArrayDataset of tensors: PyTorch's name for it. Its rows are tensors."""

    def __init__(self, *tensors: Tensor):
        if not all(isinstance(t, Tensor) for t in tensors):
            raise TypeError("TensorDataset takes tensors; ArrayDataset takes arrays too")
        super().__init__(*tensors)


class Subset(Dataset):
    """The rows of a data set at the given indices, in their order."""

    def __init__(self, dataset: Any, indices: Sequence[int] | np.ndarray):
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if np.ndim(index) == 0 and not isinstance(index, slice):
            return self.dataset[self.indices[int(index)]]
        return self.dataset[np.asarray(self.indices)[index]]


class ConcatDataset(Dataset):
    """Data sets one after the other."""

    def __init__(self, datasets: Sequence):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset needs at least one data set")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise TypeError(
                "ConcatDataset: a stream has no rows by index; ChainDataset([a, b]), which is "
                "a + b, joins streams"
            )
        self.ends = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> Any:
        n = len(self)
        if not hasattr(index, "__index__") or np.ndim(index):
            raise TypeError(f"ConcatDataset: an index is one integer, got {describe(index)}")
        if not -n <= index < n:
            raise IndexError(f"ConcatDataset has {n} rows; there is none at {index}")
        index %= n
        which = bisect.bisect_right(self.ends, index)
        return self.datasets[which][index - (self.ends[which - 1] if which else 0)]


class StackDataset(Dataset):
    """Data sets of equal length side by side: row i is the tuple, or for named ones the dictionary,
    of their rows i.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset takes data sets, or named ones: StackDataset(images=a, labels=b)"
            )
        self.datasets: Any = kwargs or args
        lengths = [len(d) for d in kwargs.values() or args]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: the data sets have different lengths: {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self._each())))

    def __getitem__(self, index: Any) -> Any:
        rows = [dataset[index] for dataset in self._each()]
        named = isinstance(self.datasets, dict)
        return dict(zip(self.datasets, rows, strict=True)) if named else tuple(rows)

    def _each(self) -> Any:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable):
        self.datasets = datasets

    def __iter__(self) -> Iterator:
        return itertools.chain.from_iterable(map(_stream, self.datasets))

    def __len__(self) -> int:
        if isinstance(self.datasets, Iterator):  # the rows would be gone once they are counted
            raise TypeError(
                "ChainDataset: streams that come one by one have no length; give a list"
            )
        return sum(len(d) for d in self.datasets)


def _stream(dataset: Any) -> Any:
    if isinstance(dataset, Dataset):
        raise TypeError(
            f"ChainDataset: a {type(dataset).__name__} has rows by index; ConcatDataset([a, b]), "
            "which is a + b, joins those"
        )
    return dataset


@with_call_context
def random_split(
    dataset: Any, lengths: Sequence[float], generator: np.random.Generator | None = None
) -> list[Subset]:
    """Shuffled rows in parts of the given lengths, or of the given fractions, which sum to 1.

    With fractions what rounding leaves goes to the first parts, one row each, as in PyTorch.
    """
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        sizes = [math.floor(n * share) for share in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(length) for length in lengths]
    if sum(sizes) != n or min(sizes, default=0) < 0:
        raise ValueError(f"random_split: lengths {list(lengths)} do not divide {n} rows")
    order = (generator or random.generator()).permutation(n).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


@with_call_context
def train_test_split(
    dataset: ArrayDataset, test: float = 0.2, seed: int = 0
) -> tuple[ArrayDataset, ArrayDataset]:
    """(training part, held-out part): shuffled rows, the same ones for the same seed.

    `test` is the fraction that is held out; its number of rows is rounded up.
    """
    if not 0 < test < 1:
        raise ValueError(f"train_test_split: test is a fraction between 0 and 1, got {test}")
    if isinstance(dataset, np.ndarray | Tensor | list | tuple):
        raise TypeError(
            "train_test_split: the rows of several arrays are one data set as "
            f"data.ArrayDataset(x, y); got a {type(dataset).__name__}"
        )
    order = np.random.default_rng(seed).permutation(len(dataset))
    held_out = math.ceil(test * len(dataset))
    return ArrayDataset(*dataset[order[held_out:]]), ArrayDataset(*dataset[order[:held_out]])
