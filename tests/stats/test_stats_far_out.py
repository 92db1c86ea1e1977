"""mg.stats at the infinities, far out in the tails and for large parameters."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

scipy_stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")

DISTRIBUTIONS = [
    ("norm", ()), ("t", (0.5,)), ("t", (3.0,)), ("gamma", (2.5,)), ("chi2", (3.0,)),
    ("beta", (2.0, 3.0)), ("expon", ()), ("laplace", ()), ("logistic", ()), ("uniform", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes"), DISTRIBUTIONS)
@pytest.mark.parametrize("function", ["pdf", "cdf", "sf", "logcdf", "logsf"])
def test_at_the_infinities_no_gradient_is_nan_and_that_of_a_finite_value_is_0(
    name, shapes, function
):
    x = np.array([-np.inf, np.inf])
    leaves = [mg.tensor(np.full(2, v), requires_grad=True) for v in (*shapes, 0.3, 1.7)]
    leaf = mg.tensor(x, requires_grad=True)
    y = getattr(getattr(mg.stats, name), function)(leaf, *leaves)
    gradients = mg.grad(y, [leaf, *leaves], np.ones(2))
    for g in gradients:
        assert not np.isnan(g.numpy()).any()
        assert (g.numpy()[np.isfinite(y.numpy())] == 0).all()


@pytest.mark.parametrize("name", ["norm", "t"])
def test_where_the_square_of_a_number_overflows_its_density_has_gradient_zero(name):
    shapes = (3.0,) if name == "t" else ()
    leaves = [mg.tensor(v, requires_grad=True) for v in (1e200, *shapes, 0.0, 1.0)]
    with np.errstate(over="ignore"):
        y = getattr(mg.stats, name).pdf(*leaves)
        assert y.item() == 0 and [g.item() for g in mg.grad(y, leaves)] == [0] * len(leaves)


@pytest.mark.parametrize(("name", "x", "a"), [("gamma", 10.0, 1e3), ("gamma", -1.0, 2.0)])
def test_the_logarithm_of_a_share_of_zero_has_gradient_zero(name, x, a):
    leaves = [mg.tensor(v, requires_grad=True) for v in (x, a)]
    y = getattr(mg.stats, name).logcdf(*leaves)
    assert y.item() == -np.inf and [g.item() for g in mg.grad(y, leaves)] == [0, 0]


@pytest.mark.parametrize(
    ("x", "df", "logpdf", "cdf"),  # by mpmath; the squares overflow
    [(-1e200, 1.0, -922.17876708346767, 3.1830988618379068e-201),
     (-1e200, 0.5, -692.60592120954517, 3.2070097541422291e-101),
     (-1e200, 0.001, -468.58258469083684, 0.31417321248611507),
     (-2e8, 2.0, -57.341483773536932, 1.25e-17)],
)  # fmt: skip
def test_far_tails_of_t_are_powers_where_squares_overflow(x, df, logpdf, cdf):
    leaf, shape = mg.tensor(x, requires_grad=True), mg.tensor(df, requires_grad=True)
    t = mg.stats.t
    np.testing.assert_allclose(t.logpdf(leaf, df).item(), logpdf, rtol=1e-13)
    y = t.cdf(leaf, shape)
    np.testing.assert_allclose(y.item(), cdf, rtol=1e-12)
    np.testing.assert_allclose(t.sf(-leaf, df).item(), cdf, rtol=1e-12)
    slopes = [g.item() for g in mg.grad(y, [leaf, shape])]
    step = 1e-7 * df
    rise = (t.cdf(x, df + step) - t.cdf(x, df - step)) / (2 * step)
    np.testing.assert_allclose(slopes, [np.exp(logpdf), rise], rtol=1e-6, atol=0)


def test_the_density_of_t_keeps_its_digits_for_many_degrees_of_freedom():
    x = np.array([-2.0, 0.0, 0.5, 3.0])
    for df in (1e8, 1e12, 1e20):
        y = mg.stats.t.logpdf(x, df)
        np.testing.assert_allclose(y, scipy_stats.norm.logpdf(x), rtol=1e-7)
    np.testing.assert_allclose(
        mg.stats.t.logpdf(x, 1e10), scipy_stats.norm.logpdf(x) + (x**4 - 2 * x**2 - 1) / 4e10,
        rtol=1e-14,
    )  # fmt: skip


def test_sf_of_beta_keeps_a_number_below_the_rounding_of_one():
    x = np.array([1e-300, 1e-20])
    y = mg.stats.beta.sf(x, 1e-3, 0.5)
    np.testing.assert_allclose(y, scipy_stats.beta.sf(x, 1e-3, 0.5), rtol=1e-13)


ENDS = [
    ("expon", (), [0.0]), ("uniform", (), [0.0, 1.0]), ("gamma", (0.5,), [0.0]),
    ("gamma", (1.0,), [0.0]), ("gamma", (2.0,), [0.0]), ("chi2", (2.0,), [0.0]),
    ("beta", (0.5, 0.5), [0.0, 1.0]), ("beta", (1.0, 3.0), [0.0, 1.0]),
    ("beta", (2.0, 1.0), [0.0, 1.0]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "ends"), ENDS)
def test_at_the_ends_of_a_support_the_slope_of_a_share_is_the_density(name, shapes, ends):
    distribution = getattr(mg.stats, name)
    density = distribution.pdf(np.array(ends), *shapes)

    def slopes(function):
        x = mg.tensor(ends, requires_grad=True)
        return mg.grad(getattr(distribution, function)(x, *shapes).sum(), x).numpy()

    np.testing.assert_array_equal(slopes("cdf"), density)
    np.testing.assert_array_equal(slopes("sf"), -density)
    np.testing.assert_array_equal(slopes("logsf")[0], -density[0])  # log 0 at the other end
    assert slopes("logcdf")[0] == 0


@pytest.mark.parametrize("name", ["expon", "uniform", "gamma", "chi2", "beta"])
def test_outside_a_support_a_share_has_slope_zero(name):
    shapes = {"gamma": (0.5,), "chi2": (1.0,), "beta": (0.5, 0.5)}.get(name, ())
    x = mg.tensor([-2.0, -1e-300] + [1.5] * (name in ("uniform", "beta")), requires_grad=True)
    for function in ("cdf", "sf", "logcdf", "logsf"):
        y = getattr(getattr(mg.stats, name), function)(x, *shapes)
        assert not mg.grad(y.sum(), x).numpy().any()


def test_where_betas_density_is_infinite_its_slope_is_too():
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    mg.stats.beta.pdf(x, 0.5, 0.5).sum().backward()
    assert x.grad.tolist() == [-np.inf, np.inf]


FAINT = [
    ("gamma", (30.0,), "logcdf", [5e-4, 0.1, 0.5]), ("chi2", (100.0,), "logcdf", [0.01, 2.0, 5.0]),
    ("gamma", (2.0,), "logsf", [90.0, 100.0, 400.0]), ("beta", (50.0, 3.0), "logcdf", [0.01, 0.15]),
    ("t", (24.0,), "logcdf", [-3e4, -1e3]), ("t", (24.0,), "logsf", [1e3, 3e4]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "function", "xs"), FAINT)
def test_the_logarithm_of_a_share_too_small_for_float32_is_a_number_with_a_slope(
    name, shapes, function, xs
):
    distribution = getattr(mg.stats, name)
    slopes, values = [], []
    for dtype in ("float32", "float64"):
        x = mg.tensor(np.float32(xs), dtype=dtype, requires_grad=True)
        y = getattr(distribution, function)(x, *shapes)
        assert y.dtype == dtype
        values.append(y.detach().numpy())
        slopes.append(mg.grad(y.sum(), x).numpy())
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6)
