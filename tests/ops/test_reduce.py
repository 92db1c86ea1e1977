"""Reductions: values as NumPy's, derivatives, and the hard points."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

REDUCTIONS = ["sum", "mean", "prod", "max", "min", "var", "std", "median", "count_nonzero", "any"]
VALUES = st.floats(-2, 2, width=32)
few = settings(max_examples=40)


def leaf(values, dtype=np.float64):
    return mg.tensor(values, dtype=dtype, requires_grad=True)


def gradient(fn, x):
    """The gradient of the sum of fn(x)."""
    x = leaf(x)
    return mg.grad(fn(x).sum(), x).numpy()


@st.composite
def arrays_and_axes(draw, least=1):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=least, max_side=4))
    x = draw(hnp.arrays(np.float64, shape, elements=VALUES))
    axes = st.integers(-len(shape), len(shape) - 1)
    several = st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1).map(tuple)
    return x, draw(st.none() | axes | several), draw(st.booleans())


@pytest.mark.parametrize("name", REDUCTIONS)
@given(case=arrays_and_axes())
@few
def test_value_and_shape_are_numpys_for_every_axis(name, case):
    x, axis, keepdims = case
    y = getattr(mg, name)(mg.tensor(x), axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    assert y.shape == np.shape(expected)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "logsumexp"])
@given(case=arrays_and_axes())
@few
def test_gradient_has_the_shape_of_x_for_every_axis(name, case):
    x, axis, keepdims = case
    g = gradient(lambda t: getattr(mg, name)(t, axis=axis, keepdims=keepdims), x)
    assert g.shape == x.shape and np.isfinite(g).all()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@given(case=arrays_and_axes())
@few
def test_gradients_of_one_slice_add_up_to_its_cotangent(name, case):
    """x + c moves mean, max and min by c and the sum by n c, whatever ties there are."""
    x, axis, _ = case
    g = gradient(lambda t: getattr(mg, name)(t, axis=axis, keepdims=True), x)
    expected = np.ones_like(g).sum(axis=axis) if name == "sum" else 1.0
    np.testing.assert_allclose(g.sum(axis=axis), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: mg.prod(x, axis=(0, 2)),
        lambda x: mg.var(x, axis=1, ddof=1),
        lambda x: mg.std(x, axis=(0, 1), keepdims=True),
        lambda x: mg.norm(x, axis=-1),
        lambda x: mg.norm(x, ord=3, axis=0),
        lambda x: mg.logsumexp(x, axis=(0, 2)),
        lambda x: mg.cumprod(x, axis=1),
        lambda x: mg.cumsum(x) * mg.cumsum(x),
        lambda x: mg.logcumsumexp(x, axis=2),
        lambda x: mg.quantile(x, [0.2, 0.7], axis=1) ** 2,
    ],
    ids=["prod", "var", "std", "norm", "norm3", "lse", "cumprod", "cumsum", "lcse", "quantile"],
)
def test_first_and_second_derivatives(fn):
    x = np.random.default_rng(0).standard_normal((2, 3, 2))
    assert gradcheck(fn, x)
    assert gradgradcheck(fn, x)


# -- no copies -------------------------------------------------------------------------------


def test_the_gradient_of_a_sum_is_a_broadcast_view():
    x = leaf(np.ones((100, 100)))
    node = x.sum(axis=0).node
    (g,) = node.plan.apply_rules((np.ones(100), *node.saved))
    assert g.strides[0] == 0 and g.shape == (100, 100)


# -- 16-bit floats ---------------------------------------------------------------------------


def test_float16_sum_of_4096_ones_is_4096():
    assert mg.sum(mg.ones(4096, dtype=np.float16)).item() == 4096


def test_bfloat16_sum_of_3000_ones_is_3000_rounded_once():
    y = mg.sum(mg.ones(3000, dtype="bfloat16"))
    assert y.dtype == ml_dtypes.bfloat16
    assert y.item() == float(ml_dtypes.bfloat16(3000))


def test_float16_mean_of_large_values_does_not_overflow():
    y = mg.mean(mg.full((1000,), 60000, dtype=np.float16))
    assert y.dtype == np.float16 and y.item() == np.float16(60000)


def test_float16_cumsum_counts_beyond_2048():
    y = mg.cumsum(mg.ones(4096, dtype=np.float16))
    assert y.numpy()[-1] == 4096


def test_float16_mean_over_many_elements_has_a_gradient():
    x = leaf(np.ones(70_000), np.float16)
    assert mg.grad(x.mean(), x).numpy()[0] == np.float16(1 / 70_000)


def test_float16_max_over_many_ties_shares_its_gradient():
    x = leaf(np.ones(5000), np.float16)
    assert mg.grad(x.max(), x).numpy()[0] == np.float16(1 / 5000)


def test_float16_logsumexp_gives_weights_that_sum_to_one():
    x = leaf([1000.0, 1000.0, 999.0], np.float16)
    g = mg.grad(mg.logsumexp(x), x).numpy().astype(float)
    assert abs(g.sum() - 1) < 2e-3


def test_integers_sum_and_average_as_numpy_does():
    x = np.arange(5, dtype=np.int8)
    assert mg.sum(mg.tensor(x)).dtype == np.sum(x).dtype
    assert mg.mean(mg.tensor(x)).dtype == np.float64


# -- hard points -----------------------------------------------------------------------------


def test_ties_share_the_gradient_of_max_over_several_axes():
    x = np.array([[[1.0, 3.0], [3.0, 0.0]], [[3.0, 3.0], [2.0, 9.0]]])
    g = gradient(lambda t: mg.max(t, axis=(0, 2)), x)
    assert g.tolist() == [[[0, 1 / 3], [0, 0]], [[1 / 3, 1 / 3], [0, 1]]]


def test_nan_wins_a_maximum_and_takes_its_gradient():
    g = gradient(lambda t: mg.max(t, axis=1), np.array([[1.0, np.nan], [1.0, 2.0]]))
    assert g.tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_an_extremum_of_nothing_raises_as_numpy_does(name):
    with pytest.raises(ValueError, match=f"{name}.*\\(0,\\)"):
        getattr(mg, name)(mg.tensor(np.zeros(0)))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 1e10])
@pytest.mark.parametrize("n", [1, 3, 7, 100])
def test_std_of_a_constant_is_zero_and_so_is_its_gradient(constant, n):
    x = leaf(np.full(n, constant))
    y = mg.std(x)
    assert y.item() == 0
    assert not mg.grad(y, x).numpy().any()


@pytest.mark.parametrize("order", [None, 1, 2, 3, 1.5, 0.5, np.inf])
def test_the_norm_of_the_zero_vector_is_zero_and_so_is_its_gradient(order):
    x = leaf(np.zeros(3))
    y = mg.norm(x, ord=order)
    assert y.item() == 0
    assert not mg.grad(y, x).numpy().any()


@pytest.mark.parametrize("order", [None, 0, 1, 2, -1, 3, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [0, 1])
def test_vector_norms_are_numpys(order, axis):
    x = np.random.default_rng(1).standard_normal((3, 4))
    y = mg.norm(mg.tensor(x), ord=order, axis=axis)
    np.testing.assert_allclose(y.numpy(), np.linalg.norm(x, order, axis), rtol=1e-13)


def test_a_fully_masked_row_has_logsumexp_minus_infinity_and_no_gradient():
    x = leaf([[-np.inf, -np.inf], [0.0, -np.inf]])
    y = mg.logsumexp(x, axis=1)
    assert y.numpy().tolist() == [-np.inf, 0]
    assert mg.grad(y.sum(), x).numpy().tolist() == [[0, 0], [1, 0]]


def test_the_second_derivative_of_a_fully_masked_row_is_zero():
    x = leaf([-np.inf, -np.inf])
    g = mg.grad(mg.logsumexp(x), x, create_graph=True)
    assert mg.grad(g.sum(), x).numpy().tolist() == [0, 0]


def test_logcumsumexp_of_huge_equal_numbers_shares_the_gradient_as_of_small_ones():
    x = leaf([1e300, 1e300, 1e300])
    g = mg.grad(mg.logcumsumexp(x).sum(), x)
    np.testing.assert_allclose(g.numpy(), [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3], rtol=1e-15)


def test_logcumsumexp_of_complex_numbers_is_the_principal_logarithm_and_has_its_gradient():
    rng = np.random.default_rng(0)
    z, g, d = (rng.standard_normal((6, 2)) @ [1, 3j] for _ in range(3))
    f = lambda z: np.log(np.cumsum(np.exp(z)))
    x = mg.tensor(z, requires_grad=True)
    y = mg.logcumsumexp(x)
    np.testing.assert_allclose(y.numpy(), f(z))
    slope = (f(z + 1e-6 * d) - f(z - 1e-6 * d)) / 2e-6
    expected = np.vdot(g, slope).real
    gx = mg.grad(y, x, mg.tensor(g), create_graph=True)
    np.testing.assert_allclose(np.vdot(gx.numpy(), d).real, expected, rtol=1e-6)
    _, t = mg.func.jvp(mg.logcumsumexp, (mg.tensor(z),), (mg.tensor(d),))
    np.testing.assert_allclose(t.numpy(), slope, rtol=1e-6)


def test_logcumsumexp_of_many_terms_in_float32_has_its_digits():
    y = mg.logcumsumexp(np.zeros(100_000, np.float32))
    np.testing.assert_allclose(y, np.log(np.arange(1, 100_001)), rtol=2e-7)


def test_logcumsumexp_keeps_small_terms_beside_large_ones():
    x = leaf([-800.0, 0.0, 800.0])
    y = mg.logcumsumexp(x)
    assert y.numpy().tolist() == [-800, 0, 800]
    assert np.isfinite(mg.grad(y.sum(), x).numpy()).all()


def test_a_median_of_an_even_count_gives_half_to_each_middle_element():
    assert gradient(mg.median, np.array([4.0, 1.0, 3.0, 2.0])).tolist() == [0, 0, 0.5, 0.5]


def test_a_median_with_nan_is_nan():
    assert np.isnan(mg.median(mg.tensor([1.0, np.nan, 2.0])).item())


@given(
    a=hnp.arrays(np.float64, (17, 2), elements=VALUES),
    b=hnp.arrays(np.float64, (17, 2), elements=VALUES),
    reverse=st.booleans(),
)
@few
def test_linear_recurrence_is_the_loop(a, b, reverse):
    y = mg.linear_recurrence(mg.tensor(a), mg.tensor(b), axis=0, reverse=reverse).numpy()
    last = np.zeros(2)
    for k in range(17)[:: -1 if reverse else 1]:
        last = a[k] * last + b[k]
        np.testing.assert_allclose(y[k], last, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(1000,), (65, 3), (101, 7, 9), (64, 2), (130, 64), (5, 200)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_lines_in_pieces_are_the_loop(shape, reverse):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1.1, 1.1, (2, *shape))
    a.flat[::37] = 0  # where nothing of what was before remains
    y = mg.linear_recurrence(a, b, axis=0, reverse=reverse)
    last = np.zeros(shape[1:])
    for k in range(shape[0])[:: -1 if reverse else 1]:
        last = a[k] * last + b[k]
        np.testing.assert_allclose(y[k], last, rtol=1e-9, atol=1e-9)


def test_empty_arrays_have_empty_gradients():
    for name in ("sum", "mean", "prod", "cumsum", "cumprod", "logsumexp", "norm"):
        with np.errstate(all="ignore"):
            x = leaf(np.zeros((0, 3)))
            assert mg.grad(getattr(mg, name)(x).sum(), x).shape == (0, 3)


def test_numpys_functions_mean_these_ops():
    x = leaf(np.arange(6.0).reshape(2, 3) + 1)
    for function in (np.sum, np.mean, np.max, np.amax, np.min, np.prod, np.var, np.std, np.median):
        assert isinstance(function(x, axis=1), mg.Tensor)
    assert np.add.reduce(x, axis=1).numpy().tolist() == [6, 15]
    assert np.quantile(x, 0.5).item() == 3.5
    assert np.linalg.norm(x).requires_grad


# -- PyTorch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, options",
    [
        ("sum", {"axis": 1}), ("mean", {"axis": (0, 2)}), ("prod", {"axis": 1}),
        ("amax", {"axis": (0, 1)}), ("var", {"axis": 1, "correction": 1}),
        ("std", {"axis": (0, 2), "correction": 0}), ("logsumexp", {"axis": 2}),
        ("cumsum", {"axis": 1}), ("cumprod", {"axis": 0}), ("logcumsumexp", {"axis": 2}),
        ("quantile", {"q": 0.3, "axis": 1}),
    ],
)  # fmt: skip
def test_values_and_two_derivatives_agree_with_pytorch(name, options):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).integers(-3, 4, (3, 4, 2)) + 0.25  # ties, but no zeros
    a, b = leaf(x), torch.tensor(x, requires_grad=True)
    named = {{"axis": "dim"}.get(key, key): value for key, value in options.items()}
    y, z = getattr(mg, name)(a, **options), getattr(torch, name)(b, **named)
    if name == "quantile":
        return np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-12)
    ga = mg.grad((y * y).sum(), a, create_graph=True)
    (gb,) = torch.autograd.grad((z * z).sum(), b, create_graph=True)
    np.testing.assert_allclose(ga.detach().numpy(), gb.detach().numpy(), rtol=1e-9, atol=1e-9)
    ha = mg.grad((ga * ga).sum(), a)
    (hb,) = torch.autograd.grad((gb * gb).sum(), b)
    np.testing.assert_allclose(
        ha.numpy(), hb.numpy(), rtol=1e-8, atol=1e-12 * np.abs(hb.numpy()).max()
    )


@pytest.mark.parametrize("shape", [(40, 300), (3, 17, 256), (2, 300, 8, 32), (1, 300), (0, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products_of_many_lines_are_numpys_bit_for_bit(name, dtype, shape):
    x = np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(dtype)
    for axis in range(-len(shape), len(shape)):
        y = getattr(mg, name)(mg.tensor(x), axis=axis).numpy()
        np.testing.assert_array_equal(y, getattr(np, name)(x, axis=axis))


def test_what_comes_before_two_infinite_running_results_keeps_its_gradient():
    x = mg.tensor([0.0, 1.0, np.inf, 2.0], requires_grad=True)
    g = mg.grad(mg.logcumsumexp(x, 0)[:2].sum(), x).numpy()
    alone = mg.tensor([0.0, 1.0], requires_grad=True)
    np.testing.assert_allclose(g[:2], mg.grad(mg.logcumsumexp(alone, 0).sum(), alone).numpy())
    assert g[2] == g[3] == 0
