"""Derivatives of arguments of any size: nothing on the way overflows, vanishes or cancels where the
result does not.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "nothing on the way to a derivative overflows, vanishes or cancels where the result does not"
)


def slopes(f, *arrays):
    """The gradients of Σ f at these arrays."""
    xs = [mg.tensor(np.asarray(a), requires_grad=True) for a in arrays]
    with np.errstate(all="ignore"):
        f(*xs).sum().backward()
    return [x.grad.numpy() for x in xs]


@pytest.mark.parametrize("dtype, x", [("float32", 1e25), ("float64", 1e200), ("float32", -3e37)])
def test_arcsinh_has_its_slope_where_squares_overflow(dtype, x):
    [slope] = slopes(mg.arcsinh, np.array([x], dtype))
    np.testing.assert_allclose(slope, 1 / abs(x), rtol=1e-6)
    second = mg.func.grad(mg.func.grad(mg.arcsinh))(mg.tensor(np.array(1e3, dtype)))
    np.testing.assert_allclose(second.numpy(), -1e3 * (1 + 1e6) ** -1.5, rtol=1e-6)


@pytest.mark.parametrize("function, power", [("arcsinh", 1), ("arctan", 2), ("arctanh", 2)])
def test_inverses_have_the_slopes_of_huge_complex_numbers(function, power):
    sign = -1 if function == "arctanh" else 1
    z = np.array([3e15 + 1e15j, 2e15 - 3e15j, 4e21 + 3e21j], np.complex64)
    f = getattr(mg, function)
    z = z[:2] if power == 2 else z  # beyond, 1/z² is below the normal numbers
    [slope] = slopes(lambda x: f(x).real, z)
    np.testing.assert_allclose(slope.conj(), sign / z.astype(complex) ** power, rtol=1e-5)
    [slope] = slopes(lambda x: f(x).real, np.array([3e30 + 1e30j], np.complex64))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-15), ("float32", 4e-7)])
def test_tanhshrink_keeps_its_digits_near_0(dtype, rtol):
    mpmath = pytest.importorskip("mpmath")
    x = np.array([1e-9, -1e-5, 0.003, 0.2, -0.999, 1.0, 4.0], dtype)
    with mpmath.workdps(60):
        points = [mpmath.mpf(float(v)) for v in x]
        exact = [float(v - mpmath.tanh(v)) for v in points]
        steep = [float(mpmath.tanh(v) ** 2) for v in points]
    np.testing.assert_allclose(mg.tanhshrink(mg.tensor(x)).numpy(), exact, rtol=2 * rtol)
    np.testing.assert_allclose(slopes(mg.tanhshrink, x)[0], steep, rtol=2 * rtol)
    module = mg.nn.Tanhshrink()(mg.tensor(x)).numpy()
    np.testing.assert_array_equal(module, mg.tanhshrink(mg.tensor(x)).numpy())


def test_mish_has_its_second_derivative_far_out_in_float32():
    x = np.array([-30.0, -9.0, 5.0, 11.0, 20.0, 38.0], np.float32)
    found, exact = (slopes(op.mish_derivative, x.astype(dtype))[0] for dtype in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=2e-6)


def test_the_slope_of_log_ndtr_keeps_its_digits_in_float32_where_its_terms_cancel():
    x = np.linspace(-2.12, 0, 300, dtype=np.float32)
    found, exact = (slopes(op.log_ndtr_slope, x.astype(dtype))[0] for dtype in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=2e-7)


@pytest.mark.parametrize("name, more", [("rel_entr", 1), ("kl_terms", 0)])
def test_logarithms_of_quotients_that_overflow_are_finite(name, more):
    a, b = np.array([3e30, 2e-30, 1.5], np.float32), np.array([1e-20, 1e30, 0.5], np.float32)
    da = slopes(getattr(op, name), a, b)[0]
    np.testing.assert_allclose(da, np.log(a.astype(float) / b) + more, rtol=1e-6)


def test_the_slope_of_pseudo_huber_is_right_where_a_quotient_vanishes():
    delta, r = np.array([5e-37, 2e7], np.float32), np.array([1.5e7, 5e-37], np.float32)
    np.testing.assert_allclose(slopes(op.pseudo_huber, delta, r)[1], 5e-37, rtol=1e-6)


def test_powers_of_numbers_near_1_keep_the_digits_of_what_is_above_1():
    x, p = np.array([5e-7], np.float32), np.array([4e5], np.float32)
    found, exact = (slopes(op.boxcox1p, x.astype(d), p.astype(d))[0] for d in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_the_inverse_of_boxcox_has_its_slope_where_squares_overflow():
    x, p = np.array([3.7e8, -4e20], np.float32), np.array([0.376, 1e-38], np.float32)
    found, exact = (slopes(op.inv_boxcox, x.astype(d), p.astype(d))[1] for d in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=1e-4)


def test_a_small_power_less_1_has_its_slope_in_the_exponent():
    x, p = np.array([1.5e-30], np.float32), np.array([0.4], np.float32)
    found, exact = (slopes(op.powm1, x.astype(d), p.astype(d))[1] for d in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_lengths_and_their_slopes_do_not_depend_on_squares_in_range(scale):
    x = (np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]]) * scale).astype(np.float32)
    for f in (lambda x: mg.linalg.vector_norm(x, axis=1), lambda x: mg.norm(x, axis=1)):
        np.testing.assert_allclose(f(mg.tensor(x)).numpy(), [5 * scale, 0, 5 * scale], rtol=1e-6)
        np.testing.assert_allclose(slopes(f, x)[0], [[0.6, 0.8], [0, 0], [0, 1]], rtol=1e-6)
    assert mg.norm(mg.tensor(np.array([np.inf, 1.0], np.float32))).item() == np.inf


@pytest.mark.parametrize("p", [-2, 0.5, 3, 10])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_norm_of_any_order_and_its_slopes_do_not_depend_on_powers_in_range(p, scale):
    x = np.array([[3.0, 4.0, 1.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0]])

    def f(x):
        return mg.vector_norm(x, ord=p, axis=1)

    small = (x * scale).astype(np.float32)
    np.testing.assert_allclose(f(small) / np.float32(scale), f(x), rtol=1e-5)
    np.testing.assert_allclose(slopes(f, small)[0], slopes(f, x)[0], rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-25, 1e15])
def test_singular_vectors_of_tiny_and_huge_matrices_have_their_derivatives(scale):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 3))

    def nearest_rotation(a):
        u, _, vh = mg.linalg.svd(a)
        return (u @ vh) * w.astype(a.dtype)

    found, exact = (slopes(nearest_rotation, (x * scale).astype(d))[0] for d in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("order", [0, 1, 2.5, -3, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaled_bessel_functions_have_their_slopes_far_out_where_all_digits_cancel(order, dtype):
    mpmath = pytest.importorskip("mpmath")
    xs = np.array([500, 2**17, 2**34], dtype)
    rtol = 100 * np.finfo(dtype).eps
    for name, sign, bessel in (("ive", -1, mpmath.besseli), ("kve", 1, mpmath.besselk)):
        f = getattr(mg.special, name)
        [slope] = slopes(lambda x, f=f: f(order, x), xs)
        curve = mg.func.vmap(mg.func.grad(mg.func.grad(lambda x, f=f: f(order, x))))(mg.tensor(xs))
        for x, first, second in zip(xs, slope, curve.numpy(), strict=True):
            with mpmath.workdps(80):
                h = mpmath.mpf(float(x)) * mpmath.mpf(10) ** -16
                around = [float(x) + k * h for k in (-1, 0, 1)]
                a, b, c = (mpmath.exp(sign * v) * bessel(order, v) for v in around)
                exact = float((c - a) / (2 * h)), float((a - 2 * b + c) / h**2)
            np.testing.assert_allclose([first, second], exact, rtol=rtol)
    if order % 1 == 0:  # even functions and odd ones
        [left] = slopes(lambda x: mg.special.ive(order, x), -xs)
        [right] = slopes(lambda x: mg.special.ive(order, x), xs)
        np.testing.assert_array_equal(left, right if order % 2 else -right)


def test_bessel_slopes_do_not_overflow_where_the_sum_of_two_neighbours_does():
    x = np.array([91.66667], np.float32)
    found, exact = (slopes(lambda x: mg.special.i0(x), x.astype(d))[0] for d in ("f4", "f8"))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_the_curvature_of_a_kl_term_is_right_where_the_first_probability_is_far_the_smaller():
    a, b = np.array([1e-12, 1e-6, 0.4, 0.6]), np.array([0.9, 20.0, 0.5, 0.3])
    x = mg.tensor(b, requires_grad=True)
    slope = mg.grad(mg.special.kl_div(mg.tensor(a), x).sum(), x, create_graph=True)
    np.testing.assert_allclose(slope.detach().numpy(), (b - a) / b, rtol=1e-15)
    np.testing.assert_allclose(mg.grad(slope.sum(), x).numpy(), a / b**2, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("b", [1.5, -0.5, 1e6, 1e12])
def test_the_slope_of_log_beta_keeps_its_digits_where_one_argument_is_far_the_larger(dtype, b):
    mpmath = pytest.importorskip("mpmath")
    a, b = np.array([3e8, 1e10, 1e14, 1e18], dtype), np.array(b, dtype)
    slope = slopes(mg.special.betaln, a, b)[0]
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(float(x)), mpmath.mpf(float(b))) for x in a]
        exact = [float(mpmath.digamma(x) - mpmath.digamma(x + y)) for x, y in pairs]
    np.testing.assert_allclose(slope, exact, rtol=20 * np.finfo(dtype).eps)


def test_the_curvature_of_gelu_by_tanh_is_a_number_in_float16():
    x = mg.tensor(np.array([-6e4, -20.0, -1.5, 3.0, 40.0], np.float16), requires_grad=True)
    wide = mg.tensor(x.numpy().astype(float), requires_grad=True)
    found, exact = (
        mg.grad(mg.grad(mg.gelu(v, approximate="tanh").sum(), v, create_graph=True).sum(), v)
        for v in (x, wide)
    )
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize(
    "f, x",
    [
        (mg.log10, 4e4),
        (mg.special.exprel, 13.6),
        (lambda x: mg.special.hyp0f1(1.5, x), 69.0),
        (lambda x: mg.special.shichi(x)[1], 14.3),
        (lambda x: mg.special.shichi(x)[1], 1.7e-5),
    ],
)
def test_slopes_in_float16_are_finite_where_a_part_of_them_is_beyond_it(f, x):
    x = np.array([x], np.float16)
    [found], [exact] = slopes(f, x), slopes(f, x.astype(float))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, exact, rtol=1e-2)


def test_the_curvature_of_a_kl_term_at_a_tiny_second_probability_is_infinite_and_no_nan():
    b = mg.tensor(np.array([1e-36], np.float32), requires_grad=True)
    with np.errstate(all="ignore"):
        slope = mg.grad(mg.special.kl_div(0.5, b).sum(), b, create_graph=True)
        assert mg.grad(slope.sum(), b).item() == np.inf
