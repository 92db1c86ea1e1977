"""Banded equations: SciPy's values, the derivatives of the whole matrix, entries outside of it."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import vmap
from minigrad.testing import gradgradcheck

linalg = pytest.importorskip("scipy.linalg", reason="SciPy is not installed")
rng = np.random.default_rng(0)
BANDS = [(1, 1), (0, 2), (2, 0), (2, 1), (0, 0)]


def band(lower, upper, n, kind="f"):
    ab = rng.standard_normal((lower + upper + 1, n))
    ab = ab + 1j * rng.standard_normal(ab.shape) if kind == "c" else ab
    ab[upper] += 4
    return ab


def dense(ab, lower, upper):
    """The matrix itself, as a function of its diagonals."""
    n = ab.shape[-1]
    return sum(
        mg.diag(ab[r, max(d, 0) : n + min(d, 0)], k=d)
        for r, d in enumerate(range(upper, -lower - 1, -1))
    )


@pytest.mark.parametrize("kind", "fc")
@pytest.mark.parametrize(("lower", "upper"), BANDS)
def test_the_solution_is_scipys(lower, upper, kind):
    ab, b = band(lower, upper, 6, kind), rng.standard_normal((6, 2))
    ours = mg.linalg.solve_banded((lower, upper), mg.tensor(ab), b)
    np.testing.assert_allclose(ours.numpy(), linalg.solve_banded((lower, upper), ab, b), rtol=1e-12)


@pytest.mark.parametrize("kind", "fc")
@pytest.mark.parametrize(("lower", "upper"), BANDS)
def test_gradients_are_those_of_the_whole_matrix(lower, upper, kind):
    ab = mg.tensor(band(lower, upper, 6, kind), requires_grad=True)
    b = mg.tensor(rng.standard_normal((6, 2)), requires_grad=True)
    weights = rng.standard_normal((6, 2))

    def gradients(y):
        return mg.grad((abs(y * weights) ** 2).sum(), [ab, b])

    ours = gradients(mg.linalg.solve_banded((lower, upper), ab, b))
    theirs = gradients(mg.linalg.solve(dense(ab, lower, upper), b))
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_second_derivatives_hold():
    args = mg.tensor(band(2, 1, 5)), mg.tensor(rng.standard_normal(5))
    assert gradgradcheck(lambda ab, b: mg.linalg.solve_banded((2, 1), ab, b), args)


def test_entries_outside_of_the_matrix_are_not_read_and_have_no_gradient():
    ab = band(1, 2, 5)
    outside = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], bool)
    expected = linalg.solve_banded((1, 2), ab, np.ones(5))
    x = mg.tensor(np.where(outside, np.nan, ab), requires_grad=True)
    y = mg.linalg.solve_banded((1, 2), x, np.ones(5))
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-14)
    np.testing.assert_array_equal(x.grad.numpy()[outside], 0)
    assert (x.grad.numpy()[~outside] != 0).all()


def test_no_whole_matrix_is_made_forwards_or_backwards():
    n = 200_000  # of which n × n numbers would be 320 GB
    ab = mg.tensor(band(1, 1, n), requires_grad=True)
    mg.linalg.solve_banded((1, 1), ab, np.ones(n)).sum().backward()
    assert ab.grad.shape == (3, n) and np.isfinite(ab.grad.numpy()).all()


def test_examples_of_vmap_are_solved_one_by_one():
    abs_, b = np.stack([band(1, 1, 4) for _ in range(3)]), rng.standard_normal(4)
    ys = vmap(lambda ab: mg.linalg.solve_banded((1, 1), ab, b))(mg.tensor(abs_))
    for ab, y in zip(abs_, ys.numpy(), strict=True):
        np.testing.assert_allclose(y, linalg.solve_banded((1, 1), ab, b), rtol=1e-12)


def test_lists_and_whole_numbers_are_taken():
    y = mg.linalg.solve_banded((1, 1), [[0, 1, 1], [4, 4, 4], [1, 1, 0]], [1, 2, 3])
    np.testing.assert_allclose(y, np.linalg.solve([[4, 1, 0], [1, 4, 1], [0, 1, 4]], [1, 2, 3]))
