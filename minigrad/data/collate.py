"""Rows put together into a batch."""

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor


def stacked(rows: list) -> Any:
    """Rows side by side as NumPy arrays: arrays and numbers stacked, tuples and dictionaries by
    their parts, texts in a list.

    ValueError where the shapes of arrays differ: pad them, or give a collate_fn. TypeError where
    only some rows are text: NumPy would make text of the others too. TypeError also for None or an
    object: NumPy's array of it is of no use in computations.
    """
    first = rows[0]
    texts = [isinstance(row, str | bytes) for row in rows]
    if any(texts) and not all(texts):
        raise TypeError(
            f"a batch of texts and others: {first!r} and {rows[texts.index(not texts[0])]!r}; "
            "give the loader a collate_fn that says what such a batch is"
        )
    if isinstance(first, Mapping):
        return {key: stacked([row[key] for row in rows]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(row) != len(first) for row in rows):
            raise ValueError("the rows of a batch have different numbers of parts")
        parts = [stacked(list(column)) for column in zip(*rows, strict=True)]
        named = hasattr(first, "_fields")
        return type(first)(*parts) if named else type(first)(parts)
    if texts[0]:
        return rows
    arrays = [np.asarray(row.data if isinstance(row, Tensor) else row) for row in rows]
    for row, array in zip(rows, arrays, strict=True):
        if array.dtype.kind == "O":
            hint = ": does __getitem__ return its row?" if row is None else "."
            raise TypeError(
                f"a batch is made of arrays, numbers and texts, in tuples or dictionaries; got "
                f"{reprlib.repr(row)}, a {type(row).__name__}{hint} A collate_fn given to the "
                "loader can make batches of anything"
            )
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise ValueError(
            f"a batch needs arrays of one shape, got {sorted(shapes)}; pad them in the data set, "
            "or give the loader a collate_fn. Arrays x and y are one data set as ArrayDataset(x, y)"
        )
    return np.stack(arrays)


def as_tensors(batch: Any) -> Any:
    """The arrays of a batch as tensors, in any container."""
    if isinstance(batch, np.ndarray):
        return as_tensor(batch) if batch.dtype.kind not in "OUS" else batch
    if isinstance(batch, Mapping):
        return {key: as_tensors(part) for key, part in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [as_tensors(part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def default_collate(rows: list) -> Any:
    """A batch of tensors from a list of rows, made as the rows are: of tuples, a tuple."""
    batch = stacked(rows)
    return as_tensors(batch)
