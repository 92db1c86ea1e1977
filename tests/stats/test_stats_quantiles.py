"""ppf and isf in mg.stats: the inverses of cdf and sf, differentiable in every argument."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

scipy_stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")

DISTRIBUTIONS = [
    ("norm", ()), ("t", (0.5,)), ("t", (3.0,)), ("gamma", (2.5,)), ("chi2", (3.0,)),
    ("beta", (2.0, 3.0)), ("expon", ()), ("laplace", ()), ("logistic", ()), ("uniform", ()),
]  # fmt: skip
SHARES = np.array([1e-100, 1e-20, 1e-5, 0.1, 0.3, 0.5, 0.7, 0.999])


@pytest.mark.parametrize(("name", "shapes"), [*DISTRIBUTIONS, ("t", (200.0,)), ("t", (1e6,))])
@pytest.mark.parametrize(("function", "back"), [("ppf", "cdf"), ("isf", "sf")])
def test_quantiles_are_the_inverses_of_the_shares(name, shapes, function, back):
    args = (*shapes, 0.0, 1.7)
    d = getattr(mg.stats, name)
    x = getattr(d, function)(SHARES, *args)
    found = getattr(d, back)(x, *args)
    kept = (np.abs(x) > 1e-3) & (np.abs(x) < 1.69)  # of an x next to an end no share is left
    kept |= np.array([name not in ("beta", "uniform")] * x.size)
    np.testing.assert_allclose(found[kept], SHARES[kept], rtol=1e-9)
    with np.errstate(all="ignore"):
        expected = getattr(getattr(scipy_stats, name), function)(SHARES[2:], *args)
    np.testing.assert_allclose(x[2:], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "shapes"), DISTRIBUTIONS)
@pytest.mark.parametrize("function", ["ppf", "isf"])
def test_a_quantile_has_derivatives_in_the_share_and_in_every_parameter(name, shapes, function):
    f = getattr(getattr(mg.stats, name), function)
    q = np.array([0.1, 0.3, 0.45, 0.6, 0.9])
    args = (q, *[np.asarray(v) for v in (*shapes, 0.3, 1.7)])
    assert gradcheck(f, args)
    assert gradgradcheck(f, args)


@pytest.mark.parametrize(("name", "shapes"), DISTRIBUTIONS)
@pytest.mark.parametrize("function", ["ppf", "isf"])
def test_the_quantiles_of_0_and_1_are_the_ends_and_there_are_none_beyond(name, shapes, function):
    q = np.array([0.0, 1.0, -0.1, 1.1, np.nan])
    found = getattr(getattr(mg.stats, name), function)(q, *shapes, 0.3, 1.7)
    expected = getattr(getattr(scipy_stats, name), function)(q, *shapes, 0.3, 1.7)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_median_of_symmetric_distributions_has_the_slope_of_the_density():
    for name, shapes in (("t", (3.0,)), ("laplace", ()), ("logistic", ()), ("norm", ())):
        q = mg.tensor(0.5, requires_grad=True)
        x = getattr(mg.stats, name).ppf(q, *shapes)
        slope = mg.grad(x, q).item()
        assert x.item() == 0
        density = getattr(scipy_stats, name).pdf(0.0, *shapes)
        np.testing.assert_allclose(slope, 1 / density, rtol=1e-12)


@pytest.mark.parametrize(("name", "shapes"), [("gamma", (2.0,)), ("beta", (2.0, 3.0))])
def test_the_ends_of_a_support_do_not_move_with_a_shape_parameter(name, shapes):
    leaves = [mg.tensor(v, requires_grad=True) for v in shapes]
    x = getattr(mg.stats, name).ppf(0.0, *leaves)
    assert x.item() == 0 and [g.item() for g in mg.grad(x, leaves)] == [0] * len(leaves)
