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


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanquantile"])
def test_a_number_has_no_axis_to_take_a_quantile_along(name):
    q = () if "median" in name else (0.5,)
    assert getattr(mg, name)(mg.tensor(2.0), *q).item() == 2
    for axis in (0, -1):
        with pytest.raises(np.exceptions.AxisError, match=rf"{name}\(x: float64 \(\)"):
            getattr(mg, name)(mg.tensor(2.0), *q, axis=axis)


ROWS = np.random.default_rng(0).standard_normal((3, 4))
COUNTS = np.array([[1.0, 2, 0, 3], [0, 1, 1, 1], [2, 0.5, 1, 0]])


@pytest.mark.parametrize("f", [mg.quantile, np.quantile, np.nanquantile])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0, [0.2, 0.8]])
def test_a_weighted_quantile_is_numpys(f, axis, q):
    options = {"axis": axis, "weights": COUNTS, "method": "inverted_cdf", "keepdims": True}
    np.testing.assert_array_equal(
        f(mg.tensor(ROWS), q, **options).numpy(), np.quantile(ROWS, q, **options)
    )


def test_weights_of_a_quantile_may_be_given_along_its_axis():
    options = {"axis": 1, "weights": COUNTS[0], "method": "inverted_cdf"}
    y, expected = (np.percentile(v, [25.0, 70.0], **options) for v in (mg.tensor(ROWS), ROWS))
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_weighted_quantile_of_whole_numbers_is_one_of_them():
    x = np.array([3, 1, 2])
    y = np.quantile(mg.tensor(x), 0.5, weights=[1, 1, 3], method="inverted_cdf")
    assert y.dtype == x.dtype and y.item() == 2


def test_a_weighted_quantile_gives_its_gradient_to_the_element_that_it_is():
    leaf = mg.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y = mg.quantile(leaf, 0.5, weights=[5, 1, 1], method="inverted_cdf")
    assert mg.grad(y, leaf).tolist() == [1, 0, 0]
    options = {"axis": 1, "weights": COUNTS, "method": "inverted_cdf"}
    assert gradcheck(lambda x: mg.quantile(x, [0.2, 0.7], **options), ROWS)


def test_a_nan_makes_a_weighted_quantile_nan_and_is_passed_over_by_nanquantile():
    x = np.array([np.nan, 1.0, 2.0, 3.0])
    options = {"weights": np.array([9.0, 1, 1, 1]), "method": "inverted_cdf"}
    for f in (np.quantile, np.nanquantile, np.nanpercentile):
        np.testing.assert_array_equal(f(mg.tensor(x), 0.5, **options), f(x, 0.5, **options))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "linear", "weights": COUNTS}, "inverted_cdf.*got method='linear'"),
        ({"method": "inverted_cdf", "weights": -COUNTS}, "finite and 0 or more"),
        ({"method": "inverted_cdf", "weights": COUNTS * 0}, "all weights of a result are 0"),
        ({"method": "inverted_cdf", "weights": COUNTS[0]}, r"weights \(4,\) must have x's shape"),
    ],
)
def test_weights_that_a_quantile_has_no_meaning_for_are_refused(options, message):
    for f in (np.quantile, np.nanquantile):
        with pytest.raises(ValueError, match=f"quantile: .*{message}"):
            f(mg.tensor(ROWS), 0.5, **options)


@pytest.mark.parametrize("name", ["percentile", "nanpercentile"])
@pytest.mark.parametrize("q", [150, [-1, 50], float("nan")])
def test_a_percentage_that_is_none_is_answered_with_the_range_of_percentages(name, q):
    with pytest.raises(ValueError, match=f"^{name}: q must lie between 0 and 100"):
        getattr(mg, name)(mg.ones(3), q)


def test_a_quantile_of_nothing_names_the_array_and_the_axis():
    with pytest.raises(ValueError, match=r"quantile: x \(0, 3\) has no element for axis=0"):
        mg.quantile(mg.zeros((0, 3)), 0.5, axis=0)
    assert mg.quantile(mg.zeros((0, 3)), 0.5, axis=1).shape == (0,)
