"""Sums and maxima along rows, by whichever way: what NumPy's own reductions give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.ops.row_sums import (
    FEW,
    FEW_MAXIMA,
    LEAST_FOLDED,
    folds,
    largest_over,
    sum_of_rows,
    sum_over,
)

AXES = [(1,), (2,), (1, 2), (0, 1, 2), (0,), (0, 2), ()]


def numbers(shape: tuple, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@given(st.sampled_from(AXES), st.tuples(*[st.integers(1, 40)] * 3), st.booleans())
def test_the_largest_keeps_the_axes_and_is_numpys(axis, shape, many):
    x = np.repeat(numbers(shape), 1 + FEW_MAXIMA // 8 if many else 1, axis=0)
    np.testing.assert_array_equal(largest_over(x, axis), x.max(axis, keepdims=True))


@pytest.mark.parametrize("rows", [4, FEW_MAXIMA])
def test_a_row_with_nan_has_the_maximum_nan_and_no_other_row_has(rows):
    x = numbers((rows, 7))
    x[1, 3] = np.nan
    top = largest_over(x, (1,))
    assert np.isnan(top[1]) and np.isnan(top).sum() == 1


@pytest.mark.parametrize("rows", [4, FEW_MAXIMA])
def test_a_transposed_array_has_the_maxima_of_its_columns(rows):
    x = numbers((7, rows)).T
    np.testing.assert_array_equal(largest_over(x, (1,)), x.max(1, keepdims=True))


@pytest.mark.parametrize("shape", [(200, 7), (3, 100, 24), (4, 24)])
def test_sums_of_short_rows_are_numpys_but_for_rounding(shape):
    x, axis = numbers(shape), (len(shape) - 1,)
    for a in (x, x[..., ::-1], np.asfortranarray(x)):
        expected = a.sum(-1, keepdims=True, dtype=np.float64)
        sums = sum_over(a, axis, x.dtype)
        assert sums.dtype == x.dtype and sums.shape == expected.shape
        np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axis", AXES[:-1])
def test_sums_keep_the_axes_and_are_numpys_but_for_rounding(axis):
    x = numbers((30, 20, 50), np.float64)
    expected = x.sum(axis, keepdims=True)
    np.testing.assert_allclose(sum_over(x, axis, np.dtype(float)), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", [(4096, 10), (8192, 64), (300, 1000), (257, 33), (1024, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_many_short_rows_are_added_up_together(shape, dtype):
    x = numbers(shape, dtype)
    assert folds(x) == (x.size >= FEW and shape[0] >= LEAST_FOLDED)
    total, exact = sum_of_rows(x), x.sum(0, dtype=np.result_type(dtype, np.float64))
    assert total.shape == exact.shape and total.dtype == dtype
    np.testing.assert_allclose(total, exact, rtol=0, atol=64 * len(x) ** 0.5 * np.finfo(dtype).eps)


def test_few_long_rows_whole_numbers_and_gaps_are_left_to_numpy():
    for x in (numbers((100, 1000)), np.ones((4096, 10), int), numbers((4096, 20))[:, ::2]):
        assert not folds(x)


@pytest.mark.parametrize("axis, shape", [(0, (4096, 10)), ((0, 1), (64, 64, 10)), ((0,), (512, 8))])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_sum_over_the_leading_axes_is_numpys_but_for_rounding(axis, shape, keepdims):
    x = numbers(shape)
    total = mg.sum(mg.tensor(x), axis=axis, keepdims=keepdims)
    exact = x.sum(axis, dtype=np.float64, keepdims=keepdims)
    assert total.shape == exact.shape
    np.testing.assert_allclose(total.numpy(), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("places_first", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_channels_are_numpys_in_both_orders_of_memory(places_first, keepdims):
    x = numbers((32, 16, 12, 10))
    if places_first:
        x = np.ascontiguousarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)
    total = mg.sum(mg.tensor(x), axis=(0, 2, 3), keepdims=keepdims)
    exact = x.sum((0, 2, 3), dtype=np.float64, keepdims=keepdims)
    assert total.shape == exact.shape
    np.testing.assert_allclose(total.numpy(), exact, rtol=0, atol=1e-4)
