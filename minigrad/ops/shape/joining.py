"""Joining arrays: along an axis they have, or along a new one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends.dtypes import in_one_dtype, is_floating, resolve_dtype
from ...engine.errors import describe
from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axis_of, both_arrays
from ..batching import joining

__all__ = ["append", "column_stack", "concatenate", "dstack", "hstack", "stack", "vstack"]


@linear
def concatenate_arrays(*arrays, axis=0):
    """The arrays one after the other along `axis`; each gets back its own section of g."""
    return np.concatenate(in_one_dtype(*arrays), axis)


@concatenate_arrays.vjp
def concatenate_arrays_dx(g, arrays_shape, axis, needs):
    axis = axis_of(axis, g.ndim)
    before = (slice(None),) * axis
    gradients, start = [], 0
    for shape, need in zip(arrays_shape, needs):
        stop = start + shape[axis]
        gradients.append(g[(*before, slice(start, stop))] if need else None)
        start = stop
    return gradients


@linear
def stack_arrays(*arrays, axis=0):
    """The arrays side by side along a new axis; each gets back its own slice of g."""
    return np.stack(in_one_dtype(*arrays), axis)


@stack_arrays.vjp
def stack_arrays_dx(g, axis, needs):
    before = (slice(None),) * axis_of(axis, g.ndim)
    return [g[(*before, i)] if need else None for i, need in enumerate(needs)]


concatenate_arrays.batch(joining)
stack_arrays.batch(joining)
concatenate_arrays.called, stack_arrays.called = "concatenate", "stack"


@composite(numpy=np.concatenate)
def concatenate(arrays: Sequence, axis: int | None = 0, dtype: Any = None) -> Any:
    """The arrays one after the other along `axis`; axis=None joins them flattened.

    Shapes agree in every other axis, else ValueError. dtype= casts the result.
    """
    arrays = _listed(arrays, "concatenate", axis)
    if axis is None:
        arrays, axis = [op.reshape(x, shape=-1) for x in arrays], 0
    return _cast(concatenate_arrays.apply(*arrays, axis=axis), dtype, "concatenate")


@composite(numpy=np.stack)
def stack(arrays: Sequence, axis: int = 0, dtype: Any = None) -> Any:
    """Arrays of one shape side by side along a new axis: n arrays (…) give (n, …) for axis=0."""
    return _cast(stack_arrays.apply(*_listed(arrays, "stack", axis), axis=axis), dtype, "stack")


def _cast(y: Any, dtype: Any, name: str) -> Any:
    """y in the dtype asked for, which must be of its kind: NumPy's casting="same_kind"."""
    wanted = None if dtype is None else resolve_dtype(dtype)
    if wanted is None:
        return y
    real = is_floating(y.dtype) and is_floating(wanted)
    if y.dtype.kind == "c" != wanted.kind or not (
        real or np.can_cast(y.dtype, wanted, "same_kind")
    ):
        raise TypeError(f"{name}: dtype={wanted} would cut off parts of {y.dtype}; if that is "
                        f"meant, {name} first, then y.astype({wanted.name!r})")  # fmt: skip
    return y.astype(wanted)


def _listed(arrays: Any, name: str, axis: Any) -> list:
    """The arrays, each a separate input; a tensor means the slices along its first axis."""
    if getattr(axis, "ndim", 0):
        raise TypeError(
            f"{name}: axis is {describe(axis)}; pass the arrays as one list, {name}([a, b], axis=0)"
        )
    arrays = list(arrays)
    if not arrays:
        raise ValueError(f"{name}: needs at least one array, got an empty sequence")
    return arrays


@composite(numpy=np.vstack)
def vstack(arrays: Sequence, *, dtype: Any = None) -> Any:
    """Rows on top of one another: (n,) counts as (1, n), then concatenate along axis 0."""
    return concatenate([op.atleast_2d(x) for x in arrays], axis=0, dtype=dtype)


@composite(numpy=np.hstack)
def hstack(arrays: Sequence, *, dtype: Any = None) -> Any:
    """Side by side: concatenate along axis 1, or along axis 0 for 1-d arrays."""
    arrays = [op.atleast_1d(x) for x in arrays]
    return concatenate(arrays, axis=0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype)


@composite(numpy=np.dstack)
def dstack(arrays: Sequence) -> Any:
    """One after the other: concatenate along the third axis."""
    return concatenate([op.atleast_3d(x) for x in arrays], axis=2)


@composite(numpy=np.column_stack)
def column_stack(arrays: Sequence) -> Any:
    """1-d arrays as the columns of a matrix; 2-d arrays as they are."""
    arrays = [array_like(x) for x in arrays]
    return concatenate([x.reshape((x.size, 1)) if x.ndim < 2 else x for x in arrays], axis=1)


@composite(numpy=np.append)
def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """concatenate of two; axis=None flattens both."""
    return concatenate(both_arrays(x, values), axis=axis)
