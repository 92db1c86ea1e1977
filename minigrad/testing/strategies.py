"""Hypothesis strategies for array programs: shapes, broadcasts, axes, indices, dtypes, arrays.

@given(arrays(shapes()))
def test_sum(x): ...
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ..backends.dtypes import bfloat16

__all__ = ["arrays", "axes", "broadcastable", "dtypes", "indices", "reduction_axes", "shapes"]

_FLOATS = ("float16", "float32", "float64")


def shapes(
    min_dims: int = 0, max_dims: int = 4, min_side: int = 0, max_side: int = 5
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes, including 0-d and empty ones."""
    sides = st.integers(min_side, max_side)
    return st.lists(sides, min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def broadcastable(
    draw: st.DrawFn, count: int = 2, max_dims: int = 4, max_side: int = 5, empty: bool = True
) -> tuple[tuple[int, ...], ...]:
    """`count` shapes that broadcast together: axes set to 1, leading axes left out."""
    full = draw(shapes(0, max_dims, 0 if empty else 1, max_side))
    found = []
    for _ in range(count):
        sides = tuple(1 if draw(st.booleans()) else side for side in full)
        found.append(sides[draw(st.integers(0, len(sides))) :])
    return tuple(found)


def axes(ndim: int) -> st.SearchStrategy[int]:
    """One axis of an array with ndim ≥ 1 axes, counted from either end."""
    return st.integers(-ndim, ndim - 1)


@st.composite
def reduction_axes(draw: st.DrawFn, ndim: int) -> None | int | tuple[int, ...]:
    """Valid values of a reduction's `axis=`: None, an axis, or a tuple of different ones."""
    if ndim == 0:
        return draw(st.sampled_from([None, ()]))
    some = st.sets(st.integers(0, ndim - 1)).map(sorted)
    several = some.map(lambda chosen: tuple(i - ndim if i % 2 else i for i in chosen))
    return draw(st.one_of(st.none(), axes(ndim), several))


def dtypes(
    floating: bool = True, complex: bool = False, integer: bool = False, brain: bool = False
) -> st.SearchStrategy[np.dtype]:
    """Dtypes of the requested kinds; `brain` adds bfloat16 if ml_dtypes is installed."""
    names: list[Any] = list(_FLOATS) if floating else []
    names += ["complex64", "complex128"] if complex else []
    names += ["bool", "int8", "int32", "int64", "uint8"] if integer else []
    names += [bfloat16] if brain and bfloat16 is not None else []
    return st.sampled_from([np.dtype(name) for name in names])


@st.composite
def arrays(
    draw: st.DrawFn,
    shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] = (),
    dtype: Any = "float64",
    bound: float = 3.0,
    apart: float = 0.0,
) -> np.ndarray:
    """Values in [−bound, bound] of this dtype; with `apart`, no two nearer than that (no ties).

    The values come from a seed that hypothesis draws: examples stay small and shrink to seed 0.
    """
    wanted = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    dtype = draw(dtype) if isinstance(dtype, st.SearchStrategy) else np.dtype(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    size = int(np.prod(wanted))
    values = rng.uniform(-bound, bound, size)
    if apart:
        values = (rng.permutation(size) - size / 2 + 0.25) * max(apart, 2 * bound / max(size, 1))
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-bound, bound, size)
    elif dtype.kind == "b":
        values = values > 0
    elif dtype.kind == "u":
        values = np.abs(values)
    return values.reshape(wanted).astype(dtype)


@st.composite
def indices(draw: st.DrawFn, shape: Sequence[int], advanced: bool = True) -> Any:
    """Indices in x[...] for this shape: slices, integers, None, ..., arrays, masks."""
    shape = tuple(shape)
    basic = hnp.basic_indices(shape, allow_newaxis=True)
    if not advanced or not shape or 0 in shape:
        return draw(basic)
    kind = draw(st.sampled_from(["basic", "integers", "mask"]))
    if kind == "basic":
        return draw(basic)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if kind == "mask":
        leading = draw(st.integers(1, len(shape)))
        return rng.random(shape[:leading]) < 0.5
    count = draw(st.integers(1, len(shape)))
    length = draw(st.integers(0, 4))
    return tuple(rng.integers(-side, side, length) for side in shape[:count])
