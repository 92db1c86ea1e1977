"""Batches: a data set in pieces, in order or shuffled, fetched ahead by workers."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from types import GenericAlias
from typing import Any

import numpy as np

from ..backends import random
from ..engine.errors import describe
from ..tensor_api.help import Checked
from .collate import as_tensors, default_collate
from .dataset import ArrayDataset, IterableDataset
from .randomness import BATCH, ROW, START, STREAM, numbers_of, shared
from .sampler import BatchSampler, RandomSampler, SequentialSampler, is_whole
from .workers import Crew, default_context, fetched

# once a DataLoader is made
_FIXED = ("dataset", "batch_size", "drop_last", "sampler", "batch_sampler")
_MOST_WORKERS = 1 << 15  # processes that Linux has, unless told otherwise


class DataLoader(Checked):
    """Iterates over a data set in batches of tensors; each pass is shuffled anew with shuffle=True.

    The order is drawn from `generator`, a numpy.random.Generator; left out, from the library's
    (mg.manual_seed). The last batch may be smaller; drop_last=True leaves it out.

    sampler, batch_sampler   orders of one's own: indices, or lists of indices
    batch_size=None          no batches: rows as they come
    collate_fn               list of rows -> batch; default_collate stacks columns as tensors
    num_workers              0: batches are made when asked for. n: by n workers, ahead of use
    worker_kind              "thread" (NumPy lets threads run side by side), or "process", for data
                             sets that spend their time in Python
    prefetch_factor          how many batches ahead, a worker; None: 2
    timeout                  seconds to wait for a batch; 0: for ever
    worker_init_fn           called with its number in each worker as it starts
    pin_memory, pin_memory_device, persistent_workers, in_order
                             PyTorch's, taken and without effect: batches come in ordinary memory of
                             the host and always in order, and each pass starts its workers

    The choice of rows and their order is fixed: to change it, make another loader.

    The order of batches depends on the seed (mg.manual_seed, or `generator`) alone. So do random
    numbers. A data set's draws for row i from np.random, Python's random or mg.rand depend on the
    seed, the pass and i, not on workers, batches and other rows. The draws of collate_fn depend on
    the number of the batch. For row n of a stream it depends on n and the number of the worker (0
    where there are none). The generators of the program itself stay untouched. The seed does not
    reach `from random import random` and a data set's own generators. Where no order is drawn, a
    pass takes one number from the generator, unless it only takes rows of arrays.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable | None = None,
        batch_sampler: Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        *,
        worker_kind: str = "thread",
        multiprocessing_context: str | None = None,
        generator: np.random.Generator | None = None,
        prefetch_factor: int | None = 2,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        if batch_size is not None and (not is_whole(batch_size) or batch_size < 1):
            tail = "; arrays x and y are one data set as data.ArrayDataset(x, y)"
            raise ValueError(
                f"DataLoader: batch_size must be an integer, 1 or more, got {describe(batch_size)}"
                + tail * (np.ndim(batch_size) > 0)
            )
        whole = is_whole(num_workers) and is_whole(prefetch_factor)
        known = worker_kind in ("thread", "process")
        if not (whole and known and 0 <= num_workers <= _MOST_WORKERS) or prefetch_factor < 1:
            raise ValueError(
                "DataLoader: worker_kind is 'thread' or 'process', num_workers 0 or more (up to "
                f"{_MOST_WORKERS:,}), prefetch_factor 1 or more; got {worker_kind!r}, "
                f"{num_workers!r}, {prefetch_factor!r}"
            )
        if (timeout or 0) < 0 or (batch_size is None and drop_last):
            raise ValueError(
                "DataLoader: timeout is 0 (none) or more seconds, and drop_last needs a "
                f"batch_size; got timeout={timeout}, batch_size={batch_size}, "
                f"drop_last={drop_last}"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_kind = worker_kind
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.streaming = isinstance(dataset, IterableDataset)
        self.batch_sampler = self._order(shuffle, sampler, batch_sampler)

    __class_getitem__ = classmethod(GenericAlias)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and hasattr(self, "batch_sampler"):
            raise ValueError(
                f"DataLoader: {name} cannot be set any more, since the order of the batches was "
                f"made for it; make another: DataLoader(dataset, {name}=...)"
            )
        super().__setattr__(name, value)

    @property
    def sampler(self) -> Any:
        """The order of the rows, from which that of the batches is made; None for a stream."""
        return getattr(self.batch_sampler, "sampler", self.batch_sampler)

    def _order(self, shuffle: bool, sampler: Any, batch_sampler: Any) -> Any:
        """The sampler of the indices of each batch; None for a stream."""
        if self.streaming:
            if shuffle or sampler is not None or batch_sampler is not None:
                raise ValueError(
                    "DataLoader: an IterableDataset gives its own order: no shuffle, no sampler"
                )
            return None
        if batch_sampler is not None:
            if self.batch_size not in (1, None) or shuffle or sampler is not None or self.drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler takes the place of batch_size, shuffle, sampler "
                    "and drop_last"
                )
            return batch_sampler
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: give a sampler or shuffle=True, not both")
        if sampler is None:
            if not hasattr(self.dataset, "__len__"):
                raise TypeError(
                    f"DataLoader: a {type(self.dataset).__name__} has no length; a data set has "
                    "__len__ and __getitem__, such as data.ArrayDataset(x, y) or a list, and a "
                    "stream is a data.IterableDataset"
                )
            if shuffle:
                sampler = RandomSampler(self.dataset, generator=self.generator)
            else:
                sampler = SequentialSampler(self.dataset)
        if self.batch_size is None:
            return sampler
        return BatchSampler(sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        """The number of batches; of a stream with a __len__ that of its rows says it."""
        if not self.streaming:
            return len(self.batch_sampler)
        if not hasattr(self.dataset, "__len__"):
            raise TypeError(
                f"DataLoader: a {type(self.dataset).__name__}, an IterableDataset without __len__, "
                "does not say how many rows will come, so the number of batches is not known"
            )
        whole, rest = divmod(len(self.dataset), self.batch_size or 1)
        return whole if self.drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[Any]:
        fetch: Any = _Fetch(self.batch_size is None, self.collate_fn)
        if self.streaming:
            fetch = _FetchNext(self.batch_size, self.collate_fn, self.drop_last)
        draw = self.generator or random.generator()
        before = _next(draw)
        tasks = itertools.repeat(None) if self.streaming else iter(self.batch_sampler)
        fetch.seed = _next(draw)
        draws = not self._takes_arrays() or self.worker_init_fn is not None
        if draws and fetch.seed == before:  # the next pass is to have another seed
            draw.integers(0, _SEEDS)
        batches = self._ahead(fetch, tasks) if self.num_workers else self._now(fetch, tasks)
        return batches if not self.streaming else _until_all_have_ended(batches, self.num_workers)

    def _takes_arrays(self) -> bool:
        """Whether rows are taken from arrays: no code runs that could draw random numbers."""
        return _is_of_arrays(self.dataset) and self.collate_fn in (None, default_collate)

    def _now(self, fetch: Any, tasks: Iterable) -> Iterator[Any]:
        with nullcontext() if self._takes_arrays() else shared():
            for i, task in enumerate(tasks):
                yield _finished(fetched(fetch, self.dataset, task, i))

    def _ahead(self, fetch: Any, tasks: Iterable) -> Iterator[Any]:
        crew = Crew(
            self.dataset, fetch, self.num_workers, processes=self.worker_kind == "process",
            context=self.multiprocessing_context or default_context(),
            prefetch=self.prefetch_factor, timeout=self.timeout, init_fn=self.worker_init_fn,
            seed=fetch.seed,
        )  # fmt: skip
        with shared():
            yield from map(_finished, crew.results(tasks))


_SEEDS = 1 << 62


def _next(draw: np.random.Generator) -> int:
    """The seed that a generator gives next, which stays there for others to draw.

    If it were taken, the order of the next pass would depend on there being workers. It is made of
    32 bits as well: an order of two rows takes half a number, and the one after it the other half.
    """
    ahead = copy.deepcopy(draw)
    half = int(ahead.integers(0, 1 << 32, dtype=np.uint32))
    return half << 30 ^ int(ahead.integers(0, _SEEDS))


class _Fetch:
    """fetch(dataset, indices, n): the rows at some indices, collated: batch n of a pass."""

    seed: int  # of the pass
    worker = 0

    def __init__(self, single: bool, collate: Callable | None):
        self.single = single
        self.collate = collate or (None if single else default_collate)

    def __call__(self, dataset: Any, indices: Any, n: int) -> Any:
        if not self.single and _is_of_arrays(dataset) and self.collate is default_collate:
            return dataset[np.asarray(indices, np.intp)]  # a batch in one go; nothing is drawn
        with numbers_of(self.seed, BATCH, n) as numbers:
            rows = []
            for i in [indices] if self.single else indices:
                numbers.change(self.seed, ROW, i)
                rows.append(dataset[i])
            numbers.change(self.seed, BATCH, n)
            return _collated(rows, self.single, self.collate)


def _is_of_arrays(dataset: Any) -> bool:
    return getattr(type(dataset), "__getitem__", None) is ArrayDataset.__getitem__


def _collated(rows: list, single: bool, collate: Callable | None) -> Any:
    if collate is None:
        return rows[0]
    return collate(rows[0] if single else rows)


class _End:
    """Comes from a worker whose stream has no more."""


class _FetchNext:
    """fetch(dataset, None, n): the next rows of a stream, collated; _End after the last.

    It remembers its place, so each worker has another one.
    """

    seed: int  # of the pass
    worker = 0

    def __init__(self, batch_size: int | None, collate: Callable | None, drop_last: bool):
        self.single, self.size = batch_size is None, batch_size or 1
        self.collate = collate or (None if self.single else default_collate)
        self.drop_last = drop_last
        self.stream: Any = None
        self.taken = 0

    def __call__(self, dataset: Any, _: Any, n: int) -> Any:
        with numbers_of(self.seed, START, self.worker) as numbers:
            if self.stream is None:
                self.stream = iter(dataset)
            rows: list = []
            while len(rows) < self.size:
                numbers.change(self.seed, STREAM, self.worker, self.taken)
                row = next(self.stream, _End)
                if row is _End:
                    break
                rows.append(row)
                self.taken += 1
            if not rows or (self.drop_last and len(rows) < self.size):
                return _End
            numbers.change(self.seed, BATCH, n)
            return _collated(rows, self.single, self.collate)


def _until_all_have_ended(batches: Iterator[Any], workers: int) -> Iterator[Any]:
    """The batches of streams, which take turns, until each of them has ended."""
    ended: set[int] = set()
    for i, batch in enumerate(batches):
        if batch is _End:
            ended.add(i % max(workers, 1))
            if len(ended) == max(workers, 1):
                batches.close()  # type: ignore[attr-defined]
                return
        else:
            yield batch


def _finished(batch: Any) -> Any:
    return batch if batch is _End else as_tensors(batch)


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
