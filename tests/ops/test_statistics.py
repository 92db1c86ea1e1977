"""Weighted means, covariances, histograms: NumPy's values, gradients in data and weights."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


def test_average_is_numpys_and_differentiable_in_its_weights():
    x, w = RNG.standard_normal((3, 4)), RNG.uniform(0.5, 1, (3, 4))
    np.testing.assert_allclose(mg.average(x, weights=w), np.average(x, weights=w))
    assert gradcheck(lambda x, w: mg.average(x, axis=1, weights=w), (x, w))
    assert gradgradcheck(lambda x, w: mg.average(x, axis=1, weights=w), (x, w))


def test_average_returns_the_sum_of_weights_of_the_results_shape():
    x, w = RNG.standard_normal((3, 4)), RNG.uniform(0.5, 1, 4)
    for ours, theirs in zip(
        mg.average(x, axis=1, weights=w, returned=True),
        np.average(x, axis=1, weights=w, returned=True),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": True},
        {"ddof": 0},
        {"fweights": np.array([1, 2, 1, 3])},
        {"aweights": np.array([0.5, 1, 2, 1])},
        {"fweights": np.array([1, 2, 1, 3]), "aweights": np.array([0.5, 1, 2, 1])},
    ],
)
def test_cov_is_numpys(options):
    x = RNG.standard_normal((3, 4))
    np.testing.assert_allclose(mg.cov(x, **options), np.cov(x, **options), rtol=1e-12)


@pytest.mark.parametrize("fweights", [None, np.array([1, 2, 0, 3])])
def test_cov_is_differentiable_in_its_weights(fweights):
    cov = lambda x, w: mg.cov(x, fweights=fweights, aweights=w)
    assert gradcheck(cov, (RNG.standard_normal((2, 4)), RNG.random(4) + 0.5))


def test_cov_of_complex_variables_is_hermitian_and_numpys():
    x = RNG.standard_normal((2, 5)) + 1j * RNG.standard_normal((2, 5))
    c = mg.cov(x)
    np.testing.assert_allclose(c, np.cov(x), rtol=1e-12)
    np.testing.assert_allclose(c, c.conj().T, rtol=1e-12)


def test_correlation_does_not_change_with_scale():
    x = mg.tensor(RNG.standard_normal((2, 6)), requires_grad=True)
    y = mg.corrcoef(x)
    np.testing.assert_allclose(y.numpy(), np.corrcoef(x.numpy()), rtol=1e-12)
    g = mg.grad(y[0, 1], x).numpy()
    np.testing.assert_allclose((g * x.numpy()).sum(1), 0, atol=1e-14)


@pytest.mark.parametrize(
    "options",
    [{}, {"bins": 4}, {"bins": [-1.0, 0, 0.5, 2]}, {"bins": 3, "range": (-1, 1), "density": True}],
)
def test_histogram_is_numpys_and_differentiable_in_weights(options):
    x, w = RNG.standard_normal(40), RNG.uniform(0.5, 1, 40)
    ours, theirs = mg.histogram(x, weights=w, **options), np.histogram(x, weights=w, **options)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_array_equal(ours[1], theirs[1])
    assert gradcheck(lambda w: mg.histogram(x, weights=w, **options)[0], (w,))


@pytest.mark.parametrize("weights", [None, np.ones(3)])
@pytest.mark.parametrize("make", [mg.tensor, np.array])
def test_counts_and_edges_are_tensors_where_an_argument_is_one_and_else_arrays(make, weights):
    x = make([0, 2, 2])
    h, (edges, other_edges) = mg.histogramdd([x, x], 2, weights=weights)
    results = [mg.bincount(x, weights), *mg.histogram(x, 3, weights=weights), h, edges, other_edges]
    assert {type(y) for y in results} == {type(x)}
    assert results[0].tolist() == [1, 0, 2]


def test_a_rule_for_the_number_of_bins_takes_no_weights_as_in_numpy():
    x = mg.tensor([1.0, 2.0, 9.0])
    assert mg.histogram(x, "auto")[1].tolist() == np.histogram(x.numpy(), "auto")[1].tolist()
    with pytest.raises(TypeError, match="bins='auto' chooses edges for x without weights"):
        mg.histogram(x, "auto", weights=[1.0, 2.0, 3.0])


def test_the_last_bin_has_its_right_edge_and_nothing_outside_counts():
    y, _ = mg.histogram([0.0, 1.0, 2.0, 5.0], bins=[0, 1, 2], weights=mg.tensor(np.ones(4)))
    np.testing.assert_array_equal(y.numpy(), [1.0, 2.0])


def test_numpys_histogram_takes_a_tensor_of_weights():
    w = mg.tensor(np.ones(3), requires_grad=True)
    y, _ = np.histogram([0.1, 0.2, 0.9], bins=2, weights=w)
    np.testing.assert_array_equal(mg.grad(y, w, np.array([1.0, 7.0])).numpy(), [1.0, 1.0, 7.0])


def test_histograms_of_points_are_numpys_and_differentiable_in_the_weights():
    rng = np.random.default_rng(0)
    points, w = rng.integers(-3, 4, (9, 2)).astype(float), rng.uniform(1, 2, 9)
    for bins in (3, [2, 4], [np.array([-2.0, 0, 2]), np.array([-3.0, -1, 3])]):
        for density in (False, True):
            for weights in (None, w):
                given = None if weights is None else mg.tensor(weights)
                how = {"bins": bins, "density": density}
                found, edges = mg.histogramdd(points, **how, weights=given)
                expected, expected_edges = np.histogramdd(points, **how, weights=weights)
                np.testing.assert_allclose(np.asarray(found), expected)
                for ours, numpys in zip(edges, expected_edges, strict=True):
                    np.testing.assert_array_equal(ours, numpys)
        of_two = np.histogram2d(mg.tensor(points[:, 0]), points[:, 1], bins, weights=mg.tensor(w))
        for ours, numpys in zip(of_two, np.histogram2d(*points.T, bins, weights=w), strict=True):
            np.testing.assert_allclose(np.asarray(ours), numpys)
    assert gradcheck(lambda w: mg.histogramdd(points, 2, density=True, weights=w)[0], (w,))


def test_a_weighted_average_of_small_whole_numbers_does_not_wrap_round():
    x = np.array([200, 100], np.uint8)
    assert float(mg.average(mg.tensor(x), weights=mg.tensor(x))) == np.average(x, weights=x)
    _, total = mg.average(mg.tensor(x), weights=[1, 2], returned=True)
    assert total.dtype == np.float64 and float(total) == 3


def test_weights_of_observations_are_one_for_each_and_not_negative():
    x = mg.tensor(np.arange(12.0).reshape(3, 4))
    for options, error, message in (
        (
            {"aweights": [2.0]},
            ValueError,
            r"aweights holds one weight for each of the 4 obs.*\(1,\)",
        ),
        ({"fweights": np.ones((4, 4), int)}, ValueError, r"fweights holds one weight.*\(4, 4\)"),
        ({"fweights": [0.5, 1, 1, 1]}, TypeError, "fweights counts observations, got fractions"),
        ({"fweights": [1, -2, 1, 1]}, ValueError, "fweights must be 0 or more, got -2"),
        ({"aweights": [1, -0.5, 1, 1]}, ValueError, "aweights must be 0 or more, got -0.5"),
    ):
        for f in (mg.cov, np.cov):
            with pytest.raises(error, match=message):
                f(x, **options)


def test_the_covariance_of_doubles_keeps_its_digits_beside_weights_in_float32():
    x, w = np.array([1.1, 2.3, -0.7]), np.array([0.3, 0.9, 0.1], np.float32)
    expected = np.cov(x, aweights=w)
    np.testing.assert_allclose(mg.cov(mg.tensor(x), aweights=mg.tensor(w)), expected, rtol=1e-14)


def test_one_row_of_observations_in_columns_is_as_many_variables():
    x = [[1.0, 2.0, 4.0]]
    assert mg.cov(mg.tensor(x), rowvar=False, ddof=0).tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1,)])
def test_average_takes_weights_along_several_axes_as_numpy_does(axis):
    x = RNG.standard_normal((2, 3, 4))
    w = RNG.uniform(0.5, 1, [x.shape[i] for i in axis])
    expected = np.average(x, axis=axis, weights=w)
    np.testing.assert_allclose(np.average(mg.tensor(x), axis=axis, weights=w).numpy(), expected)
    assert gradcheck(lambda x, w: mg.average(x, axis=axis, weights=w), (x, w))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, float])
def test_cov_and_corrcoef_have_the_dtype_asked_for(dtype):
    x = RNG.standard_normal((3, 5))
    for f in (np.cov, np.corrcoef):
        y, expected = f(mg.tensor(x), dtype=dtype), f(x, dtype=dtype)
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("f", [np.cov, np.corrcoef])
def test_a_dtype_without_fractions_is_refused_for_a_covariance(f):
    with pytest.raises(TypeError, match=r"c(ov|orrcoef\(.*): dtype=int64 would cut off"):
        f(mg.tensor(RNG.standard_normal((3, 5))), dtype=np.int64)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"aweights": np.ones(4)}, {"fweights": np.ones(4, int)}])
@pytest.mark.parametrize("ddof", [4, 6])
def test_cov_of_too_few_observations_is_a_division_by_0_as_in_numpy(ddof, options):
    x = RNG.standard_normal((3, 4))
    y, expected = (np.cov(v, ddof=ddof, **options) for v in (mg.tensor(x), x))
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: mg.average(x, weights=w),
        lambda x, w: mg.cov(x, w),
        lambda x, w: mg.cov(x, aweights=w),
        lambda x, w: mg.corrcoef(x, w),
        lambda x, w: mg.mse(x, w, weight=w),
        lambda x, w: mg.l1(x, w, weight=w),
    ],
    ids=["average", "cov", "weighted cov", "corrcoef", "weighted mse", "weighted l1"],
)
def test_over_many_float16_numbers_sums_are_not_infinite(call):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(1, 3, 100_000).astype(np.float16) for _ in range(2)]
    low = [mg.tensor(a, requires_grad=True) for a in arrays]
    high = [mg.tensor(a.astype(np.float64), requires_grad=True) for a in arrays]
    y, expected = call(*low), call(*high)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.detach(), expected.detach(), rtol=2e-3, atol=2e-3)
    for mine, right in zip(mg.grad(y.sum(), low), mg.grad(expected.sum(), high), strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_no_correlation_is_beyond_1_by_rounding(dtype):
    x = np.random.default_rng(0).standard_normal((40, 5)).astype(dtype)
    x[1::2] = x[::2] * 3
    c = np.corrcoef(mg.tensor(x)).numpy()
    assert (np.abs(c.real) <= 1).all() and np.isclose(c.real[::2, 1::2].diagonal(), 1).all()
    gradcheck(lambda v: np.corrcoef(v) ** 2, x[::8].astype(np.float64 if dtype != np.complex64
                                                          else np.complex128))  # fmt: skip


@pytest.mark.parametrize("x", [[1.5, 2.0], [[1, 2]], np.zeros(0)])
def test_the_numbers_of_bins_are_integers_in_a_vector(x):
    for weights in (None, mg.ones(2)):
        with pytest.raises(TypeError, match="bincount: x holds the numbers of bins, integers in a"):
            np.bincount(mg.tensor(x), weights)


def test_bins_are_numbered_from_0():
    for weights in (None, mg.ones(2)):
        with pytest.raises(ValueError, match="the numbers of bins begin at 0, got -1"):
            np.bincount(mg.tensor([0, -1]), weights)
    assert mg.bincount([], minlength=2).tolist() == [0, 0]
