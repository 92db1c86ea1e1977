"""mg.gradients, the map from tensors to gradients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.gradients import gradients


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_every_tensor_behind_the_loss_has_its_gradient():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    h = x * w
    y = (h * h).sum()
    found = gradients(y)
    assert found[y].item() == 1
    assert found[h].tolist() == [6, 16]
    assert found[x].tolist() == [18, 64] and found[w].tolist() == [6, 32]
    assert x.grad is None and w.grad is None and h.grad is None


def test_several_roots_and_seeds_add_up():
    x = leaf([1.0, 2.0])
    a, b = x * 2, x * 3
    found = gradients([a, b], [np.array([1.0, 0.0]), np.array([0.0, 10.0])])
    assert found[x].tolist() == [2, 30]


def test_an_unused_tensor_is_a_key_error_or_none():
    x, unused = leaf([1.0]), leaf([2.0])
    found = gradients((x * 2).sum())
    assert found.get(unused) is None and unused not in found and x in found
    with pytest.raises(KeyError, match="had no part"):
        found[unused]
    with pytest.raises(KeyError, match="does not require a gradient"):
        found[mg.zeros(1)]


def test_the_gradients_share_no_memory():
    x = leaf([1.0, 2.0])
    h = x + 1
    k = h + 2
    found = gradients(k, np.ones(2))
    arrays = [found[t].data for t in (x, h, k)]
    assert not any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b)


def test_each_output_of_an_op_has_its_own():
    x = leaf([1.0, 2.0])
    a, b = mg.split(x, 2)
    found = gradients((a * 3).sum())
    assert found[a].tolist() == [3] and b not in found and found[x].tolist() == [3, 0]


def test_they_can_be_differentiated():
    x = leaf([2.0])
    g = gradients((x**3).sum(), create_graph=True)[x]
    assert mg.grad(g.sum(), x).tolist() == [12]
