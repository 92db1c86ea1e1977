"""Standard deviations at the ends of the numbers."""

import warnings

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("dtype, size", [("float32", 1e-30), ("float32", 3e20), ("float32", 1e37),
                                         ("complex64", 1e25), ("float64", 1e-200),
                                         ("float64", 1e200)])  # fmt: skip
@pytest.mark.parametrize("axis, keepdims", [(None, False), (1, False), (0, True)])
def test_std_of_values_whose_squares_are_no_numbers_is_std_to_scale(dtype, size, axis, keepdims):
    values = np.random.default_rng(0).standard_normal((3, 5)) * (1 + 2j)
    values = (values if dtype == "complex64" else values.real).astype(dtype)
    x, unit = (mg.tensor(values * v, dtype=dtype, requires_grad=True) for v in (size, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, expected = (mg.std(v, axis=axis, keepdims=keepdims) for v in (x, unit))
    np.testing.assert_allclose(y.numpy() / size, expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        mg.grad(y.sum(), x).numpy(), mg.grad(expected.sum(), unit).numpy(), rtol=1e-4
    )


def test_a_row_out_of_range_leaves_the_others_their_bits():
    rows = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    y = mg.std(mg.tensor(np.concatenate([rows, rows[:1] * np.float32(1e30)])), axis=1)
    assert np.array_equal(y.numpy()[:3], np.std(rows, axis=1))


def test_std_of_infinite_values_is_nan():
    with np.errstate(invalid="ignore"):
        assert np.isnan(mg.std(mg.tensor([np.inf, 1.0, 2.0])).item())
