"""Sums and maxima along rows, by whichever way: what NumPy's own reductions give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.ops.row_sums import FEW_MAXIMA, largest_over, sum_over

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
