"""ravel_pytree: all leaves of a tree as one vector, and the way back."""

import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, ravel_pytree, vmap


def numbers(*shape):
    return mg.tensor(np.random.default_rng(0).normal(size=shape))


def polynomial(tree):
    w, b = tree["w"], tree["b"]
    return (w * w * w * b).sum() + b * b


def test_gradients_pass_through_the_vector_and_through_the_way_back():
    tree = {"w": numbers(3, 2), "b": mg.tensor(2.0)}
    vector, unravel = ravel_pytree(tree)
    expected = grad(polynomial)(tree)
    np.testing.assert_allclose(
        grad(lambda v: polynomial(unravel(v)))(vector).numpy(),
        ravel_pytree(expected)[0].numpy(),
        rtol=1e-14,
    )
    again = grad(lambda tree: polynomial(unravel(ravel_pytree(tree)[0])))(tree)
    np.testing.assert_allclose(again["w"].numpy(), expected["w"].numpy(), rtol=1e-14)
    rows = vmap(lambda tree: ravel_pytree(tree)[0])({"w": numbers(4, 2), "b": numbers(4)})
    assert rows.shape == (4, 3)


def test_a_vector_of_another_length_is_no_such_tree():
    _, unravel = ravel_pytree({"w": mg.ones(2)})
    with pytest.raises(ValueError, match=r"unravel: the vector must be \(2,\), got \(3,\)"):
        unravel(mg.ones(3))


def test_the_way_back_keeps_no_leaf_alive():
    w = mg.ones(2)
    leaf = weakref.ref(w)
    vector, unravel = ravel_pytree([w, mg.zeros(1)])
    del w
    assert leaf() is None
    assert [x.tolist() for x in unravel(vector)] == [[1, 1], [0]]
