"""Quantiles: NumPy's values, gradients in the elements and in the share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad.testing import gradcheck

VALUES = st.floats(-2, 2, width=32)
few = settings(max_examples=40)


@pytest.mark.parametrize(
    "method",
    ["linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased",
     "normal_unbiased", "interpolated_inverted_cdf", "inverted_cdf", "averaged_inverted_cdf",
     "closest_observation"],
)  # fmt: skip
@given(x=hnp.arrays(np.float64, st.integers(1, 9), elements=VALUES), q=st.floats(0, 1))
@few
def test_quantile_is_numpys_by_every_method(method, x, q):
    y = mg.quantile(mg.tensor(x), q, method=method)
    np.testing.assert_allclose(y.numpy(), np.quantile(x, q, method=method), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["linear", "weibull", "interpolated_inverted_cdf"])
def test_quantile_is_differentiable_in_its_share(method):
    x, q = np.array([[1.0, 3.0, 7.0, 4.0, 2.0], [0.0, 2.0, 1.0, 5.0, 9.0]]), np.array([0.33, 0.62])
    assert gradcheck(lambda x, q: mg.quantile(x, q, axis=1, method=method), (x, q))
    assert gradcheck(lambda x, q: mg.percentile(x, 100 * q, axis=1, method=method), (x, q))


def test_a_share_of_whole_rank_has_a_gradient_of_zero_as_in_pytorch():
    q = mg.tensor([0.25, 0.5, 1.0], requires_grad=True)
    mg.quantile(mg.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), q).sum().backward()
    assert q.grad.tolist() == [0, 0, 0]


def test_quantile_next_to_infinity_is_not_nan():
    assert mg.quantile(mg.tensor([1.0, 2.0, np.inf]), 0.5).item() == 2


@pytest.mark.parametrize("method", ["inverted_cdf", "averaged_inverted_cdf", "closest_observation"])
@pytest.mark.parametrize("n", [1, 4, 5, 10])
def test_a_quantile_at_a_step_of_the_distribution_is_numpys(method, n):
    x, q = np.random.default_rng(0).permutation(n), np.arange(2 * n + 1) / (2 * n)
    y, expected = mg.quantile(mg.tensor(x), q, method=method), np.quantile(x, q, method=method)
    assert y.dtype == expected.dtype and np.array_equal(y.numpy(), expected)


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanquantile"])
def test_a_number_has_no_axis_to_take_a_quantile_along(name):
    q = () if "median" in name else (0.5,)
    assert getattr(mg, name)(mg.tensor(2.0), *q).item() == 2
    for axis in (0, -1):
        with pytest.raises(np.exceptions.AxisError, match=rf"{name}\(x: float64 \(\)"):
            getattr(mg, name)(mg.tensor(2.0), *q, axis=axis)
