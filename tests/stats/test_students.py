"""Student's t distribution of many degrees of freedom, up to the normal one, which has ∞."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

mpmath = pytest.importorskip("mpmath")
scipy_stats = pytest.importorskip("scipy.stats")
t = mg.stats.t
X = [-np.inf, -1e30, -40.0, -3.0, -0.1, 0.0, 0.5, 2.0, 9.0, 1e30, np.inf]
SHARES = [0.0, 1e-300, 1e-8, 0.3, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", ["pdf", "logpdf", "cdf", "sf", "ppf", "isf"])
def test_of_infinitely_many_degrees_of_freedom_it_is_the_normal_distribution(function, dtype):
    x = mg.tensor(SHARES if function in ("ppf", "isf") else X, dtype=dtype, requires_grad=True)
    df = mg.tensor(np.inf, dtype=dtype, requires_grad=True)
    y = getattr(t, function)(x, df, 0.5, 2.0)
    same = getattr(mg.stats.norm, function)(x, 0.5, 2.0)
    np.testing.assert_allclose(
        y.detach(), same.detach(), rtol=1e-6 if dtype == "float32" else 1e-13
    )
    slopes, of_df = mg.grad(y.sum(), [x, df])
    assert of_df == 0
    finite = np.isfinite(y.detach().numpy())
    wanted = mg.grad(same.sum(), x).numpy()
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(slopes.numpy()[finite], wanted[finite], rtol=rtol)


@pytest.mark.parametrize("df", [0.5, 5.0, 1e7, np.inf])
def test_the_quantiles_of_0_and_1_are_the_ends_whatever_the_degrees_of_freedom_are(df):
    q, nu = mg.tensor([0.0, 0.3, 1.0], requires_grad=True), mg.tensor(df, requires_grad=True)
    for quantile, sign in ((t.ppf, 1), (t.isf, -1)):
        y = quantile(q, nu)
        assert (y[0].item(), y[2].item()) == (-sign * np.inf, sign * np.inf)
        slopes, of_df = mg.grad(y.sum(), [q, nu])
        assert (slopes[0].item(), slopes[2].item()) == (sign * np.inf, sign * np.inf)
        alone = quantile(0.3, nu)  # the ends add nothing
        np.testing.assert_allclose(of_df.item(), mg.grad(alone, nu).item(), rtol=1e-12)


def share(z, df):
    """cdf(z), z < 0, to all digits."""
    z, df = mpmath.mpf(z), mpmath.mpf(df)
    with mpmath.workdps(50):
        return mpmath.betainc(df / 2, 0.5, 0, df / (df + z * z), regularized=True) / 2


@pytest.mark.parametrize("df", [9e5, 1e6, 3e7, 1e12])
def test_shares_and_quantiles_of_many_degrees_of_freedom_have_their_digits(df):
    z = np.array([-20.0, -5.0, -1.0, -0.1])
    wanted = np.array([float(share(x, df)) for x in z])
    np.testing.assert_allclose(t.cdf(z, df), wanted, rtol=1e-11)
    np.testing.assert_allclose(t.sf(-z, df), wanted, rtol=1e-11)
    np.testing.assert_allclose(t.ppf(wanted, df), z, rtol=1e-10)
    narrow = t.cdf(mg.tensor(z[1:], dtype="float32"), df).numpy()
    np.testing.assert_allclose(narrow, wanted[1:], rtol=2e-4 if df < 1e6 else 2e-6)


@pytest.mark.parametrize("df", [2e6, 1e10])
def test_the_slope_in_many_degrees_of_freedom_is_that_of_the_expansion(df):
    z, nu = np.array([-3.0, -1.0, 0.5, 2.0]), mg.tensor(df, requires_grad=True)
    shift = (z**3 + z) / (4 * df**2)  # z − (z³ + z)/4ν is the normal score of z
    density = scipy_stats.norm.pdf(z)
    shares, quantiles = t.cdf(z, nu), t.ppf(scipy_stats.norm.cdf(z), nu)
    for y, wanted in ((shares, shift * density), (quantiles, -shift)):
        slopes = [mg.grad(row, nu, retain_graph=True).item() for row in y]
        np.testing.assert_allclose(slopes, wanted, rtol=1e-4)


def test_numbers_of_degrees_of_freedom_stay_apart():
    df = mg.tensor([0.5, 1e6, np.inf], requires_grad=True)
    y = t.cdf(-2.0, df)
    slopes = mg.grad(y.sum(), df).numpy()
    for i, number in enumerate([0.5, 1e6, np.inf]):
        alone = mg.tensor(number, requires_grad=True)
        one = t.cdf(-2.0, alone)
        np.testing.assert_allclose(y[i].item(), one.item(), rtol=1e-14)
        np.testing.assert_allclose(slopes[i], mg.grad(one, alone).item(), rtol=1e-12)


@pytest.mark.parametrize(
    ("df", "q"), [(5.5, 3.5e-119), (8.7, 2e-189), (0.3, 1e-40), (30.0, 1e-200)]
)
def test_quantiles_of_the_least_shares_have_these_shares_and_slopes_in_both(df, q):
    share, nu = mg.tensor(q, requires_grad=True), mg.tensor(df, requires_grad=True)
    z = t.ppf(share, nu)
    np.testing.assert_allclose(t.cdf(z.detach(), df).item(), q, rtol=1e-11)
    slope, of_df = mg.grad(z, [share, nu])
    np.testing.assert_allclose(slope.item(), 1 / t.pdf(z.detach(), df).item(), rtol=1e-11)
    step = 1e-6 * df
    rise = (t.ppf(q, df + step) - t.ppf(q, df - step)) / (2 * step)
    np.testing.assert_allclose(of_df.item(), rise, rtol=1e-6)
