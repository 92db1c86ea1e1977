"""mg.stats has SciPy's values, and derivatives in every argument that has a rule."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

scipy_stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
rng = np.random.default_rng(0)
X, U = rng.standard_normal(5), rng.uniform(0.1, 0.9, 5)
A, B = rng.uniform(0.7, 3, 5), rng.uniform(0.7, 3, 5)
COV = np.cov(rng.standard_normal((3, 9)))
SHARES = rng.dirichlet([1.0, 2, 3], 4).T

# (distribution, function, arguments, which of them have a derivative)
CASES = [
    *[("norm", f, (X, 0.3, 1.7), 3) for f in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")],
    ("norm", "ppf", (U, 0.3, 1.7), 3),
    *[("t", f, (X, A + 2, 0.2, 1.3), 4) for f in ("pdf", "logpdf", "cdf")],
    *[("gamma", f, (U, A, 0.05, 1.3), 4) for f in ("logpdf", "cdf", "sf")],
    *[("chi2", f, (U, A), 2) for f in ("pdf", "logpdf", "cdf")],
    *[("beta", f, (U, A, B), 3) for f in ("pdf", "logpdf", "cdf")],
    *[(name, f, (X + 0.2, -3.0, 7.0), 1) for name in ("laplace", "logistic", "expon", "uniform")
      for f in ("logpdf", "cdf")],
    ("poisson", "logpmf", (np.arange(5.0), A), 0),
    ("poisson", "pmf", (np.arange(5.0), A), 0),
    ("poisson", "cdf", (np.arange(5.0), A), 0),
    ("bernoulli", "logpmf", (np.array([0, 1, 1, 0, 1]), U), 0),
    ("dirichlet", "logpdf", (SHARES, np.array([1.0, 2.0, 3.0])), 0),
    ("dirichlet", "pdf", (SHARES[:, 0], np.array([1.0, 2.0, 3.0])), 0),
    ("multivariate_normal", "logpdf", (X[:3], X[2:], COV), 2),
    ("multivariate_normal", "logpdf", (rng.standard_normal((4, 3)), X[2:], COV), 2),
    ("multivariate_normal", "pdf", (X[:3], X[2:], A[:3]), 3),
    ("multivariate_normal", "logpdf", (X, 0.3, 1.7), 3),
    ("multivariate_normal", "entropy", (X[:3], COV), 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "args", "count"), CASES)
def test_values_are_scipys_and_derivatives_are_right(name, function, args, count):
    ours = getattr(getattr(mg.stats, name), function)
    expected = getattr(getattr(scipy_stats, name), function)(*args)
    y = ours(*[mg.tensor(a) if isinstance(a, np.ndarray) else a for a in args])
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-9)
    if count:
        rest = args[count:]
        assert gradcheck(lambda *xs: ours(*xs, *rest), tuple(map(np.asarray, args[:count])))


@pytest.mark.parametrize("args", [("poisson", "logpmf"), ("poisson", "cdf"), ("bernoulli", "pmf")])
def test_the_parameter_of_counts_has_a_derivative(args):
    f = getattr(getattr(mg.stats, args[0]), args[1])
    k = np.array([0.0, 1.0])
    assert gradcheck(lambda p: f(k, p), (np.array([0.3, 0.6]),))


def test_parameters_of_vectors_have_derivatives():
    d = mg.stats.dirichlet
    assert gradcheck(lambda a: d.logpdf(SHARES, a), (np.array([1.0, 2.0, 3.0]),))
    m = mg.stats.multivariate_normal
    assert gradcheck(lambda c: m.logpdf(X[:3], X[2:], c @ c.T + np.eye(3)), (COV,))
    assert gradcheck(lambda c: m.entropy(None, c @ c.T + np.eye(3)), (COV,))


FACTOR = rng.standard_normal((4, 2))


def on_its_span(factor, y):
    """The log density at factor · y + 1 with the covariance factor · factorᵀ, of rank 2."""
    m = mg.stats.multivariate_normal
    x = (y @ factor.T) + 1.0
    return m.logpdf(x, np.ones(4), factor @ factor.T, allow_singular=True)


@pytest.mark.parametrize("cov", [
    FACTOR @ FACTOR.T, np.diag([2.0, 0.0, 0.0, 1.0]), np.diag([1.0, 1.0, 0.0, 1.0]),
    np.ones((4, 4)), np.zeros((4, 4)), FACTOR @ FACTOR.T + np.eye(4),
], ids=["rank 2", "diagonal", "equal values", "rank 1", "rank 0", "full rank"])  # fmt: skip
def test_a_singular_covariance_has_scipys_density_on_its_span_and_none_outside(cov):
    ours, scipys = mg.stats.multivariate_normal, scipy_stats.multivariate_normal
    inside = 1 + rng.standard_normal((3, 4)) @ cov
    for x in (inside, inside[0], np.vstack([inside, inside + [0.0, 0.0, 1.0, 2.0]])):
        y = ours.logpdf(mg.tensor(x), np.ones(4), cov, allow_singular=True)
        expected = scipys.logpdf(x, np.ones(4), cov, allow_singular=True)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(ours.entropy(None, cov), scipys.entropy(None, cov), rtol=1e-9)


def test_on_the_span_of_a_singular_covariance_derivatives_are_right_to_second_order():
    args = (FACTOR, rng.standard_normal((3, 2)))
    assert gradcheck(on_its_span, args) and gradgradcheck(on_its_span, args)
    entropy = lambda a: mg.stats.multivariate_normal.entropy(None, a @ a.T)
    assert gradcheck(entropy, (FACTOR,)) and gradgradcheck(entropy, (FACTOR,))


def test_outside_the_span_of_a_covariance_the_gradient_is_zero():
    x = mg.tensor([[1.0, 0.0], [1.0, 0.5]], requires_grad=True)
    cov = mg.tensor([[2.0, 0.0], [0.0, 0.0]], requires_grad=True)
    y = mg.stats.multivariate_normal.pdf(x, [0.0, 0.0], cov, allow_singular=True)
    gx, gcov = mg.grad(y.sum(), [x, cov])
    density = scipy_stats.norm.pdf(1.0, scale=2**0.5)
    np.testing.assert_allclose(y.numpy(), [density, 0.0])
    np.testing.assert_allclose(gx.numpy(), [[-density / 2, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(gcov.numpy(), [[-density / 8, 0], [0, 0]], atol=1e-15)


def test_examples_share_a_singular_covariance_and_may_have_full_ones_of_their_own():
    f = lambda x, c: mg.stats.multivariate_normal.logpdf(x, None, c, allow_singular=True)
    cov, x = FACTOR @ FACTOR.T, rng.standard_normal((3, 2)) @ FACTOR.T
    shared = mg.func.vmap(f, (0, None))(x, cov)
    np.testing.assert_allclose(shared.numpy(), f(x, cov), rtol=1e-12)
    full = np.stack([cov + i * np.eye(4) for i in (1, 2, 3)])
    own = mg.func.vmap(f)(x, full).numpy()
    np.testing.assert_allclose(own, [f(x[i], full[i]) for i in range(3)], rtol=1e-12)
    with pytest.raises(ValueError, match="every cov .* must have full rank, since the rank is"):
        mg.func.vmap(f)(x, np.stack([cov] * 3))


@pytest.mark.parametrize("cov", [np.ones((3, 3)), FACTOR @ FACTOR.T, 0.1 * np.ones((2, 2))])
def test_a_singular_covariance_is_refused_where_it_is_not_allowed(cov):
    zero = np.zeros(len(cov))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite .*allow_singular=True"):
        mg.stats.multivariate_normal.logpdf(zero, zero, cov)
    with pytest.raises(np.linalg.LinAlgError):
        scipy_stats.multivariate_normal.logpdf(zero, zero, cov)


def test_a_covariance_with_an_eigenvalue_below_zero_is_never_one():
    with pytest.raises(ValueError, match=r"has the eigenvalue -1; a covariance has none below 0"):
        mg.stats.multivariate_normal.pdf(np.zeros(2), cov=np.diag([2.0, -1.0]), allow_singular=True)


@pytest.mark.parametrize("name", ["gamma", "beta", "expon", "uniform"])
def test_outside_its_support_a_density_is_zero_with_gradient_zero(name):
    shapes = {"gamma": (2.0,), "beta": (2.0, 3.0)}.get(name, ())
    x = mg.tensor([-1.0, 0.5], requires_grad=True)
    y = getattr(mg.stats, name).pdf(x, *shapes)
    y.sum().backward()
    assert y[0] == 0 and y[1] > 0 and x.grad[0] == 0 and np.isfinite(x.grad).all()


@pytest.mark.parametrize("name", ["expon", "laplace", "logistic"])
def test_tails_keep_their_digits(name):
    ours, scipys = getattr(mg.stats, name), getattr(scipy_stats, name)
    np.testing.assert_allclose(ours.sf(mg.tensor(60.0)).numpy(), scipys.sf(60.0), rtol=1e-12)
    np.testing.assert_allclose(ours.sf(X, 0.1, 1.3), scipys.sf(X, 0.1, 1.3), rtol=1e-12)


def test_the_slope_of_laplaces_cdf_is_the_density_at_its_peak():
    x = mg.tensor(0.0, requires_grad=True)
    mg.stats.laplace.cdf(x).backward()
    assert x.grad == 0.5


@pytest.mark.parametrize("df", [0.5, 1.0, 3.0])
def test_nothing_lies_beyond_infinity_in_students_distribution(df):
    x = mg.tensor([-np.inf, np.inf], requires_grad=True)
    y = mg.stats.t.cdf(x, df)
    y.sum().backward()
    assert y.tolist() == [0, 1] and mg.stats.t.sf(x, df).tolist() == [1, 0]
    assert mg.stats.t.logcdf(x, df).tolist() == [-np.inf, 0]
    assert x.grad.tolist() == [0, 0]


def test_values_at_ends_and_impossible_counts_are_scipys():
    with np.errstate(divide="ignore"):
        assert mg.stats.gamma.logpdf(0.0, 0.5) == scipy_stats.gamma.logpdf(0.0, 0.5) == np.inf
    assert mg.stats.bernoulli.logpmf(2.0, 0.3) == scipy_stats.bernoulli.logpmf(2, 0.3) == -np.inf


@pytest.mark.parametrize(
    ("a", "b", "left", "right"),
    # 12 x (1 − x)², its mirror image, 6 x (1 − x), 1, 2 x, 30 x² (1 − x)²
    [(2, 3, 12, 0), (3, 2, 0, -12), (2, 2, 6, -6), (1, 1, 0, 0), (2, 1, 2, 2), (3, 3, 0, 0)],
)
def test_the_slope_of_betas_density_at_its_ends_is_the_limit_from_inside(a, b, left, right):
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    mg.stats.beta.pdf(x, float(a), float(b)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [left, right], rtol=1e-14)


def test_where_betas_density_is_steep_at_an_end_its_slope_is_infinite():
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    mg.stats.beta.pdf(x, 1.5, 1.5).sum().backward()
    assert x.grad.tolist() == [np.inf, -np.inf]


def test_the_second_derivative_of_betas_density_at_its_ends_is_the_limit_too():
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    g = mg.grad(mg.stats.beta.pdf(x, 2.0, 3.0).sum(), x, create_graph=True)  # 12 − 48 x + 36 x²
    np.testing.assert_allclose(mg.grad(g.sum(), x).numpy(), [-48, 24], rtol=1e-14)


def test_at_an_end_where_the_density_is_zero_the_shape_parameters_have_gradient_zero():
    a, b = mg.tensor(2.0, requires_grad=True), mg.tensor(3.0, requires_grad=True)
    mg.stats.beta.pdf(np.array([0.0, 1.0]), a, b).sum().backward()
    assert a.grad == 0 and b.grad == 0


def test_the_slope_of_gammas_density_at_zero_is_the_limit_from_inside():
    for shape, slope in ((1.0, -1.0), (2.0, 1.0), (3.0, 0.0)):
        x = mg.tensor(0.0, requires_grad=True)
        mg.stats.gamma.pdf(x, shape).backward()
        assert x.grad == slope


def test_a_density_of_large_parameters_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        y = mg.stats.beta.pdf(0.5, 6e4, 6e4)
    np.testing.assert_allclose(y, scipy_stats.beta.pdf(0.5, 6e4, 6e4), rtol=1e-8)  # of log B ≈ 8e4


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc"])
def test_a_shape_parameter_has_a_derivative_in_reverse_and_forward_mode(name):
    f, rest = getattr(mg.special, name), (0.3,) if name != "betainc" else (2.0, 0.3)
    a = mg.tensor(2.0, requires_grad=True)
    (reverse,) = mg.grad(f(a, *rest), [a])
    _, forward = mg.func.jvp(lambda a: f(a, *rest), (mg.tensor(2.0),), (mg.tensor(1.0),))
    slope = (f(2.0 + 1e-5, *rest) - f(2.0 - 1e-5, *rest)) / 2e-5
    np.testing.assert_allclose([reverse.item(), forward.item()], slope, rtol=1e-8)


@pytest.mark.parametrize("df", [1.0, 3.0, 50.0])
def test_the_tails_of_t_are_scipys_to_all_digits(df):
    x = np.array([-np.inf, -1e300, -1e5, -40.0, -2.0, 2.0, 40.0, 1e300, np.inf])
    for name in ("cdf", "sf"):
        found, expected = (getattr(t, name)(x, df) for t in (mg.stats.t, scipy_stats.t))
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-150)
    leaf = mg.tensor(x[1:-1], requires_grad=True)
    slope = mg.grad(mg.stats.t.cdf(leaf, df), leaf, np.ones(7)).numpy()
    np.testing.assert_allclose(slope, scipy_stats.t.pdf(x[1:-1], df), rtol=1e-12, atol=1e-150)


@pytest.mark.parametrize(
    "density",
    [
        lambda x: mg.stats.gamma.pdf(x, 2.0), lambda x: mg.stats.gamma.logpdf(x, 1.0),
        lambda x: mg.stats.chi2.pdf(x, 3.0), lambda x: mg.stats.beta.pdf(x, 2.0, 3.0),
        lambda x: mg.stats.beta.logpdf(x, 1.0, 1.0), mg.stats.expon.logpdf, mg.stats.uniform.pdf,
        lambda x: mg.stats.poisson.pmf(x, 2.0), lambda x: mg.stats.poisson.cdf(x, 2.0),
        lambda x: mg.stats.bernoulli.logpmf(x, 0.3),
    ],
)  # fmt: skip
def test_nan_is_not_taken_for_a_number_outside_the_support(density):
    assert np.isnan(density(np.array([np.nan, 1.0]))).tolist() == [True, False]


_SHAPES = {"t": 1, "gamma": 1, "chi2": 1, "beta": 2, "poisson": 1, "bernoulli": 1}
_DISTRIBUTIONS = sorted(
    set(mg.stats.__all__) - {"dirichlet", "multivariate_normal"}  # their parameters are lists
)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", _DISTRIBUTIONS)
def test_python_numbers_beside_a_tensor_leave_its_dtype(name, dtype):
    distribution, tensor = getattr(mg.stats, name), mg.tensor([0.25, 1.0], dtype=dtype)
    shapes = [0.5] * _SHAPES.get(name, 0)
    for function in (
        "pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "pmf", "logpmf",
    ):  # fmt: skip
        if f := getattr(distribution, function, None):
            assert f(tensor, *shapes).dtype == dtype
            assert not shapes or f(1.0, tensor, *shapes[1:]).dtype == dtype
            if name not in ("poisson", "bernoulli"):
                assert f(tensor, *shapes, loc=0.5, scale=2).dtype == dtype


def test_a_normal_distribution_of_vectors_takes_a_python_number_for_its_variance():
    x = mg.tensor([0.5, 1.0], dtype="float32")
    assert mg.stats.multivariate_normal.logpdf(x, cov=2.0).dtype == "float32"


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("norm", ()), ("t", (3.0,)), ("gamma", (2.5,)), ("chi2", (3.0,)), ("beta", (2.0, 3.0)),
     ("expon", ()), ("laplace", ()), ("logistic", ()), ("uniform", ())],
)  # fmt: skip
@pytest.mark.parametrize("function", ["logcdf", "logsf"])
def test_the_logarithm_of_a_share_near_one_keeps_its_digits(name, shapes, function):
    """log of a share rounded to 1 − 10⁻¹⁶ has none left."""
    x = np.array([-1e5, -40.0, 1e-12, 1e-3, 0.4, 0.999, 1 - 1e-12, 40.0, 600.0, 1e5])
    expected = getattr(getattr(scipy_stats, name), function)(x, *shapes)
    x, expected = x[np.isfinite(expected)], expected[np.isfinite(expected)]
    leaf = mg.tensor(x, requires_grad=True)
    y = getattr(getattr(mg.stats, name), function)(leaf, *shapes)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    slope = mg.grad(y, leaf, np.ones(x.size)).numpy()
    here = np.exp(expected) > 0
    density = getattr(scipy_stats, name).pdf(x[here], *shapes) / np.exp(expected[here])
    sign = 1 if function == "logcdf" else -1
    np.testing.assert_allclose(slope[here], sign * density, rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize(
    ("name", "k", "p", "slope"),
    [("bernoulli", 1.0, 0.0, 1), ("bernoulli", 0.0, 0.0, -1), ("bernoulli", 2.0, 0.0, 0),
     ("bernoulli", 1.0, 1.0, 1), ("bernoulli", 0.0, 1.0, -1), ("bernoulli", 2.0, 1.0, 0),
     ("poisson", 0.0, 0.0, -1), ("poisson", 1.0, 0.0, 1), ("poisson", 2.0, 0.0, 0),
     ("poisson", -1.0, 0.0, 0), ("poisson", 0.5, 0.0, 0)],
)  # fmt: skip
def test_where_an_outcome_is_certain_or_impossible_its_probability_has_a_slope(name, k, p, slope):
    leaf = mg.tensor(p, requires_grad=True)
    mg.stats.__dict__[name].pmf(k, leaf).backward()
    assert leaf.grad == slope


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_the_logarithm_of_an_impossible_counts_probability_has_gradient_zero(name):
    for p in (0.0, 1.0):
        leaf = mg.tensor(p, requires_grad=True)
        y = getattr(mg.stats, name).logpmf(2.5, leaf)
        y.backward()
        assert y.item() == -np.inf and leaf.grad == 0


@pytest.mark.parametrize("name", ["gamma", "chi2"])
@pytest.mark.parametrize(
    "function, limit", [("logpdf", -np.inf), ("pdf", 0), ("cdf", 1), ("sf", 0)]
)
def test_at_infinity_a_gamma_density_and_its_gradients_are_0(name, function, limit):
    x = mg.tensor(np.inf, requires_grad=True)
    with np.errstate(all="raise"):
        y = getattr(getattr(mg.stats, name), function)(x, 3.0)
        y.backward()
    assert y.item() == limit and x.grad == 0


NO_DISTRIBUTIONS = [
    *[(name, (), loc_scale) for name in ("norm", "expon", "laplace", "logistic", "uniform")
      for loc_scale in ((0.0, 0.0), (0.0, -1.0))],
    ("gamma", (2.0,), (0.0, -1.0)), ("gamma", (-0.5,), ()), ("chi2", (0.0,), ()),
    ("t", (-1.0,), ()), ("beta", (2.0, 0.0), ()), ("beta", (-1.0, 2.0), ()),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:(divide|invalid):RuntimeWarning")
@pytest.mark.parametrize(("name", "shapes", "loc_scale"), NO_DISTRIBUTIONS)
def test_parameters_without_a_distribution_give_nan_as_scipys(name, shapes, loc_scale):
    for function in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        for x in (0.3, -1.0):
            args = (np.array([x]), *shapes, *loc_scale)
            assert np.isnan(getattr(getattr(scipy_stats, name), function)(*args)).all()
            assert np.isnan(getattr(getattr(mg.stats, name), function)(*args)).all(), function


@pytest.mark.parametrize(
    ("name", "function", "parameter"),
    [*[("poisson", f, mu) for f in ("pmf", "logpmf", "cdf") for mu in (-1.0, np.nan)],
     *[("bernoulli", f, p) for f in ("pmf", "logpmf") for p in (-0.5, 1.5, np.nan)]],
)  # fmt: skip
def test_counts_without_a_distribution_give_nan_as_scipys(name, function, parameter):
    args = np.array([-1.0, 0.0, 0.5, 1.0]), parameter
    assert np.isnan(getattr(getattr(scipy_stats, name), function)(*args)).all()
    assert np.isnan(getattr(getattr(mg.stats, name), function)(*args)).all()


def test_shares_need_concentrations_above_0():
    with pytest.raises(ValueError, match="dirichlet: alpha must be above 0, the least is -1"):
        mg.stats.dirichlet.pdf(np.array([0.5, 0.5]), np.array([-1.0, 2.0]))


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mg.stats.norm.logpdf(1.0, mu=2), "norm.logpdf(x: 1.0, mu=2): norm.logpdf() got "),
        (lambda: mg.stats.norm.pdf("a"), "norm.pdf(x: 'a'): 'a' (str) is neither a tensor"),
        (lambda: mg.stats.gamma.cdf(1.0), "gamma.cdf: missing a required argument: 'a'; its"),
        (
            lambda: mg.stats.poisson.logpmf(None, 2.0),
            "poisson.logpmf(k: None, mu: 2.0): None (NoneT",
        ),
    ],
)
def test_an_error_shows_the_call(call, said):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_a_distribution_shows_its_name_and_what_it_has():
    assert repr(mg.stats.multivariate_normal) == "mg.stats.multivariate_normal"
    with pytest.raises(AttributeError, match=r"mg\.stats\.t has no 'rvs'; .* a draw is \.ppf\("):
        mg.stats.t.rvs(3)
