"""Initialisers draw from the distributions that their papers give."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import init


def weight(*shape):
    return mg.zeros(shape, dtype="float32")


def std(tensor):
    return tensor.numpy().std()


def test_fans_count_the_kernel():
    assert init.fans(weight(6, 4, 3, 5)) == (60, 90)


def test_fans_need_two_axes():
    with pytest.raises(ValueError, match=r"at least two axes \(out, in, ...\), got shape \(3,\)"):
        init.fans(weight(3))


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), (2 / 200) ** 0.5),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), (2 / 300) ** 0.5),
        (lambda w: init.kaiming_uniform_(w, a=5**0.5), (1 / 600) ** 0.5),
        (lambda w: init.xavier_uniform_(w, gain=2.0), 2 * (2 / 500) ** 0.5),
        (init.xavier_normal_, (2 / 500) ** 0.5),
        (lambda w: init.normal_(w, 0.0, 0.7), 0.7),
        (lambda w: init.uniform_(w, -1, 1), 3**-0.5),
    ],
)
def test_standard_deviations_are_the_formulas(fill, expected):
    mg.manual_seed(0)
    w = fill(weight(300, 200))
    assert std(w) == pytest.approx(expected, rel=0.02)  # 60,000 draws: error 0.3 %
    assert w.dtype == np.float32


@pytest.mark.parametrize("name", ["linear", "sigmoid", "tanh", "relu", "leaky_relu"])
def test_gains_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def test_an_unknown_gain_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no gain is known for 'snake'; choose from \['linear'"):
        init.calculate_gain("snake")


@pytest.mark.parametrize("slope", [True, [0.1], "0.1"])
def test_a_slope_that_is_no_number_is_refused(slope):
    with pytest.raises(ValueError, match="the slope of leaky_relu is a number, got "):
        init.calculate_gain("leaky_relu", slope)


def test_a_given_generator_is_the_one_that_is_used():
    one = init.uniform_(weight(4), generator=np.random.default_rng(5)).numpy()
    two = init.uniform_(weight(4), generator=np.random.default_rng(5)).numpy()
    assert np.array_equal(one, two)


def test_constants_fill():
    assert (init.ones_(weight(2)).numpy() == 1).all()
    assert (init.zeros_(init.ones_(weight(2))).numpy() == 0).all()


def drawn(name, shape, *args, **options):
    x = mg.zeros(*shape)
    assert getattr(init, name)(x, *args, **options, generator=np.random.default_rng(0)) is x
    return x.numpy()


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3, 1)])
def test_orthogonal_rows_or_columns_are_orthonormal(shape):
    matrix = drawn("orthogonal_", shape, gain=2.0).reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_a_truncated_normal_stays_within_its_bounds():
    x = drawn("trunc_normal_", (200, 100), 1.0, 2.0, a=-1.0, b=2.0)
    assert -1 <= x.min() < -0.99 and 1.99 < x.max() <= 2
    stats = pytest.importorskip("scipy.stats")
    expected = stats.truncnorm(-1, 0.5, loc=1, scale=2)
    assert abs(x.mean() - expected.mean()) < 5 * expected.std() / 20_000**0.5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "a, b", [(3.9, 5.0), (-6.0, -5.0), (5.0, np.inf), (30.0, 30.1), (-1e4, -9e3), (-0.3, 0.1)]
)
def test_a_truncated_normal_is_drawn_from_any_interval_and_stays_in_it(dtype, a, b):
    x = init.trunc_normal_(mg.zeros(500, dtype=dtype), a=a, b=b).numpy().astype(float)
    assert (a <= x).all() and (x <= b).all()


@pytest.mark.parametrize(
    "mean, std, a, b",
    [(2.0, 0.0, -1.0, 1.0), (0.0, 1.0, 2.0, 2.0), (0.0, 1.0, 2.0, 1.0), (0.0, 1.0, np.nan, 1.0)],
)
def test_a_truncated_normal_without_an_interval_is_refused(mean, std, a, b):
    with pytest.raises(ValueError, match="must be an interval, a < b, that holds a part"):
        init.trunc_normal_(mg.zeros(3), mean, std, a, b)


def test_each_column_of_a_sparse_matrix_has_its_zeros():
    x = drawn("sparse_", (10, 4), 0.25)
    assert ((x == 0).sum(0) == 3).all() and x.any()


def test_identities():
    assert np.array_equal(init.eye_(mg.ones(2, 3)).numpy(), np.eye(2, 3))
    torch = pytest.importorskip("torch")
    for shape, groups in [((4, 2, 3), 1), ((4, 2, 3, 5), 2), ((6, 2, 1, 2, 3), 3)]:
        expected = torch.nn.init.dirac_(torch.ones(shape), groups).numpy()
        assert np.array_equal(init.dirac_(mg.ones(shape), groups).numpy(), expected)


def test_gains_equal_pytorchs():
    torch = pytest.importorskip("torch")
    for name in ("linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    expected = torch.nn.init.calculate_gain("leaky_relu", 0.3)
    assert init.calculate_gain("leaky_relu", 0.3) == expected


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 3)])
@pytest.mark.parametrize("kind", ["kaiming_uniform_", "kaiming_normal_", "xavier_normal_"])
def test_a_weight_without_elements_stays_as_it_is(kind, shape):
    w = weight(*shape)
    assert getattr(init, kind)(w) is w and w.shape == shape


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda w: init.normal_(w, 0.0, 0.7), 0.7),
        (init.xavier_normal_, (2 / 500) ** 0.5),
        (lambda w: init.uniform_(w, -1, 1), (2 / 3) ** 0.5),
        (lambda w: init.sparse_(w, 0.0, std=0.7), 0.7),
        (init.orthogonal_, 300**-0.5),
    ],
)
def test_both_parts_of_complex_tensors_are_drawn(fill, expected):
    mg.manual_seed(0)
    w = fill(mg.zeros((300, 200), dtype="complex64")).numpy()
    assert np.sqrt(np.mean(abs(w) ** 2)) == pytest.approx(expected, rel=0.02)
    assert w.real.std() == pytest.approx(w.imag.std(), rel=0.02)


def test_a_complex_matrix_is_unitary():
    w = init.orthogonal_(mg.zeros((3, 5), dtype="complex128")).numpy()
    np.testing.assert_allclose(w @ w.conj().T, np.eye(3), atol=1e-14)


def test_an_interval_cuts_off_no_complex_numbers():
    with pytest.raises(TypeError, match="trunc_normal_: complex numbers are not ordered"):
        init.trunc_normal_(mg.zeros(3, dtype="complex64"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: init.normal_(x, std=-1), "normal_: std must be 0 or more, got -1"),
        (lambda x: init.trunc_normal_(x, std=-1), "trunc_normal_: std must be 0 or more"),
        (lambda x: init.dirac_(x, groups=0), "divisible by groups=0, got shape"),
        (lambda x: init.calculate_gain("snake"), "calculate_gain: .*'leaky_relu'"),
    ],
)
def test_a_wrong_option_of_a_drawing_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call(mg.zeros(3, 3, 3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (-0.3, 0.3), (-2.0, -1.0)])
def test_a_uniform_draw_stays_below_its_upper_bound_in_narrow_dtypes(dtype, a, b):
    class Last:
        """A generator that draws the largest numbers of float64 below the bound."""

        def uniform(self, low, high, shape):
            return np.full(shape, np.nextafter(high, -np.inf))

    x = init.uniform_(mg.zeros(3, dtype=dtype), a, b, generator=Last()).numpy()
    parts = np.concatenate([x.real, x.imag]) if x.dtype.kind == "c" else x
    assert (parts.astype(np.float64) < b).all() and (parts.astype(np.float64) > b - 0.01).all()


def test_a_uniform_distribution_without_width_is_its_bound():
    assert init.uniform_(mg.zeros(2), 0.5, 0.5).tolist() == [0.5, 0.5]


def test_a_truncated_normal_distribution_without_spread_is_its_mean():
    assert init.trunc_normal_(mg.zeros(3), mean=0.5, std=0.0).tolist() == [0.5, 0.5, 0.5]


DRAWS = {
    "uniform_": init.uniform_,
    "normal_": init.normal_,
    "trunc_normal_": init.trunc_normal_,
    "orthogonal_": init.orthogonal_,
    "sparse_": lambda w: init.sparse_(w, sparsity=0.3),
    "kaiming_uniform_": init.kaiming_uniform_,
    "xavier_normal_": init.xavier_normal_,
}


def each_filled(fill, randomness):
    """(3, 4, 5): what three examples of a vmap find in a weight that they fill."""
    return mg.func.vmap(lambda t: t * fill(mg.zeros(4, 5)), randomness=randomness)(mg.ones(3))


@pytest.mark.parametrize("name", DRAWS)
def test_inside_vmap_the_examples_share_a_draw_only_where_that_is_asked_for(name):
    with pytest.raises(mg.errors.TransformError, match='"different".* draws for each'):
        each_filled(DRAWS[name], "error")
    first, second, third = each_filled(DRAWS[name], "same").numpy()
    assert (first == second).all() and (first == third).all() and first.any()
    first, second, third = each_filled(DRAWS[name], "different").numpy()
    assert (first != second).any() and (second != third).any()


def test_draws_for_nested_examples_are_those_of_one_tensor_after_the_other():
    each = mg.func.vmap(lambda t: t * init.orthogonal_(mg.zeros(2, 3)), randomness="different")
    mg.manual_seed(3)
    found = mg.func.vmap(each, randomness="different")(mg.ones(2, 2))
    mg.manual_seed(3)
    expected = [[init.orthogonal_(mg.zeros(2, 3)).numpy() for _ in range(2)] for _ in range(2)]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_a_parameter_cannot_hold_a_draw_for_each_example():
    def of_a_layer(t):
        return t * mg.nn.Linear(2, 2).weight

    with pytest.raises(mg.errors.TransformError, match="stack_module_state"):
        mg.func.vmap(of_a_layer, randomness="different")(mg.ones(3))
    first, second = mg.func.vmap(of_a_layer, randomness="same")(mg.ones(2)).numpy()
    assert (first == second).all()


def test_a_tensor_of_a_transform_gets_the_values_and_keeps_its_derivative():
    def filled(t):
        return (t * init.constant_(t * mg.ones(2), 3.0)).sum()

    assert mg.func.grad(filled)(mg.tensor(1.0)).item() == 6 + 2
    assert mg.func.jvp(filled, (mg.tensor(1.0),), (mg.tensor(1.0),))[1].item() == 6 + 2
    with pytest.raises(mg.errors.InPlaceError, match=r"In a transform its values stay: .*copy\(\)"):
        mg.func.grad(lambda w: init.ones_(w).sum())(mg.zeros(2))


def test_a_mode_that_kaiming_has_not_is_refused():
    with pytest.raises(ValueError, match="mode is 'fan_in' or 'fan_out', got 'fan_avg'"):
        init.kaiming_normal_(mg.zeros(3, 4), mode="fan_avg")
