"""Functions with fractions for results, given integers: nothing is cut off or wraps round."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op as registry

pytestmark = pytest.mark.promise(
    "SciPy's ufuncs on tensors are recorded; integer arguments give float results"
)

NATURAL = np.array([0, 1, 3], np.uint8)


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "logsigmoid", "silu", "erf", "gelu"])
def test_unsigned_numbers_do_not_wrap_round_below_zero(name):
    f = getattr(mg, name)
    expected = f(NATURAL.astype(np.float64))
    np.testing.assert_allclose(f(mg.tensor(NATURAL)).numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize("name", ["logsumexp", "logcumsumexp"])
def test_the_logarithm_of_a_sum_of_whole_numbers_keeps_its_fraction(name):
    f, x = getattr(mg, name), np.array([1, 2, 3])
    np.testing.assert_allclose(f(mg.tensor(x)).numpy(), f(x.astype(np.float64)))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_a_whole_number_times_a_logarithm_keeps_its_fraction(name):
    f, x = getattr(mg, name), np.array([0, 2, 3])
    np.testing.assert_allclose(f(mg.tensor(x), mg.tensor(x)).numpy(), f(x * 1.0, x * 1.0))


BESIDE_FRACTIONS = "arctan2 pow xlogy xlog1py boxcox boxcox1p powm1 rel_entr gammainc gammaincc"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("name", BESIDE_FRACTIONS.split())
def test_the_dtype_of_whole_numbers_beside_fractions_changes_no_digit(name, dtype):
    f, whole = getattr(mg, name, None) or getattr(mg.special, name), np.array([2.0, 3.0, 5.0])
    x = mg.tensor([0.3, 0.7, 3.1])
    turned = (lambda a: lambda x: f(x, a).sum()) if "xlog" in name else (
        lambda a: lambda x: f(a, x).sum())  # fmt: skip
    value, gradient = mg.func.value_and_grad(turned(whole.astype(dtype)))(x)
    expected, slope = mg.func.value_and_grad(turned(whole))(x)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    np.testing.assert_allclose(gradient, slope, rtol=1e-14)


@pytest.mark.parametrize("options", [{}, {"pos_weight": 2.0}], ids=["", "pos_weight"])
@pytest.mark.parametrize("name", ["bce", "bce_with_logits"])
def test_binary_losses_take_unsigned_numbers(name, options):
    if name == "bce" and options:
        pytest.skip("bce has no pos_weight")
    x, target = np.array([1, 0, 1, 0], np.uint8), np.array([0.25, 0.5, 1.0, 1.0])
    f = lambda x, t: getattr(mg, name)(x, t, **options)
    found, expected = (
        mg.func.value_and_grad(lambda t, x=x: f(x, t))(mg.tensor(target)) for x in (x, x * 1.0)
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_allclose(f(target, x), f(target, x * 1.0), rtol=1e-14)


def test_the_density_of_a_beta_distribution_takes_unsigned_numbers():
    x, p = np.array([0, 1], np.uint8), np.array([0.5, 1.5])
    two_powers = registry.two_powers
    np.testing.assert_array_equal(two_powers(x, p, p, 0.0), two_powers(x * 1.0, p, p, 0.0))


def test_a_constant_argument_that_requires_a_gradient_is_refused():
    x, q = mg.tensor([1.0, 2.0, 4.0]), mg.tensor(0.5, requires_grad=True)
    lower = lambda x, q: mg.quantile(x, q, method="lower")
    for f in (lower, mg.nanquantile, mg.nanpercentile):
        with pytest.raises(TypeError, match=r"q is a constant here.*q\.detach\(\)"):
            f(x, q)
    with pytest.raises(TypeError, match="fweights is a constant here"):
        mg.cov(x, fweights=mg.tensor(np.ones(3), requires_grad=True))
    with pytest.raises(TypeError, match="varargs is a constant here"):
        mg.func.jvp(lambda h: np.gradient(x, h), (0.5,), (1.0,))


AVERAGES = {
    "avg_pool1d": lambda x: mg.avg_pool1d(x, 6, 3, 2, ceil_mode=True),
    "avg_pool1d of the border": lambda x: mg.avg_pool1d(x, 3, 1, 1, count_include_pad=False),
    "adaptive_avg_pool1d": lambda x: mg.adaptive_avg_pool1d(x, 2),
    "lp_pool1d": lambda x: mg.lp_pool1d(x, 2, 3),
    "upsample": lambda x: mg.upsample(x, 7, mode="linear"),
    "dropout": lambda x: mg.dropout(x, 0.3, generator=np.random.default_rng(0)),
    "rotary": lambda x: mg.rotary(x[..., :8]),
    "p_norm": lambda x: mg.p_norm(x),
    "cosine_embedding": lambda x: mg.cosine_embedding(x, x[:, ::-1], 1),
    "triplet": lambda x: mg.triplet(x, x[:, ::-1], x[:, [1, 0, 2]]),
    "log_softmax": lambda x: mg.log_softmax(x),
    "logsumexp": lambda x: mg.logsumexp(x, axis=-1),
}


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
@pytest.mark.parametrize("name", AVERAGES)
def test_means_norms_and_losses_of_whole_numbers_keep_their_fractions(name, dtype):
    x = np.random.default_rng(1).integers(0, 9, (1, 3, 9))
    found, expected = (AVERAGES[name](mg.tensor(x.astype(t))).numpy() for t in (dtype, np.float64))
    tolerance = 1e-12 if found.dtype == np.float64 else 2e-3
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_the_weights_of_a_covariance_of_whole_numbers_are_not_cut_off():
    x, a = np.array([[1, 2, 0], [3, 0, 1]]), np.array([0.5, 1.0, 2.0])
    c = mg.cov(mg.tensor(x), aweights=a)
    np.testing.assert_allclose(c.numpy(), np.cov(x, aweights=a))


def test_a_density_of_whole_weights_is_divided_by_the_widths_of_its_bins():
    x, w = np.array([0, 1, 1, 2, 3]), np.array([1, 2, 3, 4, 5])
    y, _ = mg.histogram(mg.tensor(x), bins=4, weights=mg.tensor(w), density=True)
    np.testing.assert_allclose(y.numpy(), np.histogram(x, 4, weights=w, density=True)[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions_of_8_bit_numbers_reach_beyond_float16(dtype):
    x = np.array([2, 20], dtype)
    for name in ("gamma", "i0"):
        f = getattr(mg.special, name)
        y = f(mg.tensor(x))
        assert y.dtype == np.float32, name
        np.testing.assert_allclose(y, f(x.astype(np.float64)), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64])
def test_fabs_is_a_float_of_numpys_dtype(dtype):
    x = np.array([0, 1], dtype)
    y = np.fabs(mg.tensor(x))
    assert y.dtype == np.fabs(x).dtype and y.tolist() == [0, 1]


def test_fabs_refuses_complex_numbers():
    with pytest.raises(TypeError, match="fabs: x must be real"):
        np.fabs(mg.tensor([1j]))


def test_powers_of_booleans_are_int64_also_the_square():
    x = np.array([True, False])
    for power in (lambda x: x**2, lambda x: np.power(x, 2), lambda x: mg.pow(x, 3)):
        assert power(mg.tensor(x)).dtype == np.power(x, 2).dtype == np.int64


COUNTS = {
    "groups of conv2d": lambda n: mg.conv2d(mg.ones(1, 4, 3, 3), mg.ones(2, 2, 2, 2), groups=n),
    "groups of conv_transpose1d": lambda n: mg.conv_transpose1d(
        mg.ones(1, 4, 3), mg.ones(4, 1, 2), groups=n
    ),
    "kernel_size of im2col": lambda n: mg.im2col(mg.ones(1, 1, 4, 4), n),
    "output_size of col2im": lambda n: mg.col2im(mg.ones(1, 1, 4), n, 1),
    "order of polygamma": lambda n: mg.polygamma(n, mg.tensor([0.5, 2.0])),
    "dimension of multigammaln": lambda n: mg.special.multigammaln(mg.tensor([2.5, 9.0]), n),
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_may_be_a_number_of_numpys(name, dtype):
    np.testing.assert_array_equal(COUNTS[name](dtype(2)), COUNTS[name](2))


@pytest.mark.parametrize("order", [1.5, np.array([1, 2])])
def test_polygamma_says_that_it_takes_one_whole_order(order):
    with pytest.raises(TypeError, match="polygamma: the order n must be one integer, got"):
        mg.polygamma(order, 2.0)


BESIDE_WHOLE = {
    "lerp": lambda x, n: mg.lerp(x, 2 * x, n),
    "a power that may be 0": lambda x, n: x**n,
    "float_power": lambda x, n: np.float_power(x, n),
    "boxcox": lambda x, n: mg.special.boxcox(x, n),
    "boxcox1p": lambda x, n: mg.special.boxcox1p(x, n),
    "powm1": lambda x, n: mg.special.powm1(x, n),
    "inv_boxcox": lambda x, n: mg.special.inv_boxcox(n, x),
    "inv_boxcox1p": lambda x, n: mg.special.inv_boxcox1p(n, x),
    "gammaincinv": lambda x, n: mg.special.gammaincinv(n + n.dtype.type(1), x / 4),
    "points of polyval": lambda x, n: np.polyval(x, n * n.dtype.type(30)),
    "coefficients of polyval": lambda x, n: np.polyval(n * n.dtype.type(40), x),
    "interp": lambda x, n: np.interp(x, np.array([0.0, 1.0, 4.0]), n[::-1]),
    "einsum": lambda x, n: np.einsum("ij,j->", np.stack([n, n]) * n.dtype.type(30), x),
    "poisson_nll": lambda x, n: mg.poisson_nll(x, n, full=True),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64])
@pytest.mark.parametrize("name", BESIDE_WHOLE)
def test_values_and_gradients_are_those_beside_the_same_numbers_as_fractions(name, dtype):
    x, whole = mg.tensor([0.3, 0.7, 3.1]), np.array([0, 2, 3], dtype)
    total = lambda n: mg.func.value_and_grad(lambda x: BESIDE_WHOLE[name](x, n).sum())(x)
    for found, expected in zip(total(whole), total(whole.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


PARAMETERS = {
    "shift of roll": lambda x, n: np.roll(x, n(1)),
    "shifts of roll": lambda x, n: np.roll(x, (n(1), n(2)), axis=(0, 1)),
    "offset of diagonal": lambda x, n: np.diagonal(x, n(1)),
    "offset of diag_embed": lambda x, n: mg.diag_embed(x, n(1)),
    "offset of tril": lambda x, n: np.tril(x, n(1)),
    "lambd of softshrink": lambda x, n: mg.softshrink(x, n(2)),
    "delta of huber": lambda x, n: mg.huber(x, 0 * x, delta=n(2)),
    "beta of smooth_l1_loss": lambda x, n: mg.nn.functional.smooth_l1_loss(x, 0 * x, beta=n(2)),
    "parts of split": lambda x, n: np.split(mg.tile(x, (1, 100)), n(100), axis=1)[7],
    "parts of array_split": lambda x, n: np.array_split(mg.tile(x, (1, 99)), n(7), axis=1)[3],
    "chunks": lambda x, n: mg.chunk(mg.tile(x, (1, 100)), n(100), axis=1)[7],
    "start and length of narrow": lambda x, n: mg.narrow(mg.tile(x, (1, 99)), 1, n(99), n(99)),
    "reps of tile": lambda x, n: np.tile(x, n(100)),
    "size of unfold": lambda x, n: mg.tile(x, (1, 99)).unfold(1, n(99), n(50)),
    "window of sliding_window_view": lambda x, n: np.lib.stride_tricks.sliding_window_view(
        mg.tile(x, (1, 99)), n(99), axis=1
    ),
    "new shape of resize": lambda x, n: np.resize(x, (n(100), n(100))),
    "length of resize": lambda x, n: np.resize(x, n(100)),
    "scale of upsample": lambda x, n: mg.upsample(x[None], scale_factor=n(90)),
    "widths of pad": lambda x, n: np.pad(x, ((n(100), 0), (0, n(100)))),
    "n_fft of stft": lambda x, n: abs(mg.stft(mg.tile(x, (1, 99)), n(64), n(16), n(64))),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64])
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_may_be_a_whole_number_of_numpys(name, dtype):
    x = mg.tensor(np.arange(12.0).reshape(3, 4) - 5.5)
    g = lambda n: mg.func.value_and_grad(lambda x: np.square(PARAMETERS[name](x, n)).sum())(x)
    for found, expected in zip(g(dtype), g(int), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_mean_of_whole_numbers_in_one_place_is_rounded_down():
    torch = pytest.importorskip("torch")
    x, places, source = np.array([-6, 4, 7]), np.array([0, 1, 0]), np.array([-1, -4, 0])
    for own in (True, False):
        ours = [
            mg.scatter_reduce(x, 0, places, source, "mean", own),
            mg.index_reduce(x, 0, places, source, "mean", include_self=own),
        ]
        a, i, b = (torch.tensor(v) for v in (x, places, source))
        theirs = a.scatter_reduce(0, i, b, "mean", include_self=own).tolist()
        assert [y.tolist() for y in ours] == [theirs, theirs]
