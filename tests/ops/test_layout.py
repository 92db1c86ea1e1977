"""Grids, blocks, powers and quarter turns: NumPy's values, recorded."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck


def leaf(x):
    return mg.tensor(x, requires_grad=True)


@pytest.mark.parametrize("options", [{}, {"indexing": "ij"}, {"sparse": True}, {"copy": False}])
def test_meshgrid_is_numpys(options):
    xs = np.arange(3.0), np.arange(2.0), np.arange(4.0)
    for ours, theirs in zip(mg.meshgrid(*xs, **options), np.meshgrid(*xs, **options), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_grid_gives_its_gradient_back_along_the_other_axes():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0, 5.0])
    grid_x, grid_y = mg.meshgrid(x, y)
    gx, gy = mg.grad((grid_x * grid_y).sum(), [x, y])
    np.testing.assert_array_equal(gx.numpy(), 12.0)
    np.testing.assert_array_equal(gy.numpy(), 3.0)


@pytest.mark.parametrize(
    "nested",
    [
        [[np.ones((2, 2)), np.zeros((2, 3))], [np.ones((1, 2)), np.zeros((1, 3))]],
        [np.ones(2), 5.0, np.zeros(3)],
        [[[1.0, 2.0]], [[3.0, 4.0]]],
        np.ones(3),
    ],
)
def test_block_is_numpys(nested):
    np.testing.assert_array_equal(mg.block(nested), np.block(nested))


def test_blocks_of_tensors_are_recorded():
    a, b = leaf(np.ones((2, 2))), leaf(np.ones((2, 1)))
    y = np.block([[a, b]])
    ga, gb = mg.grad(y, [a, b], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(ga.numpy(), [[0, 1], [3, 4]])
    np.testing.assert_array_equal(gb.numpy(), [[2], [5]])


def test_lists_of_different_depth_are_refused():
    with pytest.raises(ValueError, match="nest equally deep"):
        mg.block([[np.ones(2)], np.ones(2)])


@pytest.mark.parametrize("k", range(-1, 5))
def test_rot90_is_numpys(k):
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(mg.rot90(x, k), np.rot90(x, k))
    np.testing.assert_array_equal(mg.rot90(x, k, axes=(2, 0)), np.rot90(x, k, axes=(2, 0)))


@pytest.mark.parametrize("options", [{}, {"N": 4}, {"N": 2, "increasing": True}, {"N": 0}])
def test_vander_is_numpys(options):
    x = np.array([0.0, 1.5, -2.0])
    np.testing.assert_allclose(mg.vander(x, **options), np.vander(x, **options), rtol=1e-14)


def test_vander_has_no_negative_number_of_columns():
    with pytest.raises(ValueError, match="N=-1"):
        mg.vander(np.ones(3), -1)


def test_vander_is_differentiable_at_zero():
    assert gradcheck(lambda x: mg.vander(x, 4), (np.array([0.0, 0.5]),))


def test_a_quarter_turn_needs_two_axes():
    for axes in ((0,), (0, 1, 0), 1):
        with pytest.raises(ValueError, match="rot90: axes must be two, got"):
            mg.rot90(mg.ones(3, 3), 1, axes)
