"""Arithmetic, powers and exponentials: what the samples of the harness do not say."""

import math
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.testing import samples
from minigrad.testing.spec import specs

DTYPES = ["float16", "float32", "float64", "bfloat16"]


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


def gradient(f, x):
    """f'(x) for a scalar x."""
    x = leaf(float(x))
    return mg.grad(f(x), x).item()


def second(f, x):
    x = leaf(float(x))
    return mg.grad(mg.grad(f(x), x, create_graph=True), x).item()


# -- dtypes ----------------------------------------------------------------------------------

UNARY = [
    "abs", "arccosh", "arcsinh", "arctan", "cbrt", "ceil", "cos", "cosh", "deg2rad", "digamma",
    "erf", "erfc", "exp", "exp2", "expm1", "floor", "gamma", "lgamma", "log", "log10", "log1p",
    "log2", "nan_to_num", "neg", "positive", "rad2deg", "reciprocal", "rint", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = [
    "add", "arctan2", "copysign", "div", "floor_divide", "fmax", "fmin", "fmod", "heaviside",
    "hypot", "logaddexp", "logaddexp2", "maximum", "minimum", "mul", "pow", "remainder", "sub",
    "xlog1py", "xlogy",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_a_unary_op_keeps_the_dtype_of_its_argument_and_of_its_gradient(name, dtype):
    x = leaf([1.25, 1.5], dtype)
    y = getattr(op, name)(x)
    y.backward(np.ones(2))
    assert y.dtype == x.dtype == x.grad.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_python_scalars_are_weak(name, dtype):
    x = leaf([1.25, 1.5], dtype)
    for y in (getattr(op, name)(x, 2.0), getattr(op, name)(2.0, x)):
        assert y.dtype == x.dtype


def test_a_float64_scalar_of_numpy_promotes_the_result_but_not_the_gradient():
    x = leaf([1.0, 2.0], "float32")
    y = x * np.float64(2)
    y.backward(np.ones(2))
    assert y.dtype == np.float64
    assert x.grad.dtype == np.float32


def test_an_integer_tensor_passes_through_a_real_function_as_in_numpy():
    assert mg.exp(mg.tensor([1, 2])).dtype == np.float64


# -- powers ----------------------------------------------------------------------------------


def test_the_square_at_zero_has_derivatives_0_and_2():
    assert gradient(lambda x: x**2, 0) == 0
    assert second(lambda x: x**2, 0) == 2


@pytest.mark.parametrize("exponent", [0, 0.0, np.array(0.0), np.array(0)])
def test_the_zeroth_power_has_derivative_0_also_at_0_and_infinity(exponent):
    for x in (0, 3, -2, np.inf):
        assert gradient(lambda x: x**exponent, x) == 0


def test_a_negative_base_with_a_whole_exponent_is_exact_and_takes_no_logarithm():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf([-2.0, -3.0])
        y = x ** np.array([3, 2])
        y.backward(np.ones(2))
    assert y.tolist() == [-8, 9]
    assert x.grad.tolist() == [12, -6]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 3.0, 4, 5, 64, -2, -3, -63, 1, 0, -1])
def test_whole_powers_are_numpys_also_of_negative_and_not_finite_numbers(n, dtype):
    sizes = 10 ** np.random.default_rng(0).uniform(-2, 2, 1000)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30, -1e30]
    x = np.r_[sizes, -sizes, ends].astype(dtype)
    with np.errstate(all="ignore"):
        y, expected = op.pow(x, n), np.power(x, n)
    assert y.dtype == dtype
    np.testing.assert_array_equal(np.signbit(y)[~np.isnan(y)], np.signbit(expected)[~np.isnan(y)])
    # x · x · x is rounded twice, to 1.3 units of the last place, and NumPy's power to about one
    np.testing.assert_allclose(y, expected, rtol=3 * np.finfo(dtype).eps)


def test_a_complex_exponent_gives_complex_powers_also_where_it_is_whole():
    y = mg.tensor([-2.0, 3.0]) ** (3 + 0j)
    assert y.dtype == np.complex128
    np.testing.assert_allclose(y.numpy(), [-8, 27], atol=1e-13)


def test_zero_to_a_positive_power_has_derivative_0_in_the_exponent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradient(lambda b: mg.pow(np.array(0.0), b), 2) == 0
        assert gradient(lambda b: 0**b, 2) == 0


def test_a_number_as_base_keeps_the_dtype_of_the_exponent():
    b = leaf([1.0, 2.0], "float32")
    y = 2**b
    y.backward(np.ones(2))
    assert y.dtype == b.grad.dtype == np.float32
    np.testing.assert_allclose(b.grad.numpy(), [2 * math.log(2), 4 * math.log(2)], rtol=1e-6)


def test_mixed_second_derivatives_of_a_power_agree_also_where_the_exponent_is_zero():
    a, b = leaf(1.5), leaf(0.0)
    ga, gb = mg.grad(a**b, [a, b], create_graph=True)
    assert mg.grad(ga, b, retain_graph=True).item() == pytest.approx(1 / 1.5)
    assert mg.grad(gb, a).item() == pytest.approx(1 / 1.5)


# -- division with a whole quotient ----------------------------------------------------------


def test_the_remainder_uses_the_quotient_that_floor_divide_gives():
    a, b = leaf(1.0), leaf(0.1)
    ga, gb = mg.grad(a % b, [a, b])
    assert (ga.item(), gb.item()) == (1, -(1.0 // 0.1))


@pytest.mark.parametrize("f", [mg.remainder, mg.fmod])
def test_the_second_derivative_of_a_remainder_by_a_tiny_number_is_zero(f):
    a, b = leaf(1.0), leaf(1e-160)
    gb = mg.grad(f(a, b), b, create_graph=True)
    assert gb.item() == pytest.approx(-1e160)
    assert [g.item() for g in mg.grad(gb, [a, b])] == [0, 0]


def test_floor_division_has_a_gradient_of_zeros_not_none():
    x = leaf([3.5, -2.5])
    assert mg.grad(x // 2, x, np.array([np.inf, 1.0])).tolist() == [0, 0]


def test_divmod_and_modf_give_two_tensors():
    x = leaf([3.75, -2.25])
    whole, rest = np.divmod(x, 2)
    assert (whole.tolist(), rest.tolist()) == ([1, -2], [1.75, 1.75])
    fraction, integral = np.modf(x)
    assert (fraction.tolist(), integral.tolist()) == ([0.75, -0.25], [3, -2])
    assert mg.grad(fraction, x, np.ones(2), retain_graph=True).tolist() == [1, 1]
    assert mg.grad(integral, x, np.ones(2)).tolist() == [0, 0]


# -- awkward points --------------------------------------------------------------------------


def test_expm1_and_log1p_have_accurate_derivatives_where_1_would_swallow_them():
    assert gradient(mg.expm1, -50) == pytest.approx(math.exp(-50), rel=1e-14)
    assert gradient(mg.log1p, 1e-20) == 1


def test_logaddexp_of_two_masked_values_is_minus_infinity_with_gradient_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b = leaf(-np.inf), leaf(-np.inf)
        y = mg.logaddexp(a, b)
        assert y.item() == -np.inf
        assert [g.item() for g in mg.grad(y, [a, b])] == [0, 0]


def test_logaddexp_of_many_float32_keeps_its_digits_and_its_infinities():
    a, b = np.random.default_rng(0).normal(0, 5, (2, 40, 50)).astype(np.float32)
    a[0, :3], b[0, :3] = [np.inf, -np.inf, np.inf], [np.inf, -np.inf, -np.inf]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = mg.logaddexp(mg.tensor(a), mg.tensor(b)).numpy()
    a, b = a[1:], b[1:]
    expected = np.logaddexp(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_array_equal(y[0, :3], [np.inf, -np.inf, np.inf])
    np.testing.assert_allclose(y[1:], expected, rtol=5e-7, atol=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logaddexp_of_a_nan_is_nan_beside_an_infinity_too(dtype):
    a = np.array([np.nan, np.inf, np.nan, 1], dtype)
    with np.errstate(invalid="ignore"):  # NumPy's own function says so
        assert np.isnan(mg.logaddexp(mg.tensor(a), mg.tensor(a[::-1].copy()))).all()


def test_xlogy_is_zero_at_the_origin_with_gradient_zero():
    a, b = leaf(0.0), leaf(0.0)
    y = mg.xlogy(a, b)
    assert y.item() == 0
    assert [g.item() for g in mg.grad(y, [a, b])] == [0, 0]


def test_the_mixed_derivative_of_xlogy_at_a_zero_factor_is_one_over_b():
    a, b = leaf(0.0), leaf(4.0)
    gb = mg.grad(mg.xlogy(a, b), b, create_graph=True)
    assert mg.grad(gb, a).item() == 0.25


def test_the_power_zero_has_derivative_zero_also_at_a_subnormal_base():
    a = leaf(5e-324)
    mg.power(a, np.array(0.0)).backward()
    assert a.grad.item() == 0


def test_sigmoid_does_not_warn_and_keeps_relative_accuracy_in_both_tails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf([-1000.0, -40.0, 40.0, 1000.0])
        y = mg.sigmoid(x)
        y.backward(np.ones(4))
    small = math.exp(-40)
    np.testing.assert_allclose(y.numpy(), [0, small, 1, 1], rtol=1e-15)
    np.testing.assert_allclose(x.grad.numpy(), [0, small, small, 0], rtol=1e-14)


def test_logit_undoes_sigmoid_also_near_one_half():
    x = np.array([-30.0, -1.0, -1e-9, 0.0, 1e-9, 1.0])
    # sigmoid rounds to 10⁻¹⁶ near ½, where logit multiplies by 4
    y = mg.logit(mg.sigmoid(mg.tensor(x))).numpy()
    np.testing.assert_allclose(y, x, rtol=1e-13, atol=1e-15)
    assert mg.logit(mg.tensor(0.5 + 2.0**-50)).item() == pytest.approx(2.0**-48, rel=1e-15)


def test_logit_of_what_is_moved_inside_has_no_gradient_there_also_of_second_order():
    x = leaf([-1.0, 0.0, 0.3, 1.0, 2.0])
    y = mg.logit(x, eps=0.1)
    edge, inside = math.log(9), math.log(0.3 / 0.7)
    np.testing.assert_allclose(y.numpy(), [-edge, -edge, inside, edge, edge], rtol=1e-14)
    (g,) = mg.grad(y.sum(), [x], create_graph=True)
    np.testing.assert_allclose(g.numpy(), [0, 0, 1 / 0.21, 0, 0], rtol=1e-14)
    np.testing.assert_allclose(
        mg.grad(g.sum(), [x])[0].numpy(), [0, 0, -0.4 / 0.21**2, 0, 0], rtol=1e-14
    )


# -- other -----------------------------------------------------------------------------------


def test_lerp_and_fma_are_what_their_formulas_say():
    a, b, w = leaf(1.0), leaf(3.0), leaf(0.25)
    y = mg.lerp(a, b, w)
    assert y.item() == 1.5
    assert [g.item() for g in mg.grad(y, [a, b, w])] == [0.75, 0.25, 2]
    assert mg.fma(a, b, w).item() == 3.25


def test_polygamma_of_order_0_is_digamma_and_a_negative_order_is_refused():
    x = mg.tensor([0.5, 2.0])
    assert mg.polygamma(0, x).tolist() == mg.digamma(x).tolist()
    with pytest.raises(ValueError, match="polygamma: the order n must be 0 or more, got -1"):
        mg.polygamma(-1, x)


def test_a_function_of_scipy_says_what_to_install_when_scipy_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(ImportError, match=r"erf comes from scipy.special.*checkout\[full\]"):
        mg.erf(mg.tensor(1.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.exp(t),
        lambda t: np.power(t, 2),
        lambda t: np.true_divide(t, 3),
        lambda t: np.mod(t, 2),
        lambda t: np.float_power(t, 1.5),
        lambda t: np.sinc(t),
        lambda t: np.degrees(t),
        lambda t: np.absolute(t),
        lambda t: np.fabs(t),
        lambda t: np.cbrt(t),
        lambda t: np.heaviside(t, 0.5),
    ],
)
def test_numpys_own_functions_are_recorded_and_give_numpys_values(call):
    x = np.array([0.5, 1.5, 2.5])
    t = leaf(x)
    y = call(t)
    assert y.requires_grad
    np.testing.assert_allclose(y.numpy(), call(x), rtol=1e-15)


def test_python_operators_reach_the_ops_from_both_sides():
    t, a = mg.tensor([2.0, 3.0]), np.array([1.0, 2.0])
    pairs = [
        (a + t, a + t.numpy()),
        (a - t, a - t.numpy()),
        (a * t, a * t.numpy()),
        (a / t, a / t.numpy()),
        (a // t, a // t.numpy()),
        (a % t, a % t.numpy()),
        (a**t, a ** t.numpy()),
        (-t, -t.numpy()),
        (+t, t.numpy()),
        (abs(-t), t.numpy()),
    ]
    for y, expected in pairs:
        assert isinstance(y, mg.Tensor)
        np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("exponent", [True, False])
def test_a_truth_as_an_exponent_is_1_or_0(exponent):
    x = mg.tensor([0.3, -0.6], requires_grad=True)
    (x**exponent).sum().backward()
    assert x.grad.tolist() == [float(exponent)] * 2


@pytest.mark.parametrize("exponent", [0, 0.0, np.array(0.0), np.zeros(5)])
def test_what_is_raised_to_nothing_has_no_slope_wherever_it_is(exponent):
    x = mg.tensor([np.nan, np.inf, -np.inf, 0.0, 2.0], requires_grad=True)
    y = x**exponent
    np.testing.assert_array_equal(y.data, 1)
    np.testing.assert_array_equal(mg.grad(y.sum(), x).data, 0)


# -- Python's numbers ------------------------------------------------------------------------


def elementwise_calls():
    """(call, one entry of each argument, parameters) of every elementwise op's first sample."""
    assert samples
    for name, spec in specs.items():
        entry = getattr(op, name, None)
        if getattr(entry, "kind", "") != "elementwise":
            continue
        sample = next(iter(spec.samples(np.random.default_rng(0), np.dtype("float64"))), None)
        if sample is not None and all(isinstance(x, np.ndarray) and x.size for x in sample.args):
            numbers = [x.flat[0].item() for x in sample.args]
            yield pytest.param(spec.call, numbers, sample.params, id=name)


@pytest.mark.parametrize(("call", "numbers", "params"), [*elementwise_calls()])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_give_what_arrays_of_no_axes_give(call, numbers, params):
    expected = call(*[mg.tensor(x) for x in numbers], **params)
    found = call(*numbers, **params)
    np.testing.assert_array_equal(np.asarray(found), expected.numpy())
    assert np.asarray(found).dtype == expected.dtype


def test_a_number_beside_an_array_stays_weak():
    x = np.ones(2, np.float32)
    assert mg.clip(x, 0, 0.5).dtype == mg.where(x > 0, x, 0.5).dtype == np.float32
