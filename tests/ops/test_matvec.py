"""Matrices times vectors: NumPy's results, complex conjugation, broadcasting."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

rng = np.random.default_rng(0)


def draw(*shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="this NumPy has no matvec")
@pytest.mark.parametrize("lead", [((), ()), ((2,), ()), ((3, 1), (2,))])
def test_numpy_means_these_ops_on_tensors(lead):
    a, x = draw(*lead[0], 3, 4), draw(*lead[1], 4)
    np.testing.assert_allclose(np.matvec(mg.tensor(a), x).numpy(), np.matvec(a, x), rtol=1e-12)
    a = a.swapaxes(-1, -2)
    np.testing.assert_allclose(np.vecmat(x, mg.tensor(a)).numpy(), np.vecmat(x, a), rtol=1e-12)


def test_both_are_differentiable_in_both_arguments():
    assert gradcheck(mg.matvec, (draw(2, 3, 4), draw(4)))
    assert gradcheck(mg.vecmat, (draw(2, 3), draw(3, 4)))


def test_lengths_that_differ_are_named():
    with pytest.raises(ValueError, match=r"matvec: a must be .* got \(2, 3\) and \(2,\)"):
        mg.matvec(np.ones((2, 3)), np.ones(2))
