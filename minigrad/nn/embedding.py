"""Tables of learned vectors. Names, argument order, defaults and initial values are PyTorch's."""

from typing import Any

import numpy as np

from ..backends.device import resolve, to_device, to_host
from ..backends.dtypes import accumulator
from ..engine.errors import describe
from ..engine.graph import raw
from ..engine.registry import op
from ..engine.versions import note_write
from ..ops.axes import constant_array, constant_of_each
from ..ops.scaling import power_of_two
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


def rows_of(
    weight: Any, taken: Any, indices: Tensor, padding_idx: int | None, scale_grad_by_freq: bool
) -> Tensor:
    """weight[taken]; the `indices` of the whole call say how often each row is used."""
    rows = op.embedding(taken, weight, padding_idx)
    if not scale_grad_by_freq:
        return rows
    flat = op.reshape(indices, shape=-1)
    ones = op.astype(op.ones_like(flat), dtype=rows.dtype)
    counts = op.add_along_axis(ones, flat, axis=0, shape=weight.shape[:1])
    # a row that only fills up a bag is not among the indices: it may count 0, and g is 0 there
    shares = 1 / op.take(op.maximum(counts, 1), taken, axis=0)
    scaled = rows * op.expand_dims(shares, axis=-1)
    return rows.detach() + (scaled - scaled.detach())  # the rows' values, the scaled gradient


def cut(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float, owner: str) -> None:
    """Scale the rows at the indices that are longer than max_norm down to it, in place."""
    instead = f"; {owner}(max_norm=) writes into it: cut the rows before, and take max_norm=None"
    max_norm = constant_array(max_norm, "max_norm")
    rows, table = np.unique(raw(indices)), constant_array(weight.detach(), "weight", instead)
    used = op.take(table, rows, axis=0)  # its errors are those of a lookup
    rows = rows.astype(np.intp)
    wide = accumulator(table.dtype) or table.dtype
    used = used.astype(wide, copy=False)
    unit = power_of_two(used, axis=-1)  # a length, even a finite one's square, may overflow
    used = used / unit
    lengths = op.vector_norm(used, ord=norm_type, axis=-1, keepdims=True)
    long = lengths[:, 0] > (max_norm / unit)[:, 0]
    if long.any():
        cut_down = used * (max_norm / (lengths + 1e-7 / unit))
        table[rows[long]] = cut_down[long].astype(table.dtype)
        note_write(table, f"{owner}(max_norm=)")


class _Table(Module):
    """weight (num_embeddings, embedding_dim), normally distributed; padding_idx a row of zeros"""

    def _setup(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        max_norm: float | None, norm_type: float, scale_grad_by_freq: bool, sparse: bool,
        weight: Any, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"{type(self).__name__}: padding_idx={padding_idx} is not a row of a table of "
                f"{num_embeddings}"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if weight is not None:
            if weight.shape != shape:
                raise ValueError(
                    f"{type(self).__name__}: a table {shape} is wanted, the one given is "
                    f"{describe(weight)}"
                )
            self.weight = Parameter(weight)
            return
        self.weight = Parameter(create.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, *options: Any, **named: Any
    ) -> Any:
        """A layer around a given table (num_embeddings, embedding_dim); frozen by default.

        The other arguments are the class's own after embedding_dim.
        """
        table = create.as_tensor(embeddings)
        if table.ndim != 2:
            raise ValueError(
                f"{cls.__name__}.from_pretrained: a table has two axes, got {describe(table)}"
            )
        make: Any = cls
        layer = make(*table.shape, *options, **named, _weight=table)
        layer.requires_grad_(not freeze)
        return layer

    def rows(self, taken: Any, indices: Tensor) -> Tensor:
        """weight[taken], for the indices of the call."""
        return rows_of(self.weight, taken, indices, self.padding_idx, self.scale_grad_by_freq)

    def renormalise(self, indices: Tensor) -> None:
        """Scale rows in use that are longer than max_norm down to it, in place."""
        if self.max_norm is not None:
            cut(self.weight, indices, self.max_norm, self.norm_type, type(self).__name__)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        defaults = {
            "padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False,
        }  # fmt: skip
        given = {name: getattr(self, name) for name in defaults}
        return text + "".join(f", {k}={v}" for k, v in given.items() if v != defaults[k])


class Embedding(_Table):
    """y = weight[indices] ;  indices integers of any shape, y (*indices.shape, embedding_dim)

    The row padding_idx gets no gradient. With max_norm rows in use are first cut to this norm, in
    place. With scale_grad_by_freq a row's gradient is divided by its count in the indices. sparse=
    has no effect: the table's gradient is dense, with the same numbers.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        *,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self._setup(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device, dtype,
        )  # fmt: skip

    def forward(self, indices: Any) -> Tensor:
        indices = create.as_tensor(indices, device=self.weight.device)
        self.renormalise(indices)
        return self.rows(indices, indices)


class EmbeddingBag(_Table):
    """The sum, mean or largest value of the rows in each bag ;  y (bags, embedding_dim)

    indices (bags, n), or (total,) with offsets (bags,), where each bag starts. With
    include_last_offset offsets are (bags + 1,), and the last one ends the last bag. PyTorch 2.13
    ignores that end in some modes. An empty bag gives zeros. per_sample_weights, of indices' shape,
    scale the rows with mode="sum". Rows of padding_idx are left out. scale_grad_by_freq (not for
    mode="max") and sparse are as in Embedding. On the CPU, PyTorch 2.13 divides by the counts of
    other rows if indices are not sorted.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode is 'sum', 'mean' or 'max', got {mode!r}")
        if scale_grad_by_freq and mode == "max":
            raise ValueError("EmbeddingBag: scale_grad_by_freq needs mode='sum' or 'mean'")
        self.mode = mode
        self.include_last_offset = include_last_offset
        self._setup(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device, dtype,
        )  # fmt: skip

    def forward(self, indices: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        indices = create.as_tensor(indices, device=self.weight.device)
        if per_sample_weights is not None and self.mode != "sum":
            raise ValueError("EmbeddingBag: per_sample_weights need mode='sum'")
        if per_sample_weights is not None and per_sample_weights.shape != indices.shape:
            raise ValueError(
                "EmbeddingBag: per_sample_weights must have the indices' shape "
                f"{indices.shape}, got {describe(per_sample_weights)}"
            )
        self.renormalise(indices)
        rows = self._bags(indices, offsets)
        flat = constant_of_each(indices).reshape(-1)
        # bag i's rows side by side, filled up with an empty row
        kept, places = rows >= 0, np.maximum(rows, 0)
        taken = flat[places] if flat.size else np.zeros_like(places)
        if self.padding_idx is not None:
            kept = kept & (taken != self.padding_idx)
        y = self.rows(taken, indices)
        if per_sample_weights is not None and flat.size:
            weights = op.take(op.reshape(per_sample_weights, shape=-1), places)
            y = y * op.expand_dims(weights, axis=-1)
        count = kept.sum(1)
        if self.mode == "max":
            y = op.max(op.where(kept[:, :, None], y, -np.inf), axis=1)
            return op.where(count[:, None] > 0, y, 0.0)
        y = op.sum(op.where(kept[:, :, None], y, 0.0), axis=1)
        if self.mode == "sum":
            return y
        return y / np.maximum(count, 1)[:, None].astype(y.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"

    def _bags(self, indices: Tensor, offsets: Any) -> Any:
        """(bags, longest bag): places in the flat indices, −1 where a bag has no more."""
        if indices.ndim == 2 and offsets is None:
            return resolve(indices.device).arange(indices.size).reshape(indices.shape)
        if indices.ndim != 1 or offsets is None:
            raise ValueError(
                "EmbeddingBag: give indices (bags, n), or indices (total,) with offsets (bags,); "
                f"got indices {describe(indices)}, offsets {offsets!r}"
            )
        instead = "; give indices (bags, n), filled up with padding_idx"
        starts = to_host(constant_array(create.as_tensor(offsets), "offsets", instead))
        if starts.dtype.kind not in "iu":
            raise TypeError(f"EmbeddingBag: offsets are integers, got {describe(starts)}")
        if self.include_last_offset and not starts.size:
            raise ValueError(
                "EmbeddingBag: with include_last_offset the offsets are (bags + 1,), one at least; "
                "got none"
            )
        ends = [*starts[1:], indices.size]
        if self.include_last_offset:
            starts, ends = starts[:-1], starts[1:]
        lengths = np.asarray(ends) - starts
        if starts.size and (starts[0] != 0 or (lengths < 0).any() or ends[-1] > indices.size):
            raise ValueError(
                f"EmbeddingBag: offsets must start at 0, not fall, and end within the "
                f"{indices.size} indices, got {create.as_tensor(offsets).tolist()}"
            )
        width = np.arange(max(lengths.max(initial=0), 1))
        places = np.where(width < lengths[:, None], starts[:, None] + width, -1)
        return to_device(places, indices.device)
