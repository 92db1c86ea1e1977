"""Calculus on samples: NumPy's values, gradients in every argument that is differentiable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


@given(st.integers(1, 7), st.integers(1, 7), st.sampled_from(["full", "same", "valid"]))
@settings(max_examples=80)
def test_convolve_and_correlate_are_numpys_for_all_lengths(n, m, mode):
    a, v = RNG.standard_normal(n), RNG.standard_normal(m) + 1j * RNG.standard_normal(m)
    np.testing.assert_allclose(mg.convolve(a, v, mode), np.convolve(a, v, mode), atol=1e-13)
    np.testing.assert_allclose(mg.correlate(a, v, mode), np.correlate(a, v, mode), atol=1e-13)


@given(
    st.integers(3, 6), st.sampled_from([1, 2]), st.sampled_from(["uniform", "coordinates", "none"])
)
@settings(max_examples=30)
def test_gradient_is_numpys(n, edge_order, spacing):
    x = RNG.standard_normal((3, n))
    steps = {"uniform": (0.3,), "coordinates": (np.cumsum(RNG.uniform(0.1, 1, n)),), "none": ()}
    options = {"axis": 1, "edge_order": edge_order}
    ours = mg.gradient(x, *steps[spacing], **options)
    np.testing.assert_allclose(ours, np.gradient(x, *steps[spacing], **options), rtol=1e-10)


def test_the_gradients_along_several_axes_are_a_tuple_as_numpys():
    x = RNG.standard_normal((3, 4))
    ours, theirs = np.gradient(mg.tensor(x)), np.gradient(x)
    assert type(ours) is type(theirs) is tuple
    for y, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("step", [0.5 + 1j, np.array([0, 1j, 1 + 2j, 4])], ids=["one", "each"])
def test_gradient_takes_complex_steps(step):
    x = RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))
    ours = mg.gradient(mg.tensor(x), step, axis=1)
    np.testing.assert_allclose(ours.numpy(), np.gradient(x, step, axis=1), rtol=1e-12)
    of_real = mg.gradient(mg.tensor(x.real), step, axis=1)  # NumPy keeps the real part alone
    np.testing.assert_allclose(of_real.numpy(), np.gradient(x.real + 0j, step, axis=1), rtol=1e-12)


def test_the_gradient_of_a_parabola_is_exact_inside_for_unequal_steps():
    t = np.array([0.0, 0.1, 0.5, 2.0])
    np.testing.assert_allclose(mg.gradient(t**2, t)[1:-1], 2 * t[1:-1], rtol=1e-12)


@given(st.lists(st.floats(-6, 6), min_size=1, max_size=8), st.booleans())
@settings(max_examples=60)
def test_interp_is_numpys(points, periodic):
    xp, fp = np.array([-2.0, -0.5, 1.0, 2.5]), RNG.standard_normal(4)
    period = 5.0 if periodic else None
    x = np.array(points)
    np.testing.assert_allclose(
        mg.interp(x, xp, fp, period=period), np.interp(x, xp, fp, period=period), atol=1e-12
    )


def test_interp_has_gradients_in_all_three_arguments():
    x, xp = np.array([-1.0, 0.3, 1.7, 9.0]), np.array([0.0, 1.0, 2.5, 4.0])
    assert gradcheck(mg.interp, (x, xp, RNG.standard_normal(4)))
    assert gradgradcheck(mg.interp, (x, xp, RNG.standard_normal(4)))


@pytest.mark.parametrize("period", [4.0, -4.0])
def test_interp_counts_places_modulo_the_size_of_the_period(period):
    args = np.array([0.3, 5.0, -1.0]), np.array([1.0, 0.2, 3.0]), np.array([1.0, 2.0, 3.0])
    y = mg.interp(*map(mg.tensor, args), period=period)
    np.testing.assert_allclose(y.numpy(), np.interp(*args, period=period), rtol=1e-14)


def test_interp_refuses_a_period_of_0():
    with pytest.raises(ValueError, match="period is a length that is not 0"):
        mg.interp(np.ones(1), [0.0, 1.0], [0.0, 1.0], period=0)


@pytest.mark.parametrize("narrow", [(0, 2), (1, 2), (0, 1)])
def test_interp_of_float16_beside_float64_is_numpys_to_the_last_digits(narrow):
    args = [np.array([0.1, 0.7, 1.3]), np.array([0.0, 0.9, 2.0]), np.array([3.1, 40.3, 7.7])]
    args = [a.astype(np.float16) if i in narrow else a for i, a in enumerate(args)]
    np.testing.assert_allclose(mg.interp(*map(mg.tensor, args)), np.interp(*args), rtol=1e-14)


def test_interp_refuses_complex_places_as_numpy_does():
    with pytest.raises(TypeError, match="x complex128 and xp float64 must be real"):
        mg.interp(np.array([1j]), [0.0, 1.0], [0.0, 1.0])


@pytest.mark.parametrize("axis", [0, 1])
def test_trapezoid_is_numpys_and_differentiable_in_x(axis):
    y, x = RNG.standard_normal((3, 4)), np.cumsum(RNG.uniform(0.1, 1, (3, 4)[axis]))
    np.testing.assert_allclose(mg.trapezoid(y, x, axis=axis), np.trapezoid(y, x, axis=axis))
    assert gradcheck(lambda y, x: mg.trapezoid(y, x, axis=axis), (y, x))


def test_diff_prepend_of_a_number_keeps_the_dtype():
    assert mg.diff(mg.tensor(np.ones(3, np.float32)), prepend=0.0).dtype == np.float32


def test_unwrap_passes_its_gradient_on():
    p = mg.tensor(np.array([0.0, 3.0, -3.0, 0.5]), requires_grad=True)
    y = mg.unwrap(p)
    np.testing.assert_array_equal(y.numpy(), np.unwrap(p.numpy()))
    g = np.arange(4.0)
    np.testing.assert_array_equal(mg.grad(y, p, g).numpy(), g)


def test_polyval_gradients_are_powers_and_slopes():
    p, x = mg.tensor([2.0, 3.0, 5.0], requires_grad=True), mg.tensor(0.0, requires_grad=True)
    gp, gx = mg.grad(mg.polyval(p, x), [p, x])
    np.testing.assert_array_equal(gp.numpy(), [0.0, 0.0, 1.0])
    assert gx.item() == 3.0


def test_cross_of_parallel_vectors_is_zero_with_a_gradient():
    a = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = mg.cross(a, 2 * np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(y.numpy(), 0.0)
    assert np.abs(mg.grad(y, a, np.array([1.0, 0, 0])).numpy()).sum() > 0


def test_long_vectors_are_convolved_without_a_matrix_of_windows():
    a, v = (mg.tensor(RNG.standard_normal(20_000), requires_grad=True) for _ in range(2))
    saved = [x for x in mg.convolve(a, v).node.saved if isinstance(x, np.ndarray)]
    assert sum(x.nbytes for x in saved) == a.nbytes + v.nbytes


def test_coordinates_may_be_whole_numbers_without_a_sign():
    y, x = np.array([1.0, 2.0, 4.0, 1.0]), np.array([0, 3, 1, 5], np.uint8)
    np.testing.assert_allclose(
        mg.gradient(mg.tensor(y), x).numpy(), np.gradient(y, x.astype(float))
    )


def test_no_difference_leaves_the_array_without_its_edges():
    y = mg.diff(mg.tensor([1.0, 2.0]), n=0, prepend=mg.tensor([0.0]))
    np.testing.assert_array_equal(y.numpy(), [1.0, 2.0])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("x", [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("fp", [[-np.inf, 1, 2], [0, np.inf, np.inf], [0, 5, -np.inf]])
def test_interp_beside_an_infinite_value_is_numpys(x, fp):
    y = mg.interp(x, [0.0, 1.0, 2.0], mg.tensor(fp))
    np.testing.assert_array_equal(y.numpy(), np.interp(x, [0, 1, 2], fp))


def test_one_array_of_coordinates_is_not_for_two_axes():
    x = mg.ones((5, 5))
    with pytest.raises(ValueError, match="one array of coordinates is of one axis"):
        mg.gradient(x, np.arange(5.0))
    assert mg.gradient(x, np.arange(5.0), axis=0).shape == (5, 5)


@pytest.mark.parametrize("dtype", ["bool", "uint32", "uint64", "float16"])
def test_correlating_with_bool_keeps_the_other_dtype(dtype):
    a, v = np.ones(3, dtype), np.ones(2, bool)
    y, expected = np.correlate(mg.tensor(a), mg.tensor(v)), np.correlate(a, v)
    assert y.dtype == expected.dtype and np.array_equal(y.numpy(), expected)


@pytest.mark.parametrize("dtype", ["int32", "bool", "float32"])
@pytest.mark.parametrize("number", [1.5, 1, 2j])
def test_a_number_beside_the_differences_is_not_cut_off(dtype, number):
    x = np.array([1, 0]).astype(dtype)
    y = mg.diff(mg.tensor(x), prepend=number)
    assert y.dtype == (x + number).dtype and y.tolist() == [1 - number, -1]


def test_a_polynomial_at_a_number_has_a_gradient_in_its_coefficients():
    p = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for x in (2, 2.0, np.float64(2)):
        assert mg.grad(mg.polyval(p, x), p).tolist() == [4, 2, 1]


def test_coefficients_that_are_a_number_are_refused():
    with pytest.raises(ValueError, match="must be a vector, got shape"):
        mg.polyval(2.0, mg.ones(3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_cross_product_of_parallel_16_bit_vectors_is_0(dtype):
    a = mg.tensor([300.0, 302.0, 304.0], dtype=dtype)
    assert mg.cross(a, a).tolist() == [0, 0, 0]
    assert mg.cross(a, -2 * a).tolist() == [0, 0, 0]


def test_unwrapping_16_bit_angles_does_not_add_up_roundings():
    angles = mg.tensor(np.arange(0, 60, 5.0), dtype="float16")
    expected = np.unwrap(np.arange(0, 60, 5.0))
    np.testing.assert_allclose(mg.unwrap(angles).numpy(), expected, atol=4e-3)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 60000.0), ("float32", 2.0)])
def test_interpolation_passes_between_numbers_far_apart(dtype, size):
    fp = mg.tensor([-size, size], dtype=dtype)
    y = mg.interp(mg.tensor([0.25], dtype=dtype), mg.tensor([0.0, 1.0], dtype=dtype), fp)
    assert y.dtype == dtype and y.tolist() == [-size / 2]


def test_complex_samples_are_interpolated_part_by_part():
    x, fp = np.array([-1, 0.0, 0.5, 1.5, 3]), np.array([np.inf + 1j, 2 + 2j, 3 - np.inf * 1j])
    for options in ({}, {"left": 5j, "right": 1.0}, {"period": 2.5}):
        y, expected = (np.interp(v, [0, 1, 2], fp, **options) for v in (mg.tensor(x), x))
        np.testing.assert_array_equal(y.numpy(), expected)
