"""Activation functions: tails, kinks, masked rows, dtypes, and PyTorch's values."""

import math
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op

SMOOTH = ["celu", "elu", "gelu", "logsigmoid", "mish", "selu", "silu", "softplus", "softsign"]
PIECEWISE = ["hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "relu", "relu6"]
OVER_AXIS = ["glu", "log_softmax", "softmax", "swiglu"]
INF = np.inf


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


# -- against PyTorch -------------------------------------------------------------------------


def in_torch(name):
    functional = pytest.importorskip("torch").nn.functional
    if name == "swiglu":
        return lambda x: functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]
    over_last = {"softmax": functional.softmax, "log_softmax": functional.log_softmax}
    if name in over_last:
        return lambda x: over_last[name](x, dim=-1)
    return getattr(functional, name)


@pytest.mark.parametrize("name", [*SMOOTH, *PIECEWISE, *OVER_AXIS])
def test_values_and_two_derivatives_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, v = rng.uniform(-4, 4, (3, 6)), rng.uniform(-1, 1, (3, 6))
    if name.endswith("glu"):
        v = v[:, :3]
    second = name not in PIECEWISE or name == "hardswish"
    t, w = torch.tensor(x, requires_grad=True), torch.tensor(v)
    z = leaf(x)
    ours, theirs = getattr(mg, name)(z), in_torch(name)(t)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-13, atol=1e-15)
    g = mg.grad(ours, z, v, create_graph=True)
    (h,) = torch.autograd.grad(theirs, t, w, create_graph=second)
    # PyTorch multiplies by a ⅙ in single precision in the backward of hardsigmoid
    rtol = 1e-7 if name == "hardsigmoid" else 1e-12
    np.testing.assert_allclose(g.numpy(), h.detach().numpy(), rtol=rtol, atol=1e-14)
    if second:
        u = rng.uniform(-1, 1, (3, 6))
        gg = mg.grad(g, z, u)
        (hh,) = torch.autograd.grad(h, t, torch.tensor(u))
        np.testing.assert_allclose(gg.numpy(), hh.numpy(), rtol=1e-11, atol=1e-13)


def test_gelu_in_its_tanh_form_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    x = np.linspace(-6, 6, 25)
    t, z = torch.tensor(x, requires_grad=True), leaf(x)
    theirs = torch.nn.functional.gelu(t, approximate="tanh")
    ours = mg.gelu(z, approximate="tanh")
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-15)
    (h,) = torch.autograd.grad(theirs.sum(), t)
    np.testing.assert_allclose(mg.grad(ours, z, np.ones(25)).numpy(), h.numpy(), atol=1e-14)


@pytest.mark.parametrize("shape, weights", [((), 1), ((4,), 1), ((2, 3), 3), ((2, 3, 4, 4), 3)])
def test_prelu_and_its_weights_gradient_are_those_of_pytorch(shape, weights):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal(shape), rng.uniform(0.1, 0.5, weights)
    t, s = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    torch.nn.functional.prelu(t, s).sum().backward()
    a, b = leaf(x), leaf(w)
    y = mg.prelu(a, b)
    assert y.shape == shape
    ga, gb = mg.grad(y, [a, b], np.ones(shape))
    np.testing.assert_allclose(ga.numpy(), t.grad.numpy())
    np.testing.assert_allclose(gb.numpy(), s.grad.numpy())


def test_prelu_refuses_weights_that_are_not_one_a_channel():
    with pytest.raises(ValueError, match=r"weight has shape \(2,\), x has 3 channels"):
        mg.prelu(mg.tensor(np.ones((2, 3))), np.ones(2))


# -- dtypes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", [*SMOOTH, *PIECEWISE, *OVER_AXIS])
def test_an_activation_keeps_the_dtype_of_its_argument_and_of_its_gradient(name, dtype):
    x = leaf([[-1.5, 0.5], [2.0, -0.25]], dtype)
    y = getattr(mg, name)(x)
    y.backward(np.ones(y.shape))
    assert y.dtype == x.dtype == x.grad.dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relu_of_many_elements_has_the_bits_of_relu_of_few(dtype):
    few = np.array([0.0, -0.0, 1e-45, -1e-45, 3.0, -3.0, np.inf, -np.inf, np.nan], dtype)
    many = np.tile(few, 2000)
    assert mg.relu(many).tobytes() == np.tile(mg.relu(few), 2000).tobytes()


@pytest.mark.parametrize(
    "dtype, approximate",
    [(dtype, form) for dtype in ("float16", "float32", "float64") for form in ("none", "tanh")]
    + [("complex128", "none")],
)
def test_gelus_kept_derivative_is_the_one_computed_from_x(dtype, approximate):
    x = mg.tensor(np.linspace(-6, 6, 5001).astype(dtype), requires_grad=True)
    y = mg.gelu(x, approximate=approximate)
    kept = mg.grad(y, x, mg.ones_like(y)).numpy()
    again = op.gelu_derivative(x.detach(), approximate=approximate).numpy()
    np.testing.assert_array_equal(kept, again.conj())


@pytest.mark.parametrize("name", ["gelu", "mish", "silu", "softmax", "softplus"])
def test_sixteen_bits_are_rounded_once(name):
    x = np.linspace(-8, 8, 65, dtype=np.float16)
    wide = getattr(op, name)(x.astype(np.float32))
    assert getattr(op, name)(x).tobytes() == wide.astype(np.float16).tobytes()


# -- tails -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMOOTH, *PIECEWISE, "softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_huge_arguments_give_finite_values_and_derivatives_without_a_warning(name, dtype):
    huge = float(np.finfo(dtype).max) / 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf([-huge, -1000.0, 0.0, 1000.0, huge], dtype)
        y = getattr(mg, name)(x)
        y.backward(np.ones(5))
    assert np.isfinite(y.numpy()).all()
    assert np.isfinite(x.grad.numpy()).all()


def test_softplus_is_exact_from_one_tail_to_the_other():
    x = leaf([-1000.0, -40.0, 40.0, 1000.0])
    y = mg.softplus(x)
    y.backward(np.ones(4))
    small = math.log1p(math.exp(-40))
    np.testing.assert_allclose(y.numpy(), [0, small, 40, 1000], rtol=1e-15)
    np.testing.assert_allclose(x.grad.numpy(), [0, math.exp(-40), 1, 1], rtol=1e-14)


def test_the_lower_tails_of_gelu_and_silu_keep_their_digits():
    mpmath = pytest.importorskip("mpmath")
    for x in (-6.0, -12.0, -30.0):
        exact = float(x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
        assert op.gelu(np.array(x)) == pytest.approx(exact, rel=1e-12)
        exact = float(mpmath.mpf(x) / (1 + mpmath.exp(-x)))
        assert op.silu(np.array(x)) == pytest.approx(exact, rel=1e-15)


# -- kinks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, x, slope",
    [
        (mg.relu, 0, 0),
        (mg.relu6, 6, 0),
        (mg.hardtanh, -1, 0),
        (mg.hardsigmoid, 3, 0),
        (mg.hardswish, -3, 0),
        (mg.hardswish, 3, 1),
        (mg.leaky_relu, 0, 0.01),
        (mg.elu, 0, 1),
        (mg.selu, 0, 1.0507009873554805),
        (lambda x: mg.elu(x, alpha=0.5), 0, 0.5),
        (lambda x: mg.elu(x, alpha=2.0), 0, 1),
    ],
)
def test_a_kink_has_the_smallest_derivative_that_lies_between_its_two_sides(f, x, slope):
    x = leaf(float(x))
    assert mg.grad(f(x), x).item() == slope


def test_relu_selects_so_that_an_infinite_cotangent_makes_no_nan():
    x = leaf([-1.0, 0.0, 1.0])
    assert mg.grad(mg.relu(x), x, np.full(3, INF)).tolist() == [0, 0, INF]


# -- over an axis ----------------------------------------------------------------------------


@pytest.mark.parametrize("name, value", [("softmax", 0), ("log_softmax", -INF)])
def test_a_row_all_masked_has_its_stated_value_and_gradient_zero(name, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf([[-INF, -INF, -INF], [0.0, 1.0, -INF]])
        y = getattr(mg, name)(x)
        y.backward(np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0]]))
    assert y.numpy()[0].tolist() == [value] * 3
    assert x.grad.numpy()[0].tolist() == [0, 0, 0]
    assert x.grad.numpy()[1].any()
    assert not np.isnan(x.grad.numpy()).any()


def test_log_softmax_of_values_far_apart_is_accurate():
    x = leaf([1000.0, 0.0])
    y = mg.log_softmax(x)
    assert y.tolist() == [0, -1000]
    assert mg.grad(y, x, np.ones(2)).tolist() == [-1, 1]


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), (0, 2), None])
def test_softmax_sums_to_one_along_its_axis_and_its_logarithm_agrees(axis):
    x = mg.tensor(np.random.default_rng(2).standard_normal((2, 3, 4)))
    y = mg.softmax(x, axis=axis).numpy()
    np.testing.assert_allclose(y.sum(axis), np.ones_like(y.sum(axis)))
    np.testing.assert_allclose(mg.log_softmax(x, axis=axis).numpy(), np.log(y), atol=1e-14)


def test_softmax_of_nothing_is_nothing():
    for f in (mg.softmax, mg.log_softmax):
        x = leaf(np.ones((2, 0)))
        assert mg.grad(f(x), x, np.ones((2, 0))).shape == (2, 0)


def test_the_gradient_of_softmax_sums_a_long_float16_row_in_float32():
    x = leaf(np.zeros(4096), "float16")
    g = mg.grad(mg.softmax(x), x, np.ones(4096))
    assert np.abs(g.numpy()).max() <= np.finfo(np.float16).eps / 4096


def test_glu_and_swiglu_split_any_axis_and_refuse_an_odd_size():
    x = np.random.default_rng(3).standard_normal((4, 3))
    a, b = x[:2], x[2:]
    np.testing.assert_allclose(mg.glu(mg.tensor(x), axis=0).numpy(), a / (1 + np.exp(-b)))
    np.testing.assert_allclose(mg.swiglu(mg.tensor(x), axis=0).numpy(), a * b / (1 + np.exp(-a)))
    for f in (mg.glu, mg.swiglu):
        with pytest.raises(ValueError, match=r"halves axis -1 .* even; x has shape \(4, 3\)"):
            f(mg.tensor(x))


def test_gelu_refuses_a_form_it_does_not_know():
    with pytest.raises(ValueError, match="'none' or 'tanh', got 'sigmoid'"):
        mg.gelu(mg.tensor(1.0), approximate="sigmoid")


@pytest.mark.parametrize(
    "name",
    ["relu", "relu6", "elu", "selu", "celu", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu",
     "softshrink"],
)  # fmt: skip
def test_a_function_in_pieces_along_the_real_line_refuses_complex_numbers(name):
    for n in (2, 20_000):
        with pytest.raises(TypeError, match="x must be real, got complex64: .* no order"):
            getattr(mg, name)(mg.zeros(n, dtype="complex64"))


def test_celu_of_a_negative_alpha_is_a_line_above_0_as_in_pytorch():
    torch = pytest.importorskip("torch")
    x = np.array([-1.5, -0.2, 0.4, 3.0])
    t = torch.tensor(x, requires_grad=True)
    theirs = torch.nn.functional.celu(t, alpha=-1.5)
    theirs.sum().backward()
    z = leaf(x)
    ours = mg.celu(z, alpha=-1.5)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-14)
    np.testing.assert_allclose(mg.grad(ours.sum(), z).numpy(), t.grad.numpy(), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_celu_is_x_above_0_whatever_alpha_divides_it_by(dtype):
    x = np.array([0.1, 0.7, 1.3, np.finfo(dtype).max / 2], dtype)
    for alpha in (1e-3, 0.3, 3.0, -1.5):
        z = leaf(x)
        y = mg.celu(z, alpha=alpha)
        np.testing.assert_array_equal(y.numpy(), x)
        np.testing.assert_array_equal(mg.grad(y.sum(), z).numpy(), 1)


def test_celu_is_smooth_at_0():
    for alpha in (1.0, 0.3, -2.0):
        slope = mg.func.grad(lambda x, alpha=alpha: mg.celu(x, alpha=alpha))
        assert slope(mg.tensor(0.0)).item() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softplus_of_a_large_x_is_x_whatever_beta_it_is_multiplied_by(dtype):
    x = np.array([0.3, 7.7, np.finfo(dtype).max / 2], dtype)
    with np.errstate(over="raise"):
        np.testing.assert_array_equal(mg.softplus(x, beta=1e4), x)
        np.testing.assert_array_equal(mg.softplus(-x, beta=-1e4), -x)
        leaf = mg.tensor(x, requires_grad=True)
        mg.softplus(leaf, beta=1e4).sum().backward()
    np.testing.assert_array_equal(leaf.grad, 1)
