"""The right answers at awkward points, one test for each line of the table of conventions.

Minimum-norm subgradients, except that ties share equally; finite where the mathematics is finite.
"""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import hessian, jvp

pytestmark = pytest.mark.promise("the answers at awkward points")

inf, nan = np.inf, np.nan


def gradients(f, *arrays, g=None):
    """The gradients of Σ g·f at these arrays, g all ones where it is left out; warnings fail."""
    xs = [mg.tensor(np.asarray(a), requires_grad=True) for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = f(*xs)
        y.backward(np.ones(y.shape, y.dtype) if g is None else g)
    found = [x.grad.tolist() for x in xs]
    return found[0] if len(found) == 1 else found


def second(f, x):
    """d²f/dx² at a number."""
    x = mg.tensor(float(x), requires_grad=True)
    return mg.grad(mg.grad(f(x), x, create_graph=True), x).item()


@pytest.mark.parametrize("f", [mg.abs, mg.sign, mg.relu], ids=["abs", "sign", "relu"])
def test_zero_has_gradient_zero(f):
    assert gradients(f, 0.0) == 0.0


def test_the_norm_of_the_zero_vector_has_gradient_zero():
    assert gradients(mg.norm, [0.0, 0.0]) == [0, 0]


def test_the_deviation_of_a_constant_has_gradient_zero():
    assert gradients(mg.std, [1.0, 1.0, 1.0]) == [0, 0, 0]


@pytest.mark.parametrize("f", [mg.hypot, mg.arctan2], ids=["hypot", "arctan2"])
def test_hypot_and_arctan2_at_the_origin_have_gradient_zero(f):
    assert gradients(f, 0.0, 0.0) == [0, 0]


@pytest.mark.parametrize("f", [mg.maximum, mg.minimum], ids=["maximum", "minimum"])
def test_equal_arguments_share_by_halves(f):
    assert gradients(f, 1.0, 1.0) == [0.5, 0.5]
    assert gradients(lambda x: f(x, 0.0), 0.0) == 0.5


@pytest.mark.parametrize("f", [mg.max, mg.min, mg.amax, mg.amin])
def test_tied_extrema_share_equally(f):
    x = [2.0, 2.0, 1.0] if f in (mg.max, mg.amax) else [2.0, 2.0, 3.0]
    assert gradients(f, x) == [0.5, 0.5, 0]


def test_clip_gives_zero_outside_and_at_a_bound():
    assert gradients(lambda x: mg.clip(x, 0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [0, 0, 1, 0, 0]


def test_prod_with_one_zero_or_two():
    assert gradients(mg.prod, [0.0, 3.0, 4.0]) == [12, 0, 0]
    assert gradients(mg.prod, [0.0, 0.0, 4.0]) == [0, 0, 0]


def test_the_second_order_of_prod_with_two_zeros():
    x = mg.tensor([0.0, 0.0, 4.0], requires_grad=True)
    g = mg.grad(mg.prod(x), x, create_graph=True)
    rows = [mg.grad(g[i], x, retain_graph=True).tolist() for i in range(3)]
    assert rows == [[0, 4, 0], [4, 0, 0], [0, 0, 0]]


def test_cumprod_with_a_zero():
    assert gradients(mg.cumprod, [2.0, 0.0, 3.0]) == [1, 8, 0]


def test_the_second_order_of_cumprod_with_a_zero():
    x = mg.tensor([2.0, 0.0, 3.0], requires_grad=True)
    g = mg.grad(mg.cumprod(x), x, [np.array([0.0, 0.0, 1.0])], create_graph=True)
    assert mg.grad(g[1], x).tolist() == [3, 0, 2]


def test_the_determinant_of_a_singular_matrix_has_its_adjugate():
    g = gradients(mg.linalg.det, [[1.0, 2.0], [2.0, 4.0]])
    np.testing.assert_allclose(g, [[4, -2], [-2, 1]], atol=1e-14)


@pytest.mark.parametrize(
    "f, value",
    [(mg.logsumexp, -inf), (mg.softmax, [0, 0]), (mg.log_softmax, [-inf, -inf])],
    ids=["logsumexp", "softmax", "log_softmax"],
)
def test_a_row_of_minus_infinity_gives_its_limit_and_gradient_zero(f, value):
    row = [-inf, -inf]
    assert f(mg.tensor(row)).tolist() == value
    assert gradients(f, row) == [0, 0]


def test_logaddexp_of_two_minus_infinities():
    assert mg.logaddexp(mg.tensor(-inf), -inf).item() == -inf
    assert gradients(mg.logaddexp, -inf, -inf) == [0, 0]


def test_eigenvalues_and_singular_values_at_repeated_ones():
    np.testing.assert_allclose(gradients(mg.linalg.eigvalsh, np.eye(3)), np.eye(3), atol=1e-14)
    np.testing.assert_allclose(gradients(mg.linalg.svdvals, np.eye(3)), np.eye(3), atol=1e-14)


def test_a_function_of_an_eigenspace_is_right_though_its_vectors_are_not_unique():
    """P, the projector on the eigenspace of 1 in diag(1, 1, 3), does not depend on the basis."""
    a = np.diag([1.0, 1.0, 3.0])
    m = np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 7.0], [3.0, 7.0, 9.0]])

    def f(a):
        vectors = mg.linalg.eigh(a)[1][:, :2]
        return ((vectors @ vectors.mT) * m).sum()

    g = np.array(gradients(f, a))
    h, t = 1e-6, np.array([[0.0, 1.0, 2.0], [1.0, 0.5, -1.0], [2.0, -1.0, 0.3]])
    numeric = (f(mg.tensor(a + h * t)).item() - f(mg.tensor(a - h * t)).item()) / (2 * h)
    assert (g * t).sum() == pytest.approx(numeric, rel=1e-6)


def test_gradients_through_eigenvectors_of_equal_eigenvalues_are_finite():
    def rebuilt(a):
        values, vectors = mg.linalg.eigh(a)
        return ((vectors * values) @ vectors.mT).sum()

    assert np.isfinite(gradients(rebuilt, np.eye(3))).all()


def test_powers_with_whole_exponents_are_exact():
    assert gradients(lambda x: x**2, [0.0, -3.0]) == [0, -6]
    assert gradients(lambda x: x**0, [0.0, -3.0]) == [0, 0]
    assert gradients(lambda x: x ** np.array([2.0, 3.0]), [-3.0, -2.0]) == [-6, 12]
    assert second(lambda x: x**2, 0.0) == 2


def test_zero_to_a_power_has_gradient_zero_in_the_exponent():
    assert gradients(lambda y: 0.0**y, 2.0) == 0


def test_sinc_at_zero_to_second_order():
    assert gradients(mg.sinc, 0.0) == 0
    assert second(mg.sinc, 0.0) == pytest.approx(-(np.pi**2) / 3, rel=1e-15)


def test_the_branch_not_taken_passes_exactly_zero():
    f = lambda x: mg.where(np.array([True, False]), x * x, 1.0)
    assert gradients(f, [3.0, 4.0]) == [6, 0]


def test_the_double_where_keeps_infinities_out_of_the_branch_not_taken():
    def safe_log(x):
        positive = x > 0
        return mg.where(positive, mg.log(mg.where(positive, x, 1.0)), 0.0)

    assert gradients(safe_log, [0.0, 2.0]) == [0, 0.5]


@pytest.mark.parametrize(
    "f, x, derivative",
    [
        (mg.expm1, -50.0, np.exp(-50.0)),
        (mg.log1p, 1e-20, 1.0),
        (mg.sigmoid, 1000.0, 0.0),
        (mg.sigmoid, -1000.0, 0.0),
        (mg.sigmoid, 40.0, np.exp(-40.0)),
        (mg.softplus, 1000.0, 1.0),
        (mg.softplus, -1000.0, 0.0),
        (mg.softplus, -40.0, np.exp(-40.0)),
    ],
)
def test_tails_are_accurate_and_quiet(f, x, derivative):
    assert gradients(f, x) == pytest.approx(derivative, rel=1e-14)


def test_log_softmax_of_a_wide_row():
    y = mg.log_softmax(mg.tensor([1000.0, 0.0]))
    assert y.tolist() == [0, -1000]
    assert gradients(mg.log_softmax, [1000.0, 0.0], g=np.array([0.0, 1.0])) == [-1, 1]


def test_the_median_of_an_even_count_gives_half_to_each():
    assert gradients(mg.median, [1.0, 3.0, 2.0, 9.0]) == [0, 0.5, 0.5, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_sums_are_formed_in_float32(dtype):
    pytest.importorskip("ml_dtypes")
    ones = mg.ones(4096, dtype=dtype)
    assert float(ones.sum().data) == 4096
    assert float(ones.mean().data) == 1
    assert float(mg.cumsum(ones).data[-1]) == 4096
    added = mg.scatter_add(mg.zeros(1, dtype=dtype), 0, np.zeros(4096, int), ones)
    assert float(added.data[0]) == 4096


def test_duplicates_in_an_index_add_up():
    assert gradients(lambda x: x[np.array([0, 0, 1])], [1.0, 2.0, 3.0]) == [2, 1, 0]


def test_of_two_writes_to_one_place_the_last_wins_and_alone_gets_the_gradient():
    f = lambda v: mg.index_put(mg.zeros(2), (np.array([0, 0]),), v)
    assert f(mg.tensor([5.0, 7.0])).tolist() == [7, 0]
    assert gradients(f, [5.0, 7.0]) == [0, 1]


def test_the_gradient_of_a_real_loss_is_twice_the_derivative_by_the_conjugate():
    z = mg.tensor([3.0 + 4.0j], requires_grad=True)
    mg.abs(z).sum().backward()
    np.testing.assert_allclose(z.grad.data, [0.6 + 0.8j])


def test_a_real_leaf_gets_the_real_part():
    x = mg.tensor([2.0], requires_grad=True)
    mg.abs(x * (3 + 4j)).sum().backward()
    assert x.grad.dtype == np.float64 and x.grad.tolist() == [5]


@pytest.mark.parametrize("f", [mg.sum, mg.exp, mg.sort, mg.cumsum, mg.softmax, mg.prod])
def test_arrays_of_no_elements_have_gradients_of_no_elements(f):
    x = mg.zeros(0, 3, requires_grad=True)
    y = f(x)
    y.backward(np.ones(y.shape))
    assert x.grad.shape == (0, 3)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(
    "f, ends",
    [
        (mg.arcsin, {-1: -inf, 1: inf}),
        (mg.arccos, {-1: inf, 1: -inf}),
        (mg.arctanh, {-1: -inf, 1: inf}),
        (mg.arccosh, {1: -inf}),
        (mg.logit, {0: -inf, 1: inf}),
    ],
    ids=["arcsin", "arccos", "arctanh", "arccosh", "logit"],
)
def test_at_the_ends_of_a_domain_the_second_derivative_is_infinite_in_every_mode(f, ends):
    slope = lambda x: jvp(f, (x,), (np.float64(1),))[1]
    for x, expected in ends.items():
        assert second(f, x) == expected
        assert jvp(slope, (np.float64(x),), (np.float64(1),))[1].item() == expected


@pytest.mark.parametrize("f, sign", [(mg.arcsin, 1), (mg.arccos, -1)], ids=["arcsin", "arccos"])
def test_the_second_derivative_of_arcsin_near_0_has_all_its_digits(f, sign):
    for x in (1e-8, 1e-20, 1e-300):
        assert second(f, x) == pytest.approx(sign * x, rel=1e-15)


@pytest.mark.parametrize("x", [40.0, 1000.0, inf])
def test_where_log_ndtr_is_0_so_are_its_derivatives(x):
    assert gradients(mg.special.log_ndtr, x) == 0
    assert second(mg.special.log_ndtr, x) == 0


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:overflow")
def test_the_second_derivative_of_cbrt_at_0_is_that_of_the_side_that_the_zeros_sign_names():
    assert [second(mg.cbrt, x) for x in (0.0, -0.0)] == [-inf, inf]
    assert second(mg.cbrt, inf) == second(mg.cbrt, -inf) == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: mg.hypot(x[0], x[1]),
        lambda x: mg.arctan2(x[0], x[1]),
        lambda x: mg.angle(x[0] + 1j * x[1]),
        mg.norm,
    ],
    ids=["hypot", "arctan2", "angle", "norm"],
)
def test_at_the_origin_lengths_and_angles_have_second_derivatives_of_0(f):
    assert hessian(f)(mg.tensor([0.0, 0.0])).tolist() == [[0, 0], [0, 0]]
