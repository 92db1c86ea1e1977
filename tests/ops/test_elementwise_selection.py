"""Comparison, rounding, selection: exact gradients at ties, bounds and infinities."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.ops.elementwise.selection import choose

pytestmark = pytest.mark.promise(
    "NaNs are the extremum of their slice, window or pair, and share its gradient (K12)"
)

INF, NAN = np.inf, np.nan


def leaf(x, dtype=None):
    return mg.tensor(x, dtype=dtype, requires_grad=True)


# -- selection -------------------------------------------------------------------------------


def test_where_passes_exactly_zero_to_the_side_not_taken_even_for_an_infinite_cotangent():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = mg.where(np.array([True, False]), a, b)
    ga, gb = mg.grad(y, [a, b], np.array([INF, -INF]))
    assert ga.tolist() == [INF, 0]
    assert gb.tolist() == [0, -INF]


def test_the_double_where_idiom_keeps_a_singular_branch_out():
    x = leaf([0.0, 4.0])
    safe = mg.where(x > 0, x, 1.0)
    y = mg.where(x > 0, mg.sqrt(safe), 0.0)
    assert mg.grad(y, x, np.ones(2)).tolist() == [0, 0.25]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_choosing_by_bits_is_np_where_bit_for_bit(dtype):
    a = np.array([INF, NAN, -0.0, 1.5, 0.0], dtype)
    b = np.array([1.0, -INF, NAN, -0.0, 7.0], dtype)
    for condition in (a == a, np.array([[True], [False]])):
        expected = np.where(condition, a, b)
        assert choose(condition, a, b).tobytes() == expected.tobytes()
        assert op.keep(a, condition).tobytes() == np.where(condition, a, a.dtype.type(0)).tobytes()


def test_where_takes_conditions_that_are_numbers_or_one_truth_value():
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert mg.where(np.array([0, 2]), mg.tensor(a), b).tolist() == [3, 2]
    assert mg.where(True, mg.tensor(a), b).tolist() == [1, 2]


def test_where_keeps_bfloat16_beside_python_numbers():
    x = leaf([1.0, 2.0], "bfloat16")
    assert mg.where(x > 1, x, 0.0).dtype == x.dtype
    assert np.where(np.array([True, False]), x, -INF).dtype == x.dtype


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_a_tie_is_shared_equally(name):
    a, b = leaf(2.0), leaf(2.0)
    assert [g.item() for g in mg.grad(getattr(mg, name)(a, b), [a, b])] == [0.5, 0.5]


def test_maximum_with_zero_gives_one_half_at_zero_while_relu_gives_zero():
    x = leaf(0.0)
    assert mg.grad(np.maximum(x, 0), x).item() == 0.5
    assert mg.grad(mg.relu(x), x).item() == 0


def test_an_infinite_cotangent_reaches_only_the_larger():
    a, b = leaf(2.0), leaf(1.0)
    ga, gb = mg.grad(mg.maximum(a, b), [a, b], np.array(INF))
    assert (ga.item(), gb.item()) == (INF, 0)


def test_fmax_gives_the_gradient_to_the_number_beside_a_nan():
    a, b = leaf([NAN, 1.0, NAN]), leaf([2.0, NAN, NAN])
    ga, gb = mg.grad(mg.fmax(a, b), [a, b], np.ones(3))
    assert (ga.tolist(), gb.tolist()) == ([0, 1, 0.5], [1, 0, 0.5])


@pytest.mark.parametrize("function", [mg.maximum, mg.minimum])
def test_a_nan_wins_and_two_share_as_in_max(function):
    a, b = leaf([NAN, 1.0, NAN, 2.0]), leaf([2.0, NAN, NAN, 2.0])
    ga, gb = mg.grad(function(a, b), [a, b], np.ones(4))
    assert (ga.tolist(), gb.tolist()) == ([1, 0, 0.5, 0.5], [0, 1, 0.5, 0.5])


def test_a_bound_of_clip_that_is_nan_is_chosen():
    x, low, high = leaf([1.0, NAN, 1.0, NAN]), leaf([NAN, 0.0, 0.0, NAN]), leaf([2.0, 2, NAN, NAN])
    gs = mg.grad(mg.clip(x, low, high), [x, low, high], np.ones(4))
    assert [g.tolist() for g in gs] == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]]
    assert mg.grad(mg.clip(x, NAN, 1), x, np.ones(4)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("f", [mg.relu, mg.relu6, mg.nn.functional.hardtanh, mg.hardshrink])
def test_a_nan_that_is_passed_on_passes_its_gradient_on(f):
    x = leaf([NAN] * 3)
    assert mg.grad(f(x), x, np.ones(3)).tolist() == [1, 1, 1]


# -- clip ------------------------------------------------------------------------------------


def test_clip_passes_the_gradient_strictly_inside_and_zero_at_a_bound():
    x = leaf([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert mg.grad(mg.clip(x, -1, 1), x, np.full(5, INF)).tolist() == [0, 0, INF, 0, 0]


def test_the_bounds_of_clip_get_what_x_does_not():
    x, low, high = leaf([-2.0, -1.0, 0.0, 1.0, 2.0]), leaf(-1.0), leaf(1.0)
    gx, glow, ghigh = mg.grad(mg.clip(x, low, high), [x, low, high], np.ones(5))
    assert (gx.tolist(), glow.item(), ghigh.item()) == ([0, 0, 1, 0, 0], 2, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.clip(t, 0, 1),
        lambda t: np.clip(t, a_min=0, a_max=1),
        lambda t: np.clip(t, min=0, max=1),
        lambda t: np.clip(t, None, 1) * (t > 0),
        lambda t: mg.clip(t, min=0, max=1),
        lambda t: mg.clip(t, 0, 1),
        lambda t: mg.tensor(t).clip(0, 1),
    ],
)
def test_clip_has_all_of_numpys_spellings(call):
    assert call(mg.tensor([-1.0, 0.5, 2.0])).tolist() == [0, 0.5, 1]


def test_clip_with_one_bound_differentiates_by_that_bound():
    x, low = leaf([1.0, 2.0, -3.0]), leaf(0.0)
    assert [g.tolist() for g in mg.grad(mg.clip(x, min=low), [x, low], np.ones(3))] == [
        [1, 1, 0],
        1,
    ]
    x, high = leaf([1.0, 2.0, -3.0]), leaf(1.5)
    y = mg.clip(x, max=high)
    assert [g.tolist() for g in mg.grad(y, [x, high], np.ones(3))] == [[1, 0, 1], 1]


def test_clip_keeps_bfloat16():
    assert mg.clip(leaf([0.5, 2.0], "bfloat16"), 0, 1).dtype == mg.tensor(0, "bfloat16").dtype


# -- no gradient, or zero --------------------------------------------------------------------


def test_comparisons_and_logic_give_constants():
    x = leaf([1.0, 2.0])
    for y in (x == 1, x != 1, x < 2, x <= 2, x > 1, x >= 1, np.isfinite(x), np.logical_not(x > 1)):
        assert y.dtype == bool
        assert not y.requires_grad


@pytest.mark.parametrize("f", [mg.floor, mg.ceil, mg.trunc, mg.rint, mg.round, np.fix, np.around])
def test_rounding_has_a_gradient_of_zeros_not_none(f):
    x = leaf([0.4, -1.6])
    assert mg.grad(f(x), x, np.array([INF, 1.0])).tolist() == [0, 0]


def test_round_takes_decimals_by_position_and_by_name():
    x = leaf([1.2345])
    assert np.round(x, 2).tolist() == np.round(x, decimals=2).tolist() == [1.23]


@pytest.mark.parametrize(
    ("dtype", "value", "decimals", "rounded"),
    [
        ("float16", 92.0625, 3, 92.0625),
        ("float16", 12344.0, 3, 12344.0),
        ("float16", 3.0, -5, 0.0),
        ("bfloat16", 1.25, 60, 1.25),
        ("float32", 2.0**100, 10, 2.0**100),
        ("float64", 1e300, 10, 1e300),
        ("float64", 3.5, -400, 0.0),
        ("float64", INF, -400, INF),
        ("complex64", complex(2.0**100, 1.25), 10, complex(2.0**100, 1.25)),
    ],
)
def test_places_that_a_number_is_too_large_or_too_small_for_leave_it_finite(
    dtype, value, decimals, rounded
):
    x = mg.tensor([value, -value], dtype=dtype)
    y = mg.round(x, decimals=decimals)
    assert y.dtype == x.dtype and y.tolist() == [rounded, -rounded]


def test_numpys_where_of_a_condition_alone_gives_the_positions():
    x = leaf([[3.0, 0.0], [0.0, 4.0]])
    rows, columns = np.where(x > 1)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])
    assert mg.grad(x[np.where(x > 1)].sum(), x).tolist() == [[1, 0], [0, 1]]


def test_where_of_a_condition_alone_says_what_gives_the_positions():
    with pytest.raises(TypeError, match=r"where needs \['a', 'b'\].*mg\.nonzero\(condition\)"):
        mg.where(leaf([3.0, 0.0]) > 1)


def test_nan_to_num_has_gradient_one_on_finite_values_only():
    x = leaf([NAN, INF, -INF, 1.0])
    y = np.nan_to_num(x, nan=5.0)
    assert y.tolist()[0] == 5
    assert mg.grad(y, x, np.ones(4)).tolist() == [0, 0, 0, 1]


def test_nan_to_num_repairs_bfloat16():
    x = mg.tensor([NAN, INF, -INF, 1.0], dtype="bfloat16")
    assert mg.nan_to_num(x).astype("float64").isfinite().all()
    assert mg.nan_to_num(x, nan=5.0, posinf=2.0, neginf=-2.0).tolist() == [5, 2, -2, 1]


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int32"])
def test_nan_to_num_is_numpys(dtype):
    x = np.array([NAN, INF, -INF, 1.0], "complex128") * (1 + 0.5j) if dtype[0] == "c" else [2, 3]
    x = np.array([NAN, INF, -INF, 1.0] if dtype[0] == "f" else x, dtype)
    for options in ({}, {"nan": INF, "posinf": -INF, "neginf": 3.0}):
        expected = np.nan_to_num(x, **options)
        got = mg.nan_to_num(mg.tensor(x), **options).numpy()
        np.testing.assert_array_equal(got, expected, strict=True)


def test_heaviside_gives_the_gradient_to_its_value_at_zero():
    a, b = leaf([-1.0, 0.0, 2.0]), leaf(0.5)
    ga, gb = mg.grad(np.heaviside(a, b), [a, b], np.ones(3))
    assert (ga.tolist(), gb.item()) == ([0, 0, 0], 1)


def test_bitwise_ops_work_on_integers_and_booleans():
    a, b = mg.tensor([1, 2, 3]), mg.tensor([3, 1, 1])
    assert np.bitwise_and(a, b).tolist() == [1, 0, 1]
    assert np.bitwise_or(a, b).tolist() == [3, 3, 3]
    assert np.bitwise_xor(a, b).tolist() == [2, 3, 2]
    assert np.left_shift(a, b).tolist() == [8, 4, 6]
    assert np.invert(mg.tensor([True, False])).tolist() == [False, True]


def test_isclose_and_allclose_compare_as_numpy_does():
    a, b = leaf([1.0, NAN]), mg.tensor([1.0 + 1e-9, NAN])
    assert np.isclose(a, b).tolist() == [True, False]
    assert np.allclose(a, b, equal_nan=True) is True
    assert mg.allclose(a, b) is False
    assert bool(np.array_equal(a, b)) is False


# -- the derivative of the derivative --------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: mg.maximum(x, 0.5) ** 2,
        lambda x: mg.clip(x, -1.0, 1.0) ** 2,
        lambda x: mg.where(x > 0, x * x, -x * x),
    ],
)
def test_selection_selects_in_the_second_derivative_too(f):
    x = leaf([0.7, 0.9])
    g = mg.grad(f(x), x, np.ones(2), create_graph=True)
    assert mg.grad(g, x, np.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "u8", "c16", "?"])
@pytest.mark.parametrize("other", [0, 1.5, -np.inf, np.nan, True, np.float64(2), np.float32(0.1)])
def test_a_choice_between_an_array_and_a_number_is_numpys_in_value_and_dtype(dtype, other):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (70, 90)).astype(dtype)
    for condition in (rng.random((70, 90)) > 0.5, rng.random(90) > 0.5):
        for pair in ((x, other), (other, x)):
            expected, got = np.where(condition, *pair), choose(condition, *pair)
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_a_number_is_clipped_to_bounds_that_are_arrays():
    bounds = mg.tensor([0.0, 1.0, 2.0], requires_grad=True)
    y = mg.clip(1.5, bounds, 3.0)
    assert y.tolist() == [1.5, 1.5, 2] and mg.grad(y.sum(), bounds).tolist() == [0, 0, 1]


@pytest.mark.parametrize("n", [3, 5000])
def test_where_refuses_an_integer_beyond_the_dtype_beside_it(n):
    x, truths = mg.zeros(n, dtype=np.int8), mg.ones(n, dtype=bool)
    for choose_ in (
        lambda: mg.where(truths, 300, x), lambda: np.where(truths, x, -129),
        lambda: x.masked_fill(truths, 300), lambda: mg.where(truths, -1, x.astype(np.uint8)),
    ):  # fmt: skip
        with pytest.raises(OverflowError, match="out of bounds for u?int8"):
            choose_()
    assert mg.where(truths, 127, x).dtype == np.int8


def test_nan_to_num_takes_arrays_of_constants():
    x = np.array([[0.0, np.nan, np.inf], [np.nan, -np.inf, 1.0]])
    options = {"nan": np.array([1.0, 2, 3]), "posinf": np.float64(7), "neginf": np.array([[8.0]])}
    expected = np.nan_to_num(x, **options)
    ours = {name: mg.tensor(value) for name, value in options.items()}
    np.testing.assert_array_equal(np.nan_to_num(mg.tensor(x), **ours).numpy(), expected)
    with pytest.raises(TypeError, match="nan is a constant here"):
        np.nan_to_num(mg.tensor(x), nan=mg.tensor(1.0, requires_grad=True))


@pytest.mark.parametrize("n", [3, 5000])
def test_a_fraction_beside_few_or_many_integers_keeps_its_digits(n):
    whole = np.arange(n)
    np.testing.assert_array_equal(
        mg.where(whole % 2 == 0, mg.tensor(whole), 0.5).numpy(),
        np.where(whole % 2 == 0, whole, 0.5),
    )
