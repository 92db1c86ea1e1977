"""Masks, inserted entries and choices: read and refused as NumPy and PyTorch do."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_a_mask_of_numbers_is_refused_instead_of_read_as_places(dtype):
    x, mask = mg.tensor([[1.0, 2.0], [3.0, 4.0]]), np.eye(2).astype(dtype)
    with pytest.raises(TypeError, match="masked_select: the mask must be boolean"):
        mg.masked_select(x, mask)
    with pytest.raises(TypeError, match="masked_scatter: the mask must be boolean"):
        mg.masked_scatter(x, mask, mg.tensor([8.0, 9.0]))
    assert mg.masked_select(x, mask != 0).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("obj", "values", "axis"),
    [
        ([1], [7, 8, 9], 1), ([1], [[7], [8], [9]], 1), ([1], 7, 0), (1, [7, 8, 9], 1),
        (slice(1, 2), [7, 8, 9], 1), (slice(0, 2), [7, 8], 1), ([0, 2], [7, 8], None),
        ([], [], None), ([], 7, 1), (np.array([True, False]), 7, 1), (np.array([0]), [7, 8], None),
    ],
)  # fmt: skip
def test_insert_reads_places_and_values_as_numpy_does(obj, values, axis):
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(
        mg.insert(mg.tensor(x), obj, values, axis=axis).numpy(), np.insert(x, obj, values, axis)
    )


def test_the_gradient_of_values_that_go_in_at_one_listed_place():
    rng = np.random.default_rng(0)
    gradcheck(lambda x, v: mg.insert(x, [1], v, axis=1) ** 2, (rng.random((3, 2)), rng.random(3)))


def test_numbers_among_the_choices_take_the_dtype_of_the_arrays_beside_them():
    narrow = np.array([3.0], np.float32)
    for first in (1.0, 1):
        y = mg.choose([0], (first, mg.tensor(narrow)))
        assert y.dtype == np.choose([0], (first, narrow)).dtype and y.tolist() == [1]
    with pytest.raises(ValueError, match="at least one choice"):
        mg.choose(mg.tensor([0]), [])


def test_choices_may_be_lists_of_numbers():
    choices, a = [[0.5, 1, 2], [3, 4, 5], 7], [1, 0, 2]
    assert np.choose(mg.tensor(a), choices).tolist() == np.choose(a, choices).tolist()


def test_a_mask_larger_than_what_it_is_of_is_refused_by_name():
    for fill in (mg.masked_fill, mg.masked_scatter):
        for shape in ((2, 3), (2,), (1, 3)):
            with pytest.raises(
                ValueError, match=rf"^{fill.__name__}: the mask of shape \({shape[0]}"
            ):
                fill(mg.zeros(3), mg.ones(shape, dtype=bool), mg.tensor(1.0))


def test_no_places_are_deleted():
    for nothing in ([], ()):
        assert mg.delete(mg.arange(3), nothing).tolist() == [0, 1, 2]


CONDITIONS = [
    True, [True], np.array([True, False]), [True, False], [[True, False]],
    [np.array([True, False]), np.array([False, True])], np.array([[True, False]]),
    np.array([0, 1]), [0, 1], [[0, 1]], [np.array([0.0, 2.0])], [np.array([0, 1]), [1, 0]],
]  # fmt: skip


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
@pytest.mark.parametrize("values", [[3.0], [3.0, 4.0], [3.0, 4.0, 5.0]])
def test_piecewise_reads_one_condition_as_numpy_does(conditions, values):
    for x in (np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])):
        try:
            expected = np.piecewise(x, conditions, values).tolist()
        except (ValueError, IndexError):
            continue  # a condition of another shape, which here broadcasts, or another number
        ours = (
            [mg.tensor(c) if isinstance(c, np.ndarray) else c for c in conditions]
            if isinstance(conditions, list)
            else conditions
        )
        assert np.piecewise(mg.tensor(x), ours, values).tolist() == expected


def test_resize_of_nothing_gives_zeros():
    for shape in ((2, 3), 2, (0,), ()):
        y, expected = np.resize(mg.zeros((0, 2)), shape), np.resize(np.zeros((0, 2)), shape)
        assert y.shape == expected.shape and y.tolist() == expected.tolist()


def test_what_is_put_in_or_around_has_a_place_in_the_dtype():
    x = mg.tensor([1, 2], dtype=np.int8)
    assert np.insert(x, 0, 2.7).tolist() == [2, 1, 2]
    for number in (300, 1e10):
        with pytest.raises(OverflowError):
            np.insert(x, 0, number)
        with pytest.raises(OverflowError):
            np.pad(x, 1, constant_values=number)
        with pytest.raises(OverflowError):
            np.pad(x, 1, constant_values=(0, number))
    with pytest.raises(TypeError, match="values 1j is complex, and goes into float64"):
        np.insert(mg.ones(2), 0, 1j)
    with pytest.raises(TypeError, match="constant_values 1j is complex"):
        np.pad(mg.ones(2), 1, constant_values=1j)
