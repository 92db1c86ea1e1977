"""mg.stats.dirichlet has SciPy's values, and derivatives that are right where shares are zero."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

scipy_stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
rng = np.random.default_rng(0)
SHARES = rng.dirichlet([1.0, 2, 3], 4).T


@pytest.mark.parametrize("x", [[0.5, 0.6, 0.2], [1.2, -0.4, 0.2]])
def test_dirichlet_refuses_what_are_no_shares_as_scipy_does(x):
    with pytest.raises(ValueError, match="shares, 0 or more, that add up to 1"):
        mg.stats.dirichlet.logpdf(mg.tensor(x), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError):
        scipy_stats.dirichlet.logpdf(x, [1.0, 2.0, 3.0])


def test_dirichlet_says_that_points_are_columns():
    with pytest.raises(ValueError, match=r"alpha \(3,\), x \(4, 3\).*pass x.T"):
        mg.stats.dirichlet.logpdf(SHARES.T, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("alpha", "slope"),
    # pdf = C x₁^(α₁ − 1) x₂ x₃² at (0, ½, ½), with C = Γ(α₁ + 5)/(Γ(α₁) Γ(2) Γ(3))
    [(2.0, 360 / 8), (3.0, 0.0), (1.5, np.inf), (0.5, -np.inf), (1.0, 0.0)],
)
def test_the_slope_of_dirichlets_density_at_a_share_of_zero_is_the_limit(alpha, slope):
    x = mg.tensor([0.0, 0.5, 0.5], requires_grad=True)
    mg.stats.dirichlet.pdf(x, [alpha, 2.0, 3.0]).backward()
    np.testing.assert_allclose(x.grad[0].numpy(), slope, rtol=1e-13)
    assert not np.isnan(x.grad.numpy()).any()


def test_the_limit_is_what_shares_near_zero_come_to():
    for alpha in ([2.0, 2.0, 3.0], [2.5, 1.0, 4.0], [1.0, 3.0, 1.0]):
        slopes = []
        for share in (0.0, 1e-12):
            x = mg.tensor([share, 0.25, 0.75 - share], requires_grad=True)
            mg.stats.dirichlet.pdf(x, alpha).backward()
            slopes.append(x.grad.numpy())
        np.testing.assert_allclose(*slopes, rtol=1e-6, atol=1e-3)  # x₁^½ is 1e-6, times C


def test_a_share_of_zero_among_columns_leaves_the_others_values_and_gradients():
    alpha = np.array([2.0, 2.5, 3.0])
    with_zero = np.concatenate([SHARES, [[0.0], [0.25], [0.75]]], axis=1)
    x, plain = (mg.tensor(v, requires_grad=True) for v in (with_zero, SHARES))
    y, expected = (mg.stats.dirichlet.pdf(v, alpha) for v in (x, plain))
    y.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(y[:-1].numpy(), expected.numpy(), rtol=1e-12)
    np.testing.assert_allclose(x.grad[:, :-1].numpy(), plain.grad.numpy(), rtol=1e-12)


def test_the_second_derivative_of_dirichlets_density_at_a_share_of_zero_is_the_limit_too():
    x = mg.tensor([0.0, 0.5, 0.5], requires_grad=True)  # pdf = C x₁² x₂ x₃²
    y = mg.stats.dirichlet.pdf(x, [3.0, 2.0, 3.0])
    constant = 7 * 6 * 5 * 4 * 3 * 2 / (2 * 1 * 2)
    g = mg.grad(y, x, create_graph=True)
    np.testing.assert_allclose(mg.grad(g[0], x).numpy(), [2 * constant * 0.125, 0, 0], rtol=1e-13)


def test_where_dirichlets_density_is_zero_its_parameters_have_gradient_zero():
    alpha = mg.tensor([2.0, 2.0, 3.0], requires_grad=True)
    mg.stats.dirichlet.pdf(np.array([0.0, 0.5, 0.5]), alpha).backward()
    assert alpha.grad.tolist() == [0.0, 0.0, 0.0]


def test_dirichlets_density_at_one_hot_shares_is_zero_with_no_nan_in_its_gradient():
    x = mg.tensor([1.0, 0.0, 0.0], requires_grad=True)
    y = mg.stats.dirichlet.pdf(x, [1.5, 1.5, 1.5])
    y.backward()
    assert y == 0 and x.grad.tolist() == [0.0, 0.0, 0.0]


def test_dirichlets_logarithm_at_a_share_of_zero_has_the_slope_of_its_limit():
    x = mg.tensor([0.0, 0.5, 0.5], requires_grad=True)
    for alpha, slope in ((2.0, np.inf), (0.5, -np.inf), (1.0, 0.0)):
        with np.errstate(divide="ignore"):
            y = mg.stats.dirichlet.logpdf(x, [alpha, 2.0, 3.0])
            (g,) = mg.grad(y, [x])
        assert g.tolist() == [slope, 2.0, 4.0]


def test_dirichlets_density_under_vmap_takes_shares_of_zero():
    x = np.array([[0.0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    f = mg.func.grad(lambda row: mg.stats.dirichlet.pdf(row, np.array([2.0, 2.0, 3.0])))
    each = np.stack([np.asarray(f(mg.tensor(row)).numpy()) for row in x])
    np.testing.assert_allclose(mg.func.vmap(f)(mg.tensor(x)).numpy(), each, rtol=1e-12)


def test_dirichlet_takes_a_softmax_of_float32_and_is_differentiable_through_it():
    z, alpha = rng.standard_normal((50, 4)), np.linspace(0.5, 2, 50)
    assert mg.stats.dirichlet.logpdf(mg.softmax(z.astype("f"), axis=0), alpha).shape == (4,)
    assert gradcheck(lambda z: mg.stats.dirichlet.logpdf(mg.softmax(z, axis=0), alpha), z)


def test_dirichlet_checks_every_example_of_vmap():
    f = mg.func.vmap(lambda x: mg.stats.dirichlet.logpdf(x, np.ones(3)))
    assert f(mg.tensor(SHARES.T)).shape == (4,)
    with pytest.raises(ValueError, match="add up to 1"):
        f(mg.tensor(SHARES.T * [[1.0], [1.0], [2.0], [1.0]]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_shares_may_be_of_16_bits(dtype):
    x, alpha = (mg.tensor(v, dtype=dtype) for v in ([0.5, 0.5], [1.0, 2.0]))
    assert mg.stats.dirichlet.pdf(x, alpha).item() == 1


@pytest.mark.parametrize(
    ("x", "mean", "cov"), [((3,), (3,), (2, 2)), ((4, 1), None, (2, 2)), ((3,), (2,), (3, 3)),
                           ((), (), (2, 2)), ((2,), (2,), (2, 3))],
)  # fmt: skip
def test_sizes_of_a_normal_distribution_that_do_not_go_together_are_named(x, mean, cov):
    mean = None if mean is None else mg.zeros(*mean)
    with pytest.raises(ValueError, match=r"x \(…, d\) goes with mean \(d,\) and cov .*; got x \("):
        mg.stats.multivariate_normal.logpdf(mg.ones(*x), mean, mg.ones(*cov) + mg.eye(*cov))
