"""Derivatives of the incomplete gamma and beta functions in their shape parameters: mpmath's."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op

mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
scipy_special = pytest.importorskip("scipy.special", reason="SciPy is not installed")

SIZES = np.geomspace(1e-2, 1e3, 6)


def around(mean, deviation):
    """Places from far below the mean to far above it."""
    return [mean + k * deviation for k in (-6, -2, -0.3, 0, 0.01, 0.5, 3, 8)]


GAMMA = [
    (a, x)
    for a in SIZES
    for x in (1e-6 * a, 0.3 * a, a + 0.4, a + 0.6, a + 1.6, 10.0, *around(a, a**0.5))
    if x > 0
]
BETA = [
    (a, b, x)
    for a in SIZES
    for b in SIZES
    for x in (1e-9, 0.01, 0.5, 0.99, *around(a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)))
    if 0 < x < 1
]


def gamma_of(a, x):
    """P(·, x), as −Q(·, x) where that is the smaller one: their derivatives are the same."""
    if x < a:
        return lambda a: mpmath.gammainc(a, 0, mpmath.mpf(x), regularized=True)
    return lambda a: -mpmath.gammainc(a, mpmath.mpf(x), mpmath.inf, regularized=True)


def beta_of(a, b, x):
    if x < a / (a + b):
        return lambda a, b: mpmath.betainc(a, b, 0, mpmath.mpf(x), regularized=True)
    return lambda a, b: -mpmath.betainc(b, a, 0, 1 - mpmath.mpf(x), regularized=True)


def close(found, exact, rtol):
    exact = np.array([float(e) for e in exact])
    kept = np.abs(exact) > 1e-280
    np.testing.assert_allclose(found[kept], exact[kept], rtol=rtol)


def test_the_derivative_of_gammainc_in_its_shape_has_eleven_digits():
    a, x = (mg.tensor(v) for v in np.array(GAMMA).T)
    a.requires_grad_()
    (found,) = mg.grad(mg.special.gammainc(a, x).sum(), [a])
    with mpmath.workdps(60):
        exact = [mpmath.diff(gamma_of(a, x), a) for a, x in GAMMA]
    close(found.numpy(), exact, 1e-11)


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_the_derivatives_of_betainc_in_its_shapes_have_eleven_digits(order):
    xs = [mg.tensor(v, requires_grad=True) for v in np.array(BETA).T]
    found = mg.grad(mg.special.betainc(*xs).sum(), xs)[order.index(1)]
    with mpmath.workdps(60):
        exact = [mpmath.diff(beta_of(a, b, x), (a, b), order) for a, b, x in BETA]
    close(found.numpy(), exact, 1e-11)


def test_the_upper_integral_changes_by_the_opposite():
    a = mg.tensor([0.5, 3.0], requires_grad=True)
    x = np.array([2.0, 0.5])
    (lower,), (upper,) = (
        mg.grad(f(a, x).sum(), [a]) for f in (mg.special.gammainc, mg.special.gammaincc)
    )
    np.testing.assert_array_equal(lower.numpy(), -upper.numpy())


def test_mixed_and_second_derivatives_are_mpmaths():
    a, b, x = (mg.tensor(v, requires_grad=True) for v in (2.5, 0.7, 0.4))
    slopes = mg.grad(mg.special.betainc(a, b, x), [a, b, x], create_graph=True)
    found = [[d.item() for d in mg.grad(s, [a, b, x], retain_graph=True)] for s in slopes]

    def whole(a, b, x):
        return mpmath.betainc(a, b, 0, x, regularized=True)

    def exact(i, j):
        orders = tuple((k == i) + (k == j) for k in range(3))
        at = 2.5, mpmath.mpf(0.7), mpmath.mpf(0.4)
        return float(mpmath.diff(whole, at, orders))

    with mpmath.workdps(40):
        expected = [[exact(i, j) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_at_the_ends_and_far_out_the_derivative_is_zero():
    x = np.array([0.0, np.inf, 1e300, 1e-300])
    np.testing.assert_array_equal(op.gammainc_derivative(np.full(4, 2.0), x), 0)
    ends = np.array([0.0, 1.0])
    np.testing.assert_array_equal(op.betainc_derivative(np.full(2, 2.0), np.full(2, 3.0), ends), 0)


def test_outside_of_the_domain_it_is_nan():
    a, x = np.array([0.0, -1.0, 2.0, 2e6, np.nan]), np.array([1.0, 1.0, -1.0, 1.0, 1.0])
    assert np.isnan(op.gammainc_derivative(a, x)).all()
    assert np.isnan(op.betainc_derivative(np.ones(2), np.ones(2), np.array([-0.1, 1.1]))).all()


def test_an_answer_comes_for_every_size_of_parameters():
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.uniform(-300, 4, (2, 500))
    assert np.isfinite(op.gammainc_derivative(a, a * rng.uniform(0.9, 1.1, 500))).all()
    a, b = np.maximum(a, 1e-30), np.maximum(b, 1e-30)
    x = np.minimum(a / (a + b) * rng.uniform(0.9, 1.1, 500), 1)
    assert np.isfinite(op.betainc_derivative(a, b, x)).all()


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "beta", "betaln"])
def test_short_whole_numbers_without_a_sign_are_no_16_bit_floats(name):
    a, b = np.array([1, 2, 3], np.uint16), np.array([2, 1, 4], np.uint16)
    y = getattr(mg.special, name)(a, b)
    close(y, getattr(mg.special, name)(a.astype(float), b.astype(float)), 1e-6)


def test_the_upper_beta_integral_keeps_a_number_below_the_rounding_of_one():
    for a, b, x in ((1e-3, 0.5, 1e-300), (0.01, 1.0, 1e-100), (2.0, 1.0, 0.3)):
        expected = float(mpmath.betainc(a, b, x, 1, regularized=True))
        np.testing.assert_allclose(mg.special.betaincc(a, b, x), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [mg.float16, mg.bfloat16])
@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (mg.special.gammainc, (48.0, 50.0)),
        (mg.special.gammaincc, (308.0, 300.0)),
        (mg.special.gammaincinv, (48.0, 0.5)),
        (mg.special.gammainccinv, (310.0, 0.25)),
        (mg.special.betainc, (48.0, 96.0, 0.3125)),
        (mg.special.betaincinv, (48.0, 96.0, 0.5)),
        (mg.special.betaln, (512.0, 2.0)),
    ],
    ids=["gammainc", "gammaincc", "gammaincinv", "gammainccinv", "betainc", "betaincinv", "betaln"],
)
def test_densities_of_16_bit_floats_keep_their_digits(call, arguments, dtype):
    low = [mg.tensor(v, dtype=dtype, requires_grad=True) for v in arguments]
    high = [mg.tensor(v, dtype=mg.float64, requires_grad=True) for v in arguments]
    got, expected = mg.grad(call(*low), low), mg.grad(call(*high), high)
    for mine, right in zip(got, expected, strict=True):  # y of the inverses is itself rounded
        assert mine.dtype == dtype
        np.testing.assert_allclose(float(mine), float(right), rtol=0.03)


@pytest.mark.parametrize("name", ["betainc", "betaincinv", "betainccinv"])
def test_incomplete_beta_functions_of_float32_are_right_to_the_last_place(name):
    """SciPy's own of float32 are up to 1,000 units in the last place off."""
    rng = np.random.default_rng(0)
    xs = [rng.uniform(low, high, 4000).astype("f") for low, high in ((0.1, 5), (0.1, 5), (0, 1))]
    y = getattr(mg.special, name)(*xs)
    exact = getattr(scipy_special, name)(*[x.astype(np.float64) for x in xs])
    assert y.dtype == np.float32
    assert (np.abs(y - exact) <= np.spacing(exact.astype("f"))).all()


@pytest.mark.parametrize(
    ("function", "shapes", "end", "second", "third"),
    # x e⁻ˣ, e⁻ˣ, x² e⁻ˣ/2; 6 x (1 − x), 3 (1 − x)², 2 x are the densities
    [
        ("gammainc", (2.0,), 0.0, 1, -2), ("gammainc", (1.0,), 0.0, -1, 1),
        ("gammaincc", (3.0,), 0.0, 0, -1), ("betainc", (2.0, 2.0), 0.0, 6, -12),
        ("betainc", (2.0, 2.0), 1.0, -6, -12), ("betainc", (1.0, 3.0), 1.0, 0, 6),
        ("betaincc", (2.0, 1.0), 0.0, -2, 0),
    ],
)  # fmt: skip
def test_derivatives_at_an_end_of_the_integral_are_those_of_the_density(
    function, shapes, end, second, third
):
    x = mg.tensor(end, requires_grad=True)
    g = mg.grad(getattr(mg.special, function)(*shapes, x), x, create_graph=True)
    g2 = mg.grad(g, x, create_graph=True)
    found = [g2.item(), mg.grad(g2, x).item()]
    np.testing.assert_allclose(found, [second, third], rtol=1e-13)


SMALL = [  # q = P(a, b, y) of small y: SciPy 1.17 has NaN, or in the second case 1.39e-17
    (2.75, 2.75, 3.48e-119), (1.9703466711491304, 0.05291541900486246, 1.9955892570499813e-35),
    (7.966734097946849, 6e-4, 1e-225), (5.0, 6586.0, 4.4e-230),
    (1.0184104442596436, 0.011929590255022049, 3.783092333537796e-18),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "q"), SMALL)
def test_small_quantiles_of_beta_have_their_digits(a, b, q):
    y = mg.special.betaincinv(a, b, q)
    share = float(mpmath.betainc(a, b, 0, float(y), regularized=True))
    np.testing.assert_allclose(share, q, rtol=1e-11)
    assert mg.special.betainccinv(b, a, q) == 1 - y
    leaf = mg.tensor(q, requires_grad=True)
    slope = mg.grad(mg.special.betaincinv(a, b, leaf), leaf).item()
    np.testing.assert_allclose(slope, float(y) / (a * q), rtol=1e-10)
