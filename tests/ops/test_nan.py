"""Reductions over values with NaN: NumPy's values, gradients that are 0 at every NaN."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg

REDUCTIONS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]


@st.composite
def holed(draw):
    """An array of up to three axes in which any elements may be NaN, and an axis."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    x = rng.standard_normal(shape)
    x[rng.random(shape) < draw(st.floats(0, 0.6))] = np.nan
    return x, draw(st.none() | st.integers(-len(shape), len(shape) - 1))


@pytest.mark.parametrize("name", REDUCTIONS)
@given(case=holed(), keepdims=st.booleans())
@settings(max_examples=40)
def test_value_is_numpys(name, case, keepdims):
    x, axis = case
    with warnings.catch_warnings(action="ignore"):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    with np.errstate(all="ignore"):
        y = getattr(mg, name)(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nancumsum"])
@given(case=holed())
@settings(max_examples=20)
def test_gradient_is_zero_at_every_nan(name, case):
    x = mg.tensor(case[0], requires_grad=True)
    y = getattr(mg, name)(x, axis=case[1])
    g = mg.grad(y, x, np.ones(y.shape)).numpy()
    assert np.isfinite(g).all()
    assert (g[np.isnan(case[0])] == 0).all()


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanmax", "nanmedian"])
def test_without_nan_it_is_the_plain_reduction(name):
    x = mg.tensor(np.random.default_rng(0).standard_normal((3, 4)), requires_grad=True)
    plain, passing = (getattr(mg, n)(x, axis=1) for n in (name[3:], name))
    np.testing.assert_allclose(passing.numpy(), plain.numpy(), rtol=1e-13)
    g = np.arange(1.0, 4)
    np.testing.assert_allclose(
        mg.grad(passing, x, g).numpy(), mg.grad(plain, x, g).numpy(), rtol=1e-12
    )


def test_quantiles_of_rows_with_different_counts():
    x = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan, np.nan, 5.0, np.nan]])
    np.testing.assert_allclose(
        mg.nanquantile(x, [0.25, 1.0], axis=1), np.nanquantile(x, [0.25, 1.0], axis=1)
    )
    np.testing.assert_allclose(mg.nanpercentile(x, 40, axis=1), np.nanpercentile(x, 40, axis=1))


def test_a_quantile_between_two_elements_shares_its_gradient_by_weight():
    x = mg.tensor([0.0, np.nan, 10.0], requires_grad=True)
    mg.nanquantile(x, 0.25).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.75, 0.0, 0.25])


def test_a_share_outside_0_to_1_is_refused():
    with pytest.raises(ValueError, match="q must lie between 0 and 1, got 1.5"):
        mg.nanquantile(np.ones(3), 1.5)


def test_numpys_functions_record():
    x = mg.tensor([1.0, np.nan], requires_grad=True)
    assert np.nanmean(x).item() == 1.0
    assert np.nanmean(x).grad_fn is not None


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
def test_a_dtype_that_is_asked_for_is_that_of_the_result(name):
    x = np.array([1.0, np.nan, 2.5])
    for asked in (np.float32, np.float64):
        y = getattr(np, name)(mg.tensor(x), dtype=asked)
        assert y.dtype == asked
        np.testing.assert_allclose(y.numpy(), getattr(np, name)(x), rtol=1e-6)


@pytest.mark.parametrize("name", ["nanvar", "nanstd"])
def test_correction_is_another_name_for_ddof(name):
    x = mg.tensor([1.0, np.nan, 2.5])
    assert getattr(mg, name)(x, correction=1).item() == getattr(mg, name)(x, ddof=1).item()


@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_where_all_are_nan_there_is_no_element_to_name(name):
    x = mg.tensor([[np.nan, np.nan], [1.0, np.nan]])
    with pytest.raises(ValueError, match=f"{name}: All-NaN slice encountered, 1 of 2"):
        getattr(mg, name)(x, axis=1)


@pytest.mark.parametrize(
    "method",
    ["linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased",
     "normal_unbiased", "interpolated_inverted_cdf", "inverted_cdf", "averaged_inverted_cdf",
     "closest_observation"],
)  # fmt: skip
def test_nanquantile_has_numpys_methods(method):
    x = np.random.default_rng(0).standard_normal((4, 6))
    x[x > 0.9] = np.nan
    for axis in (None, 0, 1):
        found = np.nanquantile(mg.tensor(x), [0.1, 0.5, 0.77, 1], axis=axis, method=method)
        expected = np.nanquantile(x, [0.1, 0.5, 0.77, 1], axis=axis, method=method)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    percent = np.nanpercentile(mg.tensor(x), 77, method=method).item()
    assert percent == np.nanquantile(mg.tensor(x), 0.77, method=method).item()


def test_a_median_of_booleans_is_that_of_zeros_and_ones():
    x = mg.tensor([[True, False, True], [False, False, True]])
    assert mg.nanmedian(x, axis=1).tolist() == [1.0, 0.0] and mg.nanmedian(x).item() == 0.5


def test_quantiles_need_numbers_with_an_order():
    x = mg.tensor([1 + 2j, 3])
    for f in (mg.quantile, mg.percentile, mg.nanquantile, np.nanpercentile):
        with pytest.raises(
            TypeError, match="(quantile|percentile).*: x must be real, got complex128"
        ):
            f(x, 0.5)
    with pytest.raises(TypeError, match=r"np\.digitize: x must be real"):
        np.digitize(x, [0, 1])


@pytest.mark.parametrize("f", [mg.nanmean, mg.nanvar, mg.nanstd, np.nanmean])
def test_a_mean_of_fractions_is_not_taken_of_whole_parts(f):
    x = mg.tensor([0.5, 0.5, np.nan, 1.5])
    with pytest.raises(TypeError, match=f"{f.__name__}: dtype=int64 would cut off the fractions"):
        f(x, dtype=np.int64)
    assert f(x.astype(np.float32), dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("x", [[-np.inf] * 2, [-np.inf, 1], [1, np.inf], [np.nan, np.inf, np.inf]])
def test_the_nanmedian_of_infinities_is_numpys(x):
    assert mg.nanmedian(mg.tensor(x)).item() == np.nanmedian(x)


def test_the_nanmedian_of_two_infinities_of_both_signs_is_nan():
    assert np.isnan(mg.nanmedian(mg.tensor([-np.inf, np.inf, np.nan])).item())


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
def test_over_many_float16_numbers_the_sum_and_their_number_are_not_infinite(name):
    x = np.random.default_rng(0).uniform(8, 12, 100_000).astype(np.float16)  # their sum is 10⁶
    x[::7] = np.nan
    low = mg.tensor(x, requires_grad=True)
    high = mg.tensor(x.astype(np.float64), requires_grad=True)
    y, expected = getattr(mg, name)(low), getattr(mg, name)(high)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.detach(), expected.detach(), rtol=1e-3)
    y.backward()
    expected.backward()
    np.testing.assert_allclose(low.grad, high.grad, atol=1e-7)


def test_nanvar_and_nanstd_of_float16_square_in_float32_as_var_and_std_do():
    x = mg.tensor(np.array([-300.0, 0.0, 300.0, np.nan], np.float16))
    np.testing.assert_allclose(mg.nanstd(x), 244.9, rtol=1e-3)
    np.testing.assert_allclose(mg.nanvar(x), 60000, rtol=1e-3)


def test_the_nanmean_of_large_whole_numbers_does_not_wrap_round():
    for dtype in (np.int64, np.uint64):
        x = np.full(3, np.iinfo(dtype).max)
        assert float(mg.nanmean(mg.tensor(x))) == float(x[0])
        assert float(mg.nanvar(mg.tensor(x))) == 0


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@pytest.mark.parametrize("method", ["linear", "lower"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize("q", [0.3, np.float32(0.3), np.float64(0.3), np.array([0.3, 0.4])])
def test_the_dtype_of_a_quantile_is_numpys(name, method, dtype, q):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    expected = getattr(np, name)(x, q, axis=1, method=method)
    y = getattr(mg, name)(mg.tensor(x), q, axis=1, method=method)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@pytest.mark.parametrize("options", [{}, {"method": "inverted_cdf", "weights": np.ones((2, 3))}])
def test_quantiles_at_no_place_are_an_empty_array(name, options):
    y = getattr(mg, name)(mg.ones(2, 3), np.zeros(0), axis=1, **options)
    expected = getattr(np, name)(np.ones((2, 3)), np.zeros(0), axis=1, **options)
    assert y.shape == expected.shape == (0, 2)


def test_the_nanmean_of_integers_has_the_dtype_asked_for():
    x = np.array([1, 2, 2], np.int8)
    y = mg.nanmean(mg.tensor(x), dtype=np.int64)
    assert y.dtype == np.nanmean(x, dtype=np.int64).dtype and y.item() == 1
