"""What a dump keeps of an array: norm, finiteness, the numbers of a small one."""

import math

import numpy as np
import pytest

from minigrad.instrument.numbers import (
    SMALL,
    arrived,
    histogram,
    norm,
    not_finite,
    owner,
    small_values,
)


def test_the_norm_is_formed_in_double_precision():
    assert norm(np.full(4, 30_000, np.float16)) == (60_000.0, None)


def test_the_norm_of_several_cotangents_is_that_of_all_their_entries():
    assert norm([np.array([3.0]), None, np.array([4.0])]) == (5.0, None)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_norm_of_huge_and_tiny_cotangents_is_theirs(scale):
    size, word = norm([np.array([3.0, 0.0]) * scale, np.array([4.0]) * scale, np.zeros(2)])
    assert (size, word) == (pytest.approx(5 * scale), None)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_norm_that_is_not_finite_is_a_word(bad, word):
    assert norm(np.array([1.0, bad])) == (None, word)


def test_numbers_are_kept_row_by_row_up_to_sixteen():
    assert small_values(np.array([[1, 2], [3, 4]], np.float32)) == [1.0, 2.0, 3.0, 4.0]
    assert small_values(np.zeros(SMALL)) is not None
    assert small_values(np.zeros(SMALL + 1)) is None


def test_what_json_cannot_say_is_a_word():
    values = small_values(np.array([math.nan, math.inf, -math.inf]))
    assert values == ["nan", "inf", "-inf"]


@pytest.mark.parametrize("x", [np.zeros(0), np.zeros(2, complex), np.array(["a"]), None, 3.0])
def test_what_is_not_a_small_real_array_has_no_numbers(x):
    assert small_values(x) is None


def test_a_contribution_arrives_in_its_parents_shape_and_dtype():
    c = arrived(np.ones((5, 2, 3), complex), (2, 1), np.dtype(np.float32))
    assert c.dtype == np.float32
    np.testing.assert_array_equal(c, [[15.0], [15.0]])


def test_a_contribution_smaller_than_its_parent_arrives_broadcast():
    np.testing.assert_array_equal(arrived(np.array(2.0), (3,), np.dtype(float)), [2.0, 2.0, 2.0])


def test_sixteen_bit_contributions_are_summed_in_float32():
    c = arrived(np.ones((4096, 1), np.float16), (1,), np.dtype(np.float16))
    assert c.dtype == np.float16 and c[0] == 4096


def test_a_view_has_the_owner_of_its_memory():
    x = np.zeros((4, 4))
    assert owner(x[1:, ::2].T) is owner(x) is not owner(x.copy())


def test_a_histogram_counts_every_finite_number_in_bins_of_one_width():
    x = np.concatenate([np.repeat(np.arange(24), 10), [np.nan, np.inf]]).astype(np.float32)
    found = histogram(x)
    assert (found["least"], found["most"]) == (0.0, 23.0)
    assert found["counts"] == [10] * 24


def test_a_histogram_of_a_large_array_sees_each_column():
    x = np.zeros((1 << 10, 1 << 10))
    x[:, 5] = 1.0
    found = histogram(x)
    assert sum(found["counts"]) <= 65_536
    assert abs(found["counts"][-1] / sum(found["counts"]) - 1 / 1024) < 2e-4


def test_few_numbers_and_texts_have_no_histogram():
    assert histogram(np.ones(16)) is None
    assert histogram(np.full(20, np.nan)) is None


def test_what_is_not_finite_is_told_nan_before_inf():
    assert not_finite(np.array([1.0, np.inf])) == "inf"
    assert not_finite(np.array([np.nan, np.inf])) == "nan"
    assert not_finite(np.array([1, 2])) is None
