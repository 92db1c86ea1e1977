"""Finite differences and the packing of arrays into one real vector."""

import numpy as np
import pytest
from hypothesis import given

import minigrad as mg
from minigrad.testing import gradcheck
from minigrad.testing import strategies as mst
from minigrad.testing.numeric import bend, coordinate, of_numbers, one_sided, pack, slope, unpack


@given(mst.arrays(mst.shapes(), mst.dtypes(complex=True)))
def test_unpack_inverts_pack(x):
    [again] = unpack(pack([x]), [x])
    assert again.dtype == x.dtype
    np.testing.assert_array_equal(again, x)


@given(mst.arrays(mst.shapes(1), "complex128"), mst.arrays((), "complex128"))
def test_the_dot_of_packed_vectors_is_the_real_inner_product(a, scale):
    b = a * scale
    assert pack([a]) @ pack([b]) == pytest.approx(np.sum(np.conj(a) * b).real, abs=1e-9)


def test_a_coordinate_is_found_again_in_its_array():
    arrays = [np.zeros(2), np.zeros((2, 3), complex)]
    assert coordinate(1, arrays) == (0, (1,), "")
    assert coordinate(2 + 2 * 4 + 1, arrays) == (1, (1, 1), "imaginary")


def test_the_stencil_is_exact_for_polynomials_of_degree_four():
    x, u = np.array([0.5]), np.array([1.0])
    s = slope(lambda x: x**4 - 2 * x**3, x, u)
    assert s.value[0] == pytest.approx(4 * 0.5**3 - 6 * 0.5**2, abs=1e-12)
    assert abs(s.change[0]) < 1e-11


def test_the_slope_of_a_smooth_function_is_good_to_ten_digits():
    x = np.linspace(-1, 1, 7)
    s = slope(np.exp, x, np.ones(7))
    np.testing.assert_allclose(s.value, np.exp(x), rtol=1e-10)


def test_the_two_steps_disagree_across_a_kink():
    s = slope(np.abs, np.array([1e-4]), np.array([1.0]))
    assert abs(s.change[0]) > 0.01


def test_one_sided_derivatives_of_the_absolute_value():
    left, right = one_sided(abs)
    assert (left, right) == pytest.approx((-1, 1))


def test_a_complex_number_is_rounded_by_its_modulus():
    like = [np.zeros(1), np.zeros(2, dtype=complex)]
    assert of_numbers(np.array([1.0, 5.0, 0.0, 2.0, 3.0]), like).tolist() == [1, 5, 5, 3, 3]


def test_the_imaginary_part_of_a_real_eigenvalue_may_have_rounding_for_a_gradient():
    matrix = np.random.default_rng(0).standard_normal((4, 4))  # two real ones and a pair
    assert gradcheck(mg.linalg.eigvals, matrix)


def test_unpack_takes_the_arrays_apart_where_a_complex_one_is_not_the_last():
    arrays = [np.array([1 + 2j, 3 - 1j]), np.array([[4.0], [5.0]]), np.array(6j)]
    for again, x in zip(unpack(pack(arrays), arrays), arrays, strict=True):
        np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize("at", [0.0, 1e-4, -2e-4])
def test_a_kink_bends_a_function_by_half_of_its_two_slopes_difference_at_least(at):
    assert 1 <= bend(lambda t: abs(t - at)) <= 8
    assert bend(np.sin) < 1e-6
