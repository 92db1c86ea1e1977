"""Shapes, joins, products and indices agree with NumPy's."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad.array_api as xp
from tests.array_api.oracle import (
    ALL,
    FLOAT,
    NUMERIC,
    arrays,
    assert_same,
    axes,
    compare,
    few,
    more,
    several,
    shapes,
    to_tensors,
)

pytestmark = [
    pytest.mark.promise("the array API standard"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@given(st.data())
@more
def test_functions_of_shape_agree(data):
    x = data.draw(arrays(ALL, shapes(min_dims=1)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    repeats = data.draw(st.integers(0, 3))
    compare("flip", x, axis=data.draw(axes(x)))
    compare("roll", x, repeats, axis=data.draw(axes(x, many=False)))
    compare("moveaxis", x, axis, 0)
    compare("permute_dims", x, axes=tuple(order))
    compare("expand_dims", x, axis=axis)
    compare("squeeze", x, axis=axis)
    compare("reshape", x, (-1, x.shape[-1]))
    compare("repeat", x, repeats, axis=axis)
    compare("repeat", x, np.arange(x.shape[axis]), axis=axis)
    compare("tile", x, (2, repeats))
    compare("unstack", x, axis=axis)
    compare("broadcast_to", x, (2, *x.shape))
    compare("matrix_transpose", x)
    compare("tril", x, k=1)
    compare("triu", x, k=-1)


@given(several(ALL, 2))
@more
def test_joins_agree(xs):
    compare("broadcast_arrays", *xs)
    compare("concat", list(xs), axis=None)
    compare("concat", list(np.broadcast_arrays(*xs)), axis=0)
    compare("stack", list(np.broadcast_arrays(*xs)), axis=-1)
    assert_same(xp.meshgrid(*[xp.asarray(x.ravel()) for x in xs], indexing="ij"),
                list(np.meshgrid(*[x.ravel() for x in xs], indexing="ij")))  # fmt: skip


@given(arrays(ALL, (3, 2)), hnp.arrays("int64", (4,), elements=st.integers(-3, 2)))
@few
def test_takes_agree(x, indices):
    compare("take", x, indices, axis=0)
    compare("take_along_axis", x, indices.reshape(2, 2), axis=0)


def bounded(dtypes):
    """Values whose products and sums neither overflow nor vanish."""
    return arrays(dtypes, (3, 3)).map(
        lambda x: np.nan_to_num(x % 7 if x.dtype.kind != "c" else x * 0 + 2)
    )


@given(bounded(NUMERIC), bounded(FLOAT))
@few
def test_products_agree(a, b):
    for x, y in ((a, a), (a, b)):
        compare("matmul", x, y, rtol=1e-5)
        compare("vecdot", x, y, axis=0, rtol=1e-5)
        compare("tensordot", x, y, axes=1, rtol=1e-5)
        compare("tensordot", x, y, axes=((0,), (1,)), rtol=1e-5)


@given(st.data())
@more
def test_reading_and_writing_by_index_agree(data):
    x = data.draw(arrays(ALL, shapes(min_dims=1, min_side=1)))
    basic = hnp.basic_indices(x.shape, allow_newaxis=True)
    mask = hnp.arrays(bool, x.shape)
    key = data.draw(st.one_of(basic, hnp.integer_array_indices(x.shape), mask))
    y = xp.asarray(x, copy=True)
    assert_same(y[to_tensors(key)], x[key])
    value = data.draw(hnp.from_dtype(x.dtype))
    expected = x.copy()
    expected[key] = value
    y[to_tensors(key)] = xp.asarray(value) if data.draw(st.booleans()) else value.item()
    assert_same(y, expected)


def test_clip_keeps_the_dtype_of_its_array():
    x = xp.asarray([1, 5, 9], dtype=xp.int16)
    assert xp.clip(x, 2, 6).tolist() == [2, 5, 6]
    y = xp.clip(xp.asarray([1.0, 5.0], dtype=xp.float32), xp.asarray(2.0, dtype=xp.float64))
    assert y.dtype == xp.float32 and y.tolist() == [2, 5]
