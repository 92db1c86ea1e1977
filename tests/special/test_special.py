"""mg.special, and SciPy's ufuncs on tensors."""

import math
import pickle
import warnings

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "SciPy's ufuncs on tensors are recorded; integer arguments give float results"
)

special = pytest.importorskip("scipy.special", reason="SciPy is not installed")


def test_a_ufunc_of_scipy_special_is_recorded_on_a_tensor():
    for name in ("erf", "expit", "gammaln", "psi", "ndtr", "i0e", "log_ndtr", "entr", "j1"):
        x = mg.tensor([0.3, 0.7], requires_grad=True)
        y = getattr(special, name)(x)
        np.testing.assert_allclose(y.detach().numpy(), getattr(special, name)(x.detach().numpy()))
        y.sum().backward()
        h = 1e-6
        slope = getattr(special, name)([0.3 + h, 0.7 + h]) - getattr(special, name)(
            [0.3 - h, 0.7 - h]
        )
        np.testing.assert_allclose(x.grad.numpy(), slope / (2 * h), rtol=1e-6)


def test_a_ufunc_of_two_arrays_takes_a_tensor_and_an_array():
    a = mg.tensor([0.5, 2.0], requires_grad=True)
    special.betaln(a, np.array([1.0, 3.0])).sum().backward()
    expected = special.psi([0.5, 2.0]) - special.psi([1.5, 5.0])
    np.testing.assert_allclose(a.grad.numpy(), expected)


def test_a_ufunc_that_is_not_scipys_own_is_not_taken_for_it_by_its_name():
    named_erf = np.frompyfunc(lambda x: x, 1, 1)
    with pytest.raises(TypeError, match="no derivative rule"):
        named_erf(mg.tensor([1.0]))


def test_every_name_of_mg_special_is_scipys():
    aliases = {"exp2", "expm1", "log1p", "sinc"}
    for name in mg.special.__all__:
        assert name in aliases or hasattr(special, name), name


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1", "i0", "i1", "k0", "k1", "k0e", "k1e"])
def test_a_function_of_a_table_goes_by_its_own_name(name):
    function = getattr(mg.special, name)
    assert function.__name__ == function.__qualname__ == name
    assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(TypeError, match=name):
        function()


def test_an_order_that_is_no_number_says_so():
    with pytest.raises(TypeError, match="order v must be a number"):
        mg.special.jv(mg.tensor([1.5], requires_grad=True), mg.tensor([1.0]))


INF = np.inf


@pytest.mark.parametrize(
    ("a", "options"),
    [
        ([[1.0, 2.0], [0.5, -3.0]], {"axis": 1, "b": [[1.0, 2.0], [0.1, 0.0]], "keepdims": True}),
        ([[1.0, 2.0], [0.5, -3.0]], {"axis": 0, "b": [0.5, 2.0]}),
        ([1.0, 2.0], {"b": [1.0, -1.0], "return_sign": True}),
        ([1.0, 2.0], {"b": [1.0, -1.0]}),
        ([1000.0, 0.0], {"b": [0.0, 1.0]}),
        ([INF, 0.0], {"b": [0.0, 1.0]}),
        ([np.nan, 1000.0], {"b": [0, 1]}),
        ([INF, 0.0], {"b": [-1.0, 1.0], "return_sign": True}),
        ([1.0, 1.0], {"b": [1.0, -1.0], "return_sign": True}),
        ([-INF, -INF], {"b": [2.0, 1.0], "return_sign": True}),
        ([1.0, 2.0], {"return_sign": True}),
        ([1.0, 2.0], {"b": 3.0}),
        ([1, 2], {"b": [1, 0]}),
    ],
)
def test_logsumexp_with_weights_is_scipys(a, options):
    ours = mg.special.logsumexp(mg.tensor(a), **options)
    with np.errstate(all="ignore"):
        theirs = special.logsumexp(a, **options)
    ours, theirs = (y if isinstance(y, tuple) else (y,) for y in (ours, theirs))
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-14)


def test_the_weights_of_logsumexp_have_gradients_also_where_they_are_zero():
    a, b = mg.tensor([1.0, 0.5, 2.0]), mg.tensor([0.0, -2.0, 1.0])
    for x in (a, b):
        x.requires_grad_()
    y, sign = mg.special.logsumexp(a, b=b, return_sign=True)
    y.backward()
    e = np.exp(a.detach().numpy())
    total = (b.detach().numpy() * e).sum()
    np.testing.assert_allclose(b.grad.numpy(), e / total)
    np.testing.assert_allclose(a.grad.numpy(), b.detach().numpy() * e / total)
    assert not sign.requires_grad and sign.item() == np.sign(total)


def test_a_value_of_no_weight_does_not_reach_logsumexp_however_large_it_is():
    a = mg.tensor([INF, 1e4, np.nan, 1.0], requires_grad=True)
    y = mg.special.logsumexp(a, b=[0.0, 0.0, 0.0, 1.0])
    assert y.item() == 1.0
    y.backward()
    np.testing.assert_array_equal(a.grad.numpy(), [0, 0, 0, 1])


def test_a_weight_that_is_a_number_keeps_the_dtype():
    assert mg.special.logsumexp(mg.ones(3, dtype=np.float32), b=2.0).dtype == np.float32


def test_logsumexp_refuses_complex_weights():
    with pytest.raises(TypeError, match="weights and signs are of real numbers, got a complex128"):
        mg.special.logsumexp(mg.tensor([1j, 2.0]), b=[1.0, 2.0])
    assert mg.special.logsumexp(mg.tensor([1j, 2.0])).dtype == np.complex128


def test_bessel_functions_have_every_derivative_at_zero():
    x = mg.tensor(0.0, requires_grad=True)
    (first,) = mg.grad(mg.special.j1(x), [x], create_graph=True)
    (second,) = mg.grad(first, [x], create_graph=True)
    (third,) = mg.grad(second, [x])
    np.testing.assert_allclose([first.item(), second.item(), third.item()], [0.5, 0.0, -0.375])


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_second_kind_has_derivatives_of_second_order(order, scaled):
    at = np.array([0.02, 0.7, 1.5, 4.0])
    x = mg.tensor(at, requires_grad=True)
    y = getattr(mg.special, f"k{order}{'e' * scaled}")(x)
    (first,) = mg.grad(y.sum(), [x], create_graph=True)
    (second,) = mg.grad(first.sum(), [x])
    k = [special.kvp(order, at, n) for n in range(3)]
    expected = k if not scaled else np.exp(at) * [k[0], k[0] + k[1], k[0] + 2 * k[1] + k[2]]
    for found, exact in zip((y, first, second), expected, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), exact, rtol=1e-12)


@pytest.mark.parametrize("name", ["kv", "kve", "kn", "iv", "jv"])
@pytest.mark.parametrize("order", [0, 1, -2, 3])
def test_a_function_of_an_order_is_scipys(name, order):
    x = np.array([0.3, 2.0, 17.0])
    theirs = getattr(special, name)(order, x)
    np.testing.assert_allclose(getattr(mg.special, name)(order, mg.tensor(x)).numpy(), theirs)


def test_rgamma_has_every_derivative_at_the_poles_of_gamma():
    mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")
    at = np.array([0.0, -1.0, -2.0, -7.0, -2 + 1e-9, -6.3, -0.5, 0.5, 0.49, -0.49, 4.0, 160.0])
    x = mg.tensor(at, requires_grad=True)
    (first,) = mg.grad(mg.special.rgamma(x).sum(), [x], create_graph=True)
    (second,) = mg.grad(first.sum(), [x])
    for order, found in ((1, first.detach()), (2, second)):
        with mpmath.workdps(60):
            expected = [float(mpmath.diff(mpmath.rgamma, mpmath.mpf(v), order)) for v in at]
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, err_msg=str(order))


def test_the_sign_of_gamma_goes_with_its_logarithm():
    x = mg.tensor([-2.5, -1.5, -0.5, 0.5, 3.0], requires_grad=True)
    y = mg.special.gammasgn(x) * mg.exp(mg.special.gammaln(x))
    np.testing.assert_allclose(y.detach().numpy(), special.gamma(x.detach().numpy()))
    gradients = mg.grad(y.sum(), [x]), mg.grad(mg.special.gamma(x).sum(), [x])
    np.testing.assert_allclose(*[g.numpy() for (g,) in gradients])


def test_i0_is_the_answer_of_numpys_i0():
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    np.i0(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), special.i1([0.0, 1.0]))


def test_the_slope_of_i1e_far_out_and_of_i1_next_to_0_is_a_number():
    x = mg.tensor([1e10, -1e20, np.inf], requires_grad=True)
    expected = [-0.5 * (2 * np.pi) ** -0.5 * 1e-15, 0, 0]
    found = mg.grad(mg.special.i1e(x), x, np.ones(3)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-20)
    x = mg.tensor([5e-324, -1e-310, 0.0], requires_grad=True)
    assert mg.grad(mg.special.i1(x), x, np.ones(3)).tolist() == [0.5, 0.5, 0.5]


def test_the_slope_of_erfcx_at_the_largest_halves_is_finite():
    x = mg.tensor(np.array([4e4, 6e4], np.float16), requires_grad=True)
    found = mg.grad(mg.special.erfcx(x), x, np.ones(2, np.float16)).numpy()
    np.testing.assert_allclose(found, [0, 0], atol=0.01)


@pytest.mark.parametrize("x", [0.005, 0.0001, 1000.0])
def test_the_slope_of_k1e_in_float16_is_that_in_float64_rounded(x):
    half = mg.tensor(np.float16(x), requires_grad=True)
    exact = mg.tensor(np.float64(half.item()), requires_grad=True)
    slope = mg.grad(mg.special.k1e(exact), exact).numpy()
    with np.errstate(over="ignore"):  # -1e8 is -inf
        expected = slope.astype(np.float16)
    np.testing.assert_allclose(mg.grad(mg.special.k1e(half), half), expected, rtol=2e-3)


def test_the_slope_of_rel_entr_in_float16_is_finite_where_the_quotient_is_not():
    a = mg.tensor(np.float16(0.5), requires_grad=True)
    slope = mg.grad(mg.special.rel_entr(a, np.float16(2**-20)), a)
    assert slope.item() == pytest.approx(1 + 19 * np.log(2), rel=1e-3)


@pytest.mark.parametrize("name", ["beta", "betaln", "gammainc", "gammaincc"])
def test_a_python_number_beside_a_float32_tensor_is_weak(name):
    x, f = mg.tensor([0.25, 0.75], dtype="float32"), getattr(mg.special, name)
    assert f(x, 0.5).dtype == f(2, x).dtype == "float32"


@pytest.mark.parametrize(
    ("f", "x", "parameters"),
    [
        (mg.stats.expon.logcdf, [-1.0, 0.0], ()),
        (mg.stats.uniform.logcdf, [-1.0], ()),
        (mg.stats.beta.logpdf, [0.0, 1.0], (0.5, 0.5)),
        (mg.stats.gamma.logpdf, [0.0], (0.5,)),
        (mg.stats.chi2.logpdf, [0.0], (1.0,)),
        (mg.stats.bernoulli.logpmf, [0.0], (1.0,)),
        (mg.special.xlogy, [1.0], (mg.tensor([0.0]),)),
    ],
)
def test_an_end_of_the_support_is_no_reason_for_a_warning(f, x, parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(f(mg.tensor(x), *parameters).numpy()).all()


@pytest.mark.parametrize("name", ["boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p", "owens_t"])
@pytest.mark.parametrize("number", [1, 0.5])
def test_the_second_argument_has_its_gradient_beside_a_number(name, number):
    f, x = getattr(mg.special, name), mg.tensor([0.3, 0.6, 0.9], requires_grad=True)
    (beside,) = mg.grad([f(number, x).sum()], [x])
    (expected,) = mg.grad([f(mg.full(3, number, dtype=mg.float64), x).sum()], [x])
    np.testing.assert_allclose(beside.numpy(), expected.numpy(), rtol=1e-14)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": (0, -1)}])
def test_what_goes_over_an_axis_goes_over_scipys(name, options):
    x = np.random.default_rng(0).standard_normal((2, 3, 2))
    y = getattr(mg.special, name)(mg.tensor(x), **options)
    np.testing.assert_allclose(y.numpy(), getattr(special, name)(x, **options), rtol=1e-13)


@pytest.mark.parametrize("order", [0, 1, 3, 0.5, 60, 1000])
def test_scaled_bessel_functions_go_on_where_scipys_end(order):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        for x in (2e9, 1e12):
            known = mpmath.mpf(x)
            i = float(mpmath.besseli(order, known) * mpmath.exp(-known))
            k = float(mpmath.besselk(order, known) * mpmath.exp(known))
            assert special.ive(order, mg.tensor(x)).item() == pytest.approx(i, rel=1e-14)
            assert special.kve(order, mg.tensor(x)).item() == pytest.approx(k, rel=1e-14)
    assert special.ive(order, mg.tensor(np.inf)).item() == 0
    assert special.kve(order, mg.tensor(np.inf)).item() == 0


@pytest.mark.parametrize(("name", "of_b"), [("rel_entr", 0.0), ("kl_div", 1.0)])
def test_bins_that_are_empty_in_both_histograms_leave_no_nan_in_the_gradient(name, of_b):
    a = mg.tensor([0.0, 0.5, 0.5], requires_grad=True)
    b = mg.tensor([0.0, 0.25, 0.75], requires_grad=True)
    of_bins = mg.grad(getattr(mg.special, name)(a, b).sum(), [a, b])
    of_filled = mg.grad(getattr(mg.special, name)(a[1:], b[1:]).sum(), [a, b])
    assert [g[0].item() for g in of_bins] == [0.0, of_b]
    assert [g[1:].tolist() for g in of_bins] == [g[1:].tolist() for g in of_filled]


@pytest.mark.parametrize("order", [0.5, 2.5, 3, 7])
@pytest.mark.parametrize("of", [mg.special.iv, mg.special.ive])
def test_a_bessel_function_of_a_small_number_is_its_first_term(of, order):
    x = 10.0 ** (-200 / order)
    first = (x / 2) ** order / math.gamma(order + 1)
    np.testing.assert_allclose(of(order, x).item(), first, 1e-12)  # SciPy's ive is 1e-13 off here


def test_y_of_an_order_that_is_half_a_number_below_zero_has_a_slope_at_small_numbers():
    x = mg.tensor(2.0**-800, requires_grad=True)
    mg.special.yv(-0.5, x).backward()
    np.testing.assert_allclose(x.grad.item(), math.sqrt(1 / (2 * math.pi * 2.0**-800)), 1e-14)


def test_a_huber_delta_of_nan_shows_in_its_own_gradient():
    delta = mg.tensor(math.nan, requires_grad=True)
    mg.special.huber(delta, 2.0).backward()
    assert math.isnan(delta.grad.item())
