"""Sequences of several lengths in one batch: padded, packed, and back. Names are PyTorch's.

A packed batch holds the steps of all sequences without the padding, step by step. The first step of
every sequence comes first, longest sequence first; then the second of those that have one, and so
on.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from ..engine.errors import describe
from ..engine.registry import op
from ..ops.axes import array_like, constant_like, on_host
from ..tensor_api import create
from ..tensor_api.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Fields):
    """What pack_padded_sequence makes, and what RNN, LSTM and GRU take and return.

    data              (Σ lengths, …): the steps, step by step
    batch_sizes       (longest,): how many sequences have a first, second … step
    sorted_indices    (N,): the sequences of the batch, longest first; None: they were in order
    unsorted_indices  (N,): the place of each sequence among the sorted ones, by default what
                      sorted_indices says
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *targets: Any, **kwargs: Any) -> Self:
        """The same with data.to(dtype), to(device); the numbers are the host's."""
        return self._replace(data=self.data.to(*targets, **kwargs))

    def float(self) -> Self:
        """to(float32)"""
        return self.to(np.float32)

    def double(self) -> Self:
        """to(float64)"""
        return self.to(np.float64)

    def half(self) -> Self:
        """to(float16)"""
        return self.to(np.float16)

    def cpu(self) -> Self:
        """to("cpu")"""
        return self.to("cpu")

    def cuda(self, device: int = 0) -> Self:
        """to("cuda:0")"""
        return self.to(f"cuda:{device}")

    @property
    def is_cuda(self) -> bool:
        """Whether the steps are on a GPU."""
        return self.data.device != "cpu"

    def lengths(self) -> np.ndarray:
        """The number of steps of each sequence, in the batch's own order."""
        sizes = on_host(self.batch_sizes)
        lengths = (sizes[:, None] > np.arange(sizes[0])).sum(0)
        return lengths if self.unsorted_indices is None else lengths[on_host(self.unsorted_indices)]


def _lengths(owner: str, lengths: Any, x: Any, steps: int, n: int) -> np.ndarray:
    """Lengths of n sequences in x, of so many steps; ValueError for others."""
    lengths = np.asarray(on_host(create.as_tensor(lengths)))
    fits = lengths.shape == (n,) and (lengths.dtype.kind in "iu" or not n)
    if not fits or lengths.min(initial=1) < 1 or lengths.max(initial=1) > steps:
        raise ValueError(
            f"{owner}: lengths must be {n} integers from 1 to {steps} for x {describe(x)}; got "
            f"{lengths}"
        )
    return lengths


def _places(lengths: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(step, sequence) of each packed row, and how many sequences have each step."""
    alive = np.arange(lengths.max())[:, None] < lengths[order]
    steps, sorted_places = np.nonzero(alive)
    return steps, order[sorted_places], alive.sum(1)


def pack_padded_sequence(
    x: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps of x (T, N, …), (N, T, …) with batch_first, that lie within the lengths (N,).

    enforce_sorted: the lengths must not rise (PyTorch's default); else any order will do.
    """
    x = array_like(x)
    steps, n = x.shape[:2][:: -1 if batch_first else 1] if x.ndim > 1 else (0, 0)
    if not n:
        raise ValueError(
            "pack_padded_sequence: x must be (T, N, …), or (N, T, …) with batch_first, with one "
            f"sequence at least; got {describe(x)}"
        )
    lengths = _lengths("pack_padded_sequence", lengths, x, steps, n)
    if enforce_sorted and (np.diff(lengths) > 0).any():
        raise ValueError(
            f"pack_padded_sequence: the lengths {lengths} rise; sort the batch, longest first, or "
            "pass enforce_sorted=False"
        )
    order = np.arange(n) if enforce_sorted else np.argsort(-lengths, kind="stable")
    step, sequence, sizes = _places(lengths, order)
    key = (sequence, step) if batch_first else (step, sequence)
    places = (None, None) if enforce_sorted else (Tensor(order), Tensor(np.argsort(order)))
    data = op.getitem(create.as_tensor(x), index=tuple(constant_like(k, x) for k in key))
    return PackedSequence(data, Tensor(sizes), *places)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(x, lengths): the sequences side by side, filled up with padding_value, and how long they are

    x (T, N, …), (N, T, …) with batch_first; T is the longest length, or total_length.
    """
    if not isinstance(sequence, PackedSequence):
        raise TypeError(
            "pad_packed_sequence: takes a PackedSequence, as pack_padded_sequence, pack_sequence "
            f"and recurrent layers given one return it; got {describe(sequence)}"
        )
    lengths = sequence.lengths()
    longest = int(lengths.max())
    if total_length is not None and total_length < longest:
        raise ValueError(
            f"pad_packed_sequence: total_length={total_length}, but the longest sequence has "
            f"{longest} steps"
        )
    order = sequence.sorted_indices
    order = np.arange(lengths.size) if order is None else on_host(order)
    step, place, _ = _places(lengths, order)
    key = (place, step) if batch_first else (step, place)
    shape = (total_length or longest, lengths.size)[:: -1 if batch_first else 1]
    data = sequence.data
    empty = create.full(
        (*shape, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    )
    x = op.setitem(empty, data, index=tuple(constant_like(k, data) for k in key))
    return x, Tensor(lengths)


def pad_sequence(
    sequences: Iterable,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (T_i, …) side by side, padded to the longest: (T, N, …) or (N, T, …).

    padding_side is where they are padded: "right", after the last step, or "left".
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f"pad_sequence: padding_side={padding_side!r}; choose 'right' or 'left'")
    parts = [create.as_tensor(x) for x in sequences]
    if not parts:
        raise ValueError("pad_sequence: needs at least one sequence")
    if not parts[0].ndim or any(x.shape[1:] != parts[0].shape[1:] for x in parts):
        raise ValueError(
            f"pad_sequence: sequences (T_i, …) differ in the first axis alone, got the shapes "
            f"{', '.join(str(x.shape) for x in parts)}"
        )
    longest = max(len(x) for x in parts)
    rows = []
    for x in parts:
        more = (longest - len(x), 0) if padding_side == "left" else (0, longest - len(x))
        width = [more] + [(0, 0)] * (x.ndim - 1)
        rows.append(op.pad(x, width, constant_values=padding_value))
    return op.stack(rows, axis=0 if batch_first else 1)


def unpad_sequence(x: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each as long as it is: the inverse of pad_sequence."""
    x = create.as_tensor(x)
    rows = x if batch_first else op.swapaxes(x, axis1=0, axis2=1)
    return [rows[i, : int(n)] for i, n in enumerate(on_host(create.as_tensor(lengths)))]


def pack_sequence(sequences: Iterable, enforce_sorted: bool = True) -> PackedSequence:
    """pack_padded_sequence of a list of sequences (T_i, …)."""
    sequences = [create.as_tensor(x) for x in sequences]
    padded = pad_sequence(sequences)
    lengths = [len(x) for x in sequences]
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch, in its own order: the inverse of pack_sequence."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), True)


def invert_permutation(permutation: Any) -> Tensor | None:
    """The permutation (N,) that takes this one back; None for None."""
    return None if permutation is None else Tensor(np.argsort(on_host(permutation)))


def active_steps(lengths: Any, x: Tensor, name: str) -> Any:
    """(T, N, 1), True where a sequence has a step; None when lengths were left out."""
    if lengths is None:
        return None
    steps, n = x.shape[:2]
    lengths = _lengths(name, lengths, x, steps, n)
    return constant_like((np.arange(steps)[:, None] < lengths)[:, :, None], x)
