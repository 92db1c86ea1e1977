"""The inputs of mg.grad: given twice, not used, with cotangents in batches."""

import numpy as np
import pytest

import minigrad as mg


def leaf(values):
    return mg.tensor(values, requires_grad=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_input_given_twice_gets_two_gradients_that_share_no_memory(create_graph):
    x = leaf([2.0, 3.0])
    first, second = mg.grad((x * x).sum(), [x, x], create_graph=create_graph)
    assert first.tolist() == second.tolist() == [4, 6]
    assert not np.shares_memory(first.data, second.data)
    assert second.requires_grad == create_graph


def test_an_unused_input_may_be_given_zeros():
    x, w = leaf([2.0]), leaf([[1.0, 3.0]])
    gx, gw = mg.grad((x * x).sum(), [x, w], materialize_grads=True)
    assert gx.tolist() == [4] and gw.tolist() == [[0, 0]] and not gw.requires_grad


def test_zeros_for_an_unused_input_can_be_differentiated_again():
    x, a = leaf(0.5), leaf(1.0)
    g = mg.grad(x * a, x, create_graph=True)
    gg = mg.grad(g, x, create_graph=True, materialize_grads=True)
    assert gg.item() == 0 == mg.grad(gg, x, materialize_grads=True).item()


def test_a_batch_of_cotangents_is_a_vmap_of_grad():
    x = leaf([0.5, 2.0])
    y, gs = x**3, np.arange(6.0).reshape(3, 2)
    batch = mg.func.vmap(lambda g: mg.grad(y, x, g, retain_graph=True))(gs)
    np.testing.assert_allclose(batch.numpy(), gs * 3 * x.numpy() ** 2)
