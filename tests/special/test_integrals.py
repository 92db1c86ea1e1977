"""Integrals, hypergeometric functions and quantiles at awkward points, beside mpmath."""

import numpy as np
import pytest
import scipy.special

import minigrad as mg

pytestmark = pytest.mark.promise(
    "integrals, hypergeometric functions and quantiles are mpmath's at awkward points"
)

mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
pytest.importorskip("scipy", reason="SciPy is not installed")

TINY, HUGE = 1e-300, 1e10

CASES = {
    "ellipk": (mpmath.ellipk, [-HUGE, -30, -0.6, -0.4, 1e-9, 0.2, 0.6, 0.99, 1 - 1e-10]),
    "ellipe": (mpmath.ellipe, [-HUGE, -30, -0.6, -0.4, 1e-9, 0.2, 0.6, 0.99, 1 - 1e-10]),
    "ellipkm1": (lambda x: mpmath.ellipk(1 - x), [1e-20, 1e-3, 0.3, 0.6, 1.001, 1.5, 30]),
    "exprel": (lambda x: mpmath.expm1(x) / x, [-700, -30, -1e-5, 1e-5, 1, 30, 700]),
    "exp1": (mpmath.e1, [1e-5, 0.1, 1, 5, 300, 700]),
    "expi": (mpmath.ei, [-700, -30, -1, -1e-5, 1e-5, 1, 30, 700]),
    "dawsn": (
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        [-20, -3, 1e-9, 0.5, 5, 7, 100],
    ),
    "erfi": (mpmath.erfi, [-20, -3, 1e-9, 5, 20]),
    "spence": (lambda x: mpmath.polylog(2, 1 - x), [1e-10, 0.1, 0.49, 0.9, 1.001, 1.6, 30, HUGE]),
    "wrightomega": (
        lambda x: mpmath.lambertw(mpmath.exp(x)),
        [-300, -3, 0.5, 1, 30, 600],
    ),
}


def derivatives(f, x):
    """f and its first two derivatives at x, by the engine."""
    x = mg.tensor(x, requires_grad=True)
    y = f(x)
    (g,) = mg.grad(y, [x], create_graph=True)
    (h,) = mg.grad(g, [x])
    return [float(v.detach().numpy()) for v in (y, g, h)]


def exact(f, x, n):
    """The nth derivative, by central differences with 80 digits."""
    with mpmath.workdps(80):
        x = mpmath.mpf(x)
        return float(mpmath.re(mpmath.diff(f, x, n, h=abs(x) * mpmath.mpf(10) ** -20)))


@pytest.mark.parametrize(("name", "x"), [(name, x) for name in CASES for x in CASES[name][1]])
def test_value_slope_and_curvature_keep_their_digits(name, x):
    expected = [exact(CASES[name][0], x, n) for n in (0, 1, 2)]
    actual = derivatives(getattr(mg.special, name), float(x))
    # mpmath's difference leaves 1e-39 where the derivative is 0, as that of expi at 1
    np.testing.assert_allclose(actual, expected, rtol=2e-14, atol=1e-38)


PARTS = {
    "sici": ((mpmath.si, mpmath.ci), [1e-5, 0.1, 1, 10, 1e4]),
    "shichi": ((mpmath.shi, mpmath.chi), [1e-5, 0.1, 1, 10, 600]),
    "fresnel": ((mpmath.fresnels, mpmath.fresnelc), [-2.9, -0.1, 0.5, 1.3]),
    "airy": (
        [
            lambda x, f=f, n=n: f(x, derivative=n)
            for f in (mpmath.airyai, mpmath.airybi)
            for n in (0, 1)
        ],
        [-9, -0.1, 1e-9, 3, 20],
    ),
}


@pytest.mark.parametrize(("name", "x"), [(name, x) for name in PARTS for x in PARTS[name][1]])
def test_functions_of_several_results_have_the_derivatives_of_each(name, x):
    for i, f in enumerate(PARTS[name][0]):
        expected = [exact(f, x, n) for n in (0, 1, 2)]
        actual = derivatives(lambda x, i=i: getattr(mg.special, name)(x)[i], float(x))
        np.testing.assert_allclose(actual, expected, rtol=2e-13, err_msg=f"result {i}")


@pytest.mark.parametrize("x", [-np.inf, np.inf, 1e300, -1e300, 1e38])
def test_kummers_function_ends_and_has_its_limits_far_out(x):
    value, slope, _ = derivatives(mg.special.exprel, x)
    assert (value, slope) == ((np.inf, np.inf) if x > 0 else (pytest.approx(-1 / x), 0))


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.5, 0.5), (2.5, -1.5)])
def test_an_exponential_times_a_polynomial_ends_and_vanishes_far_to_the_left(a, b):
    x = mg.tensor([-np.inf, -1e300, -1e16, -1e12, -30.0, 2.0])
    y = mg.special.hyp1f1(a, b, x).numpy()
    assert not y[:4].any()
    expected = [float(mpmath.hyp1f1(a, b, v)) for v in x.numpy()[4:]]
    np.testing.assert_allclose(y[4:], expected, rtol=1e-14)
    assert np.all(mg.special.hyp1f1(a, b, mg.tensor([1e5, np.inf])).numpy() == np.inf)


def rise_of_transform(x, p):
    """The derivative in p of (xᵖ − 1)/p, log²x/2 at p = 0."""
    with mpmath.workdps(80):
        x, p = mpmath.mpf(x), mpmath.mpf(p)
        log = mpmath.log(x)
        return float(((p * log - 1) * x**p + 1) / p**2 if p else log**2 / 2)


@pytest.mark.parametrize("p", [0.0, 1e-12, -1e-9, 1e-3, 0.7, 3.0])
def test_the_power_transform_has_no_hole_at_power_0(p):
    for x in (1e-10, 0.3, 1 + 1e-9, 40.0):
        a, b = mg.tensor(x, requires_grad=True), mg.tensor(p, requires_grad=True)
        mg.special.boxcox(a, b).backward()
        np.testing.assert_allclose(a.grad.item(), x ** (p - 1), rtol=1e-14)
        np.testing.assert_allclose(b.grad.item(), rise_of_transform(x, p), rtol=1e-13)


@pytest.mark.parametrize("p", [0.0, 1e-12, -1e-3, 0.5, 2.0])
def test_the_inverse_power_transform_undoes_it_and_so_do_its_slopes(p):
    x = np.array([0.5, 0.9, 1.0, 3.0])
    p = np.full(4, p)
    there, slope = mg.func.jvp(lambda x: mg.special.boxcox(x, p), (x,), (np.ones(4),))
    back, undone = mg.func.jvp(lambda y: mg.special.inv_boxcox(y, p), (there,), (slope,))
    np.testing.assert_allclose(back.numpy(), x, rtol=1e-13)
    np.testing.assert_allclose(undone.numpy(), np.ones(4), rtol=1e-13)


@pytest.mark.parametrize("name", ["inv_boxcox", "inv_boxcox1p"])
@pytest.mark.parametrize("p", [0.0, 0.03, 0.047])
def test_the_inverse_power_transform_s_slope_keeps_its_digits_where_its_value_is_near_0(name, p):
    x = mg.tensor(-14.3, requires_grad=True)
    getattr(mg.special, name)(x, mg.tensor(p)).backward()
    exact = np.exp(np.log1p(-14.3 * p) * (1 / p - 1)) if p else np.exp(-14.3)
    np.testing.assert_allclose(x.grad.item(), exact, rtol=1e-13)


# p: the limits of (1 + px)^(1/p − 1), the slope in x, and of the slope in p, where px = −1
AT_THE_END = {-2.0: (np.inf, -np.inf), -0.5: (np.inf, -np.inf), 0.5: (0, 0), 1.0: (1, -1),
              2.0: (np.inf, -np.inf)}  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("name", ["inv_boxcox", "inv_boxcox1p"])
@pytest.mark.parametrize("p", AT_THE_END)
def test_the_inverse_power_transform_has_its_limits_as_slopes_at_the_end_of_its_domain(name, p):
    x, p = mg.tensor(-1 / p, requires_grad=True), mg.tensor(p, requires_grad=True)
    getattr(mg.special, name)(x, p).backward()
    assert (x.grad.item(), p.grad.item()) == AT_THE_END[p.item()]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc"])
def test_a_quantile_moves_so_that_its_probability_stays(name):
    """The total derivative of P(a, quantile(a, q)) in a is 0, in q is 1."""
    shapes = [np.array([0.4, 1.0, 2.5, 30.0])]
    if name == "betainc":
        shapes.append(np.array([3.0, 0.7, 1.0, 12.0]))
    q = np.array([0.01, 0.3, 0.9, 0.5])

    def there_and_back(*args):
        *shapes, q = args
        inverse = getattr(mg.special, f"{name}inv")
        return getattr(mg.special, name)(*shapes, inverse(*shapes, q))

    args = [mg.tensor(a, requires_grad=True) for a in (*shapes, q)]
    there_and_back(*args).sum().backward()
    for shape in args[:-1]:
        np.testing.assert_allclose(shape.grad.numpy(), 0, atol=1e-13)
    np.testing.assert_allclose(args[-1].grad.numpy(), 1, rtol=1e-12)


def test_lamberts_function_solves_its_equation_on_every_branch():
    z = mg.tensor(np.array([0.3 + 0.2j, -0.2 + 0j, 5 - 1j]), requires_grad=True)
    for k in (-1, 0, 1):
        w = mg.special.lambertw(z, k)
        assert mg.allclose(w * mg.exp(w), z, rtol=1e-13)
        (slope,) = mg.grad(w.real.sum(), [z])
        expected = mg.exp(-w) / (1 + w)
        np.testing.assert_allclose(slope.numpy().conj(), expected.detach().numpy(), rtol=1e-12)


def test_a_real_argument_of_lamberts_function_has_a_real_gradient():
    z = mg.tensor([0.0, 1.0, -0.3], requires_grad=True)
    mg.special.lambertw(z).real.sum().backward()
    assert z.grad.dtype == np.float64
    w = mg.special.lambertw(z.detach()).real.numpy()
    np.testing.assert_allclose(z.grad.numpy(), np.exp(-w) / (1 + w), rtol=1e-13)


@pytest.mark.parametrize("name", ["jn", "yn", "in", "kn"])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_derivative_of_a_spherical_bessel_function_is_its_gradient(name, n):
    f = getattr(mg.special, f"spherical_{name}")
    z = mg.tensor([0.3, 2.0, 11.0], requires_grad=True)
    f(n, z).sum().backward()
    np.testing.assert_allclose(
        z.grad.numpy(), f(n, z, derivative=True).detach().numpy(), rtol=1e-14
    )


@pytest.mark.parametrize("n", range(1, 5))
def test_legendre_polynomials_solve_their_equation(n):
    """(1 − x²) y″ − 2x y′ + n (n + 1) y = 0."""
    for x in (-1.0, -0.4, 0.0, 0.9, 1.0):
        y, slope, curvature = derivatives(lambda x: mg.special.eval_legendre(n, x), x)
        left = (1 - x * x) * curvature - 2 * x * slope + n * (n + 1) * y
        assert left == pytest.approx(0, abs=1e-13)


def test_what_is_not_differentiable_in_a_parameter_says_so():
    x = mg.tensor([0.5])
    for call in (
        lambda: mg.special.hyp1f1(x, 1.5, x),
        lambda: mg.special.zeta(x, 2.0),
        lambda: mg.special.eval_jacobi(2, x, 0.5, x),
    ):
        with pytest.raises(TypeError, match="must be a number, got Tensor; the derivative is in"):
            call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("x", [2.0, 30.0, 1e4])
def test_the_scaled_error_function_and_its_derivatives_do_not_cancel_far_out(x, dtype):
    """e^x² erfc x = U(½, ½, x²)/√π"""

    def scaled(x):
        return mpmath.hyperu(0.5, 0.5, x * x) / mpmath.sqrt(mpmath.pi)

    actual = derivatives(mg.special.erfcx, dtype(x))
    expected = [exact(scaled, x, n) for n in (0, 1, 2)]
    np.testing.assert_allclose(actual, expected, rtol=32 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("x", "dtype"), [(-1e4, np.float32), (-1e8, np.float64)])
def test_the_logarithm_of_a_tail_is_a_parabola_far_out(x, dtype):
    slope, curvature = derivatives(mg.special.log_ndtr, dtype(x))[1:]
    assert slope == pytest.approx(-x, rel=1e-6)
    assert curvature == pytest.approx(-1, rel=1e-6)
    assert derivatives(mg.special.log_ndtr, -np.inf)[1:] == [np.inf, -1]


@pytest.mark.parametrize("name", ["expi", "chi"])
@pytest.mark.parametrize(("x", "dtype"), [(1e3, np.float64), (1e2, np.float32)])
def test_derivatives_beyond_the_numbers_are_infinite(name, x, dtype):
    f = mg.special.expi if name == "expi" else lambda x: mg.special.shichi(x)[1]
    assert derivatives(f, dtype(x)) == [np.inf, np.inf, np.inf]


@pytest.mark.parametrize("x", [-50.0, -800.0, -np.inf])
def test_wrights_function_is_its_own_derivative_far_to_the_left(x):
    np.testing.assert_allclose(
        derivatives(mg.special.wrightomega, x), np.full(3, np.exp(x)), rtol=1e-15
    )


def test_the_elliptic_integrals_have_infinite_derivatives_at_1():
    assert derivatives(mg.special.ellipk, 1.0) == [np.inf, np.inf, np.inf]
    assert derivatives(mg.special.ellipe, 1.0) == [1, -np.inf, -np.inf]


@pytest.mark.parametrize(("x", "dtype"), [(1000.5, np.float32), (2.0**40 + 0.5, np.float64)])
def test_fresnels_integrals_keep_the_phase_of_many_turns(x, dtype):
    for i, turned in enumerate((mpmath.sin, mpmath.cos)):
        _, slope, _ = derivatives(lambda x, i=i: mg.special.fresnel(x)[i], dtype(x))
        with mpmath.workdps(60):
            expected = float(turned(mpmath.pi * mpmath.mpf(x) ** 2 / 2))
        assert slope == pytest.approx(expected, rel=8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize(("x", "dtype"), [(1e-300, np.float64), (1e-30, np.float32)])
@pytest.mark.parametrize("name", ["jn", "in"])
def test_spherical_bessel_functions_start_with_their_first_term(name, x, dtype):
    f = getattr(mg.special, f"spherical_{name}")
    even = -1 if name == "jn" else 1
    for n, expected in enumerate([(1, even * x / 3, even / 3), (x / 3, 1 / 3, even * x / 5)]):
        actual = derivatives(lambda x, n=n: f(n, x), dtype(x))
        np.testing.assert_allclose(actual, expected, rtol=8 * np.finfo(dtype).eps)
    assert derivatives(lambda x: mg.special.shichi(x)[0], dtype(x))[1] == 1


@pytest.mark.parametrize("name", ["exp1", "erfcx", "wrightomega"])
def test_complex_numbers_have_the_derivative_of_the_function_of_them(name):
    """Of Re f the gradient is the conjugate of f′."""
    z = mg.tensor(np.array([0.3 + 0.2j, 2.5 - 1j, 4 + 1j]), requires_grad=True)
    f, h = getattr(mg.special, name), 1e-5
    f(z).real.sum().backward()
    z0 = z.detach()
    difference = (f(z0 + h) - f(z0 - h)) / (2 * h)
    np.testing.assert_allclose(z.grad.numpy().conj(), difference.numpy(), rtol=1e-8)


def test_exponential_integrals_of_complex_numbers_are_those_of_order_0_and_1():
    z = mg.tensor(0.3 + 0.2j)
    np.testing.assert_allclose(mg.special.expn(0, z).item(), np.exp(-z.item()) / z.item())
    with pytest.raises(TypeError, match="expn: of complex x there are n = 0 and n = 1 alone"):
        mg.special.expn(2, z)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "kve"])
def test_bessel_functions_of_whole_order_take_complex_numbers_as_scipys(name):
    z = np.array([0.3 + 0.2j, 2.5 - 1j])
    for order in (0, 1, 2):
        actual = getattr(mg.special, name)(order, mg.tensor(z)).numpy()
        np.testing.assert_allclose(actual, getattr(scipy.special, name)(order, z), rtol=1e-14)
    with pytest.raises(TypeError, match="ive: x must be real"):
        mg.special.ive(2, mg.tensor(z))


def test_airy_functions_have_their_limits_at_infinity():
    right = [float(y.numpy()) for y in mg.special.airy(mg.tensor(np.inf))]
    assert right == [0, 0, np.inf, np.inf]
    left = [float(y.numpy()) for y in mg.special.airy(mg.tensor(-np.inf))]
    assert (left[0], left[2]) == (0, 0)
    assert derivatives(lambda x: mg.special.airy(x)[0], np.inf) == [0, 0, 0]
    assert derivatives(lambda x: mg.special.airy(x)[2], np.inf) == [np.inf] * 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x: mg.special.spherical_jn(1, x),
        lambda x: mg.special.spherical_in(2, x),
        lambda x: mg.special.spherical_kn(0, x),
        lambda x: mg.special.eval_jacobi(2, 0.5, 0.25, x),
        lambda x: mg.special.eval_legendre(2, x),
        lambda x: mg.special.hyp0f1(1.5, x),
        lambda x: mg.special.hyp1f1(0.5, 1.5, x),
        lambda x: mg.special.hyp2f1(0.5, 1.0, 1.5, -x),
        lambda x: mg.special.expn(2, x),
        lambda x: mg.special.airy(x)[0],
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_functions_of_whole_numbers_keep_their_fractions(f, dtype):
    points = np.array([1.0, 2.0, 3.0])
    expected = f(mg.tensor(points)).numpy()
    actual = f(mg.tensor(points.astype(dtype))).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_owens_t_bends_at_zero_height_too():
    # ∂²T/∂h² = −a/2π at h = 0, where ∂T/∂h is 0
    slope = mg.func.grad(lambda h: mg.special.owens_t(h, 0.7))
    np.testing.assert_allclose(mg.func.grad(slope)(mg.tensor(0.0)), -0.7 / (2 * np.pi), rtol=1e-14)


def test_bessel_functions_go_on_where_scipys_give_up():
    """K of whole order beyond 1e9, I of any order at subnormal numbers."""
    x = mg.tensor([1e10, 1e300])
    expected = np.sqrt(np.pi / (2 * x.numpy()))
    np.testing.assert_allclose(mg.special.kve(2, x).numpy(), expected, rtol=1e-9)
    value, slope = derivatives(lambda x: mg.special.kve(1, x), 1e308)[:2]
    assert abs(slope) < 1e-15 * value  # −y/2x; it is a difference of two of y's size
    tiny = 1e-310
    value, slope = derivatives(lambda x: mg.special.iv(1.5, x), tiny)[:2]
    assert value == 0 and slope == pytest.approx(1.5 * 0.5**1.5 * tiny**0.5 / (0.75 * np.pi**0.5))
    assert derivatives(lambda x: mg.special.ive(0.5, x), 0.0)[:2] == [0, np.inf]


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive", "kv", "kve"])
@pytest.mark.parametrize("order", [np.nan, np.inf, -np.inf, 1e29, -1e29])
def test_bessel_functions_of_an_order_that_is_no_number_or_far_out_are_scipys(name, order):
    x = np.array([0.5, 3.0])
    ours = getattr(mg.special, name)(order, mg.tensor(x)).numpy()
    np.testing.assert_array_equal(ours, getattr(scipy.special, name)(order, x))
