"""Gamma's kin in mg.special: complex arguments, and where they end."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.testing import gradcheck, gradgradcheck

mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
pytest.importorskip("scipy", reason="SciPy is not installed")
rng = np.random.default_rng(0)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 50.0])
def test_polygamma_of_complex_numbers_is_mpmaths(order, size):
    z = (rng.normal(size=20) + 1j * rng.normal(size=20)) * size
    with mpmath.workdps(25):
        expected = [complex(mpmath.psi(order, mpmath.mpc(v))) for v in z]
    np.testing.assert_allclose(op.polygamma(order, z), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["loggamma", "digamma", "rgamma"])
def test_complex_arguments_have_derivatives_on_both_sides_of_the_axis(name):
    z = np.array([0.7 + 0.4j, -1.6 + 0.5j, -2.3 - 0.8j, 4 - 3j])
    f = getattr(mg.special, name)
    assert gradcheck(f, (z,)) and gradgradcheck(f, (z,))


def test_loggamma_is_mpmaths_and_nan_for_real_numbers_below_zero():
    z = np.array([0.3 + 5j, -3.4 + 0.1j, -3.4 - 0.1j, 30 - 20j])
    expected = [complex(mpmath.loggamma(v)) for v in z]
    np.testing.assert_allclose(mg.special.loggamma(z), expected, rtol=1e-13)
    x = mg.special.loggamma(mg.tensor([-0.5, 0.5, 2.5]))
    np.testing.assert_allclose(x, [np.nan, 0.5723649429247001, 0.2846828704729192], rtol=1e-14)


@pytest.mark.parametrize("order", [1, 2])
def test_one_over_gamma_ends_flat_at_infinity(order):
    x = mg.tensor(np.inf, requires_grad=True)
    y = mg.special.rgamma(x)
    for _ in range(order):
        y = mg.grad(y, x, create_graph=True)
        assert y.item() == 0


@pytest.mark.parametrize("name", ["ellipk", "ellipe"])
def test_elliptic_integrals_are_flat_at_minus_infinity(name):
    x = mg.tensor(-np.inf, requires_grad=True)
    g = mg.grad(getattr(mg.special, name)(x), x, create_graph=True)
    assert g.item() == 0 and mg.grad(g, x).item() == 0


@pytest.mark.parametrize("name", ["huber", "pseudo_huber"])
def test_hubers_functions_are_scipys_with_both_derivatives(name):
    import scipy.special

    delta, r = np.array([0.5, 1.5, 1.0, 2.0]), np.array([-3.0, 0.7, 1e8, 0.0])
    f = getattr(mg.special, name)
    np.testing.assert_allclose(f(delta, r), getattr(scipy.special, name)(delta, r), rtol=1e-14)
    assert gradcheck(f, (delta[:2], r[:2])) and gradgradcheck(f, (delta[:2], r[:2]))


def test_the_slope_of_pseudo_huber_in_delta_keeps_its_digits_for_small_residuals():
    delta = mg.tensor(1.0, requires_grad=True)
    g = mg.grad(mg.special.pseudo_huber(delta, 1e-5), delta)
    np.testing.assert_allclose(g.item(), 2.5e-21, rtol=1e-9)  # r⁴/4δ³


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_polygamma_far_below_zero_is_mpmaths(order):
    x = np.array([-101.25, -150.5, -1234.4375, -99999.625])
    expected = [float(mpmath.polygamma(order, mpmath.mpf(v))) for v in x]
    np.testing.assert_allclose(mg.polygamma(order, mg.tensor(x)).numpy(), expected, rtol=1e-11)


def test_the_slope_of_digamma_far_below_zero_takes_no_steps_up_from_there():
    x = mg.tensor([-1e15 + 0.25, -1e12 + 0.5, -200.0, 3.0], requires_grad=True)
    mg.digamma(x).sum().backward()  # SciPy's zeta would take 10¹⁵ steps
    np.testing.assert_allclose(x.grad, [2 * np.pi**2, np.pi**2, np.inf, np.pi**2 / 6 - 1.25])
    np.testing.assert_allclose(mg.special.zeta(2.0, x.detach()), x.grad)


@pytest.mark.parametrize("s", [-1.0, 0.0, 1.0])
def test_zeta_far_below_zero_is_scipys_where_it_has_no_series(s):
    special = pytest.importorskip("scipy.special")
    q = np.array([-1e6 - 0.5, 2.0])
    np.testing.assert_array_equal(mg.special.zeta(s, q=mg.tensor(q)).numpy(), special.zeta(s, q))


def test_digamma_is_exact_to_units_in_the_last_place_around_its_zero_below_0():
    mpmath = pytest.importorskip("mpmath")
    x = np.linspace(-0.85, -0.15, 401)
    y = mg.digamma(mg.tensor(x)).data
    with mpmath.workdps(30):
        exact = np.array([float(mpmath.digamma(z)) for z in x])
        slope = np.array([float(mpmath.polygamma(1, z)) for z in x])
    assert (np.abs(y - exact) <= 4 * np.spacing(np.abs(exact)) + slope * np.spacing(-x)).all()
    assert [mg.digamma(mg.tensor(z)).item() for z in x[::40]] == y[::40].tolist()


def slopes_of_beta(a, b, dtype, *orders):
    """Derivatives of B(a, b) in orders (n, m), by a and by b, from mpmath."""
    with mpmath.workdps(60):
        a, b = mpmath.mpf(float(dtype(a))), mpmath.mpf(float(dtype(b)))
        function = lambda p, q: mpmath.gamma(p) * mpmath.gamma(q) * mpmath.rgamma(p + q)
        return [float(mpmath.diff(function, (a, b), order)) for order in orders]


@pytest.mark.parametrize(("a", "b"), [(0.5, -0.5), (0.5, -1.5), (-0.5, -0.5), (2.5, -4.5)])
def test_where_beta_is_zero_its_derivatives_are_the_limits(a, b):
    x, y = (mg.tensor(v, requires_grad=True) for v in (a, b))
    g = mg.grad(mg.special.beta(x, y), (x, y), create_graph=True)
    second = mg.grad(g[0], (x, y))
    expected = slopes_of_beta(a, b, np.float64, (1, 0), (0, 1), (2, 0), (1, 1))
    np.testing.assert_allclose([v.item() for v in (*g, *second)], expected, rtol=1e-11)


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-11), (np.float32, 2e-3)])
@pytest.mark.parametrize("b", [1e-15, 1e-9, 1e-4, 2e-3, 0.1])
@pytest.mark.parametrize("a", [1e-15, 1e-5, 0.3, 1.5, 20.0, 1e4, -1.5, -20.3])
def test_the_slope_of_log_beta_keeps_its_digits_for_a_small_b(a, b, dtype, close):
    """digamma(a) − digamma(a + b) as it is written has lost all of them at b = 10⁻¹⁵."""
    x = mg.tensor(np.array(a, dtype), requires_grad=True)
    y = mg.tensor(np.array(b, dtype))
    g = mg.grad(mg.special.betaln(x, y), x).item()
    with mpmath.workdps(60):
        p, q = mpmath.mpf(x.item()), mpmath.mpf(y.item())
        expected = float(mpmath.digamma(p) - mpmath.digamma(p + q))
    assert g == pytest.approx(expected, rel=close)


@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
def test_a_quantile_of_no_probability_is_nan(name):
    q = np.linspace(-5, 5, 41)
    found = getattr(mg.special, name)(0.5, mg.tensor(q)).data
    np.testing.assert_array_equal(np.isnan(found), (q < 0) | (q > 1))


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_the_density_of_a_large_shape_has_its_digits_in_single_precision(name):
    a = np.float32(1e6)
    x = mg.tensor(np.array([1e6, 1.0005e6], np.float32), requires_grad=True)
    g = mg.grad(getattr(mg.special, name)(a, x).sum(), x).data
    with mpmath.workdps(40):
        logs = [(a - 1) * mpmath.log(float(v)) - float(v) - mpmath.loggamma(float(a)) for v in x]
        expected = [float(mpmath.exp(v)) for v in logs]
    np.testing.assert_allclose(g if name == "gammainc" else -g, expected, rtol=1e-5)


def test_the_inverse_of_boxcox_has_a_slope_where_px_is_beyond_the_numbers():
    x = np.array([1e15, -1e15, 1e15], np.float32)
    p = mg.tensor(np.array([1e30, -1e30, 1e27], np.float32), requires_grad=True)
    y = mg.special.inv_boxcox(x, p)
    np.testing.assert_array_equal(y.data, 1)
    np.testing.assert_allclose(mg.grad(y.sum(), p).data, 0, atol=1e-30)


@pytest.mark.parametrize("name", ["boxcox", "boxcox1p"])
def test_the_slope_of_boxcox_in_its_power_has_its_limit_at_infinity(name):
    x, p = mg.tensor(np.inf), mg.tensor([-2.0, 2.0], requires_grad=True)
    getattr(mg.special, name)(x, p).sum().backward()
    assert p.grad.tolist() == [0.25, np.inf]


def test_a_polygamma_function_whose_factorial_is_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="order=171: its factorial, a factor, is beyond float64"):
        mg.polygamma(171, mg.tensor(2.5))


@pytest.mark.parametrize("x", [-100, -2.5, -1, 0, 0.5, 1, 2, 30.5])
def test_zeta_of_one_number_is_riemanns_function_below_1_too(x):
    special = pytest.importorskip("scipy.special")
    assert mg.special.zeta(x) == special.zeta(x)
    assert np.isnan(mg.special.zeta(-0.5, 1.0))  # the series of Hurwitz has no sum there


@pytest.mark.parametrize("low, high", [(-150, -3), (-3, 0), (0, 1), (1, 2), (2, 300)])
def test_trigamma_of_many_numbers_is_within_4_units_in_the_last_place(low, high):
    x = 10 ** rng.uniform(low, high, 600)
    with mpmath.workdps(30):
        expected = [mpmath.psi(1, mpmath.mpf(float(v))) for v in x]
        y = mg.polygamma(1, mg.tensor(x)).numpy()
        units = [abs(mpmath.mpf(float(a)) - b) / np.spacing(a) for a, b in zip(y, expected)]
    assert max(units) <= 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_trigamma_of_many_numbers_is_that_of_each_also_at_poles_and_ends(dtype):
    special = [0.0, -0.0, -1.0, -2.5, -1e4, np.inf, np.nan, 0.01, 0.5, 60000.0]
    x = np.array(special * 40, dtype=dtype)
    alone = np.array([mg.polygamma(1, mg.tensor(v)).numpy() for v in x[: len(special)]])
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        together = mg.polygamma(1, mg.tensor(x)).numpy()
    assert together.dtype == dtype
    np.testing.assert_allclose(together, np.tile(alone, 40), rtol=4 * np.finfo(dtype).eps)
