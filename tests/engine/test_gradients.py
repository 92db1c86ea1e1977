"""mg.gradients, the map from tensors to gradients."""

from collections.abc import Mapping

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


def test_it_is_a_mapping_from_the_leaves_in_the_order_of_their_making():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    found = gradients((w * x).sum())
    assert isinstance(found, Mapping) and len(found) == 2
    assert [id(t) for t in found] == [id(t) for t in found.keys()] == [id(x), id(w)]
    assert [g.tolist() for g in found.values()] == [[3, 4], [1, 2]]
    assert all(g is found[t] and t in found for t, g in found.items())
    assert {id(t) for t in dict(found)} == {id(x), id(w)}
    assert found == found and found != gradients((w * x).sum()) and hash(found)


def test_what_is_no_tensor_has_no_gradient():
    found = gradients((leaf([1.0]) * 2).sum())
    assert "w" not in found and None not in found and found.get("w", 7) == 7
    with pytest.raises(KeyError, match="'w': the keys are tensors"):
        found["w"]


def test_a_leaf_that_nobody_holds_is_not_listed():
    x = leaf([1.0])
    found = gradients((x * leaf([2.0])).sum())
    assert [id(t) for t in found] == [id(x)] and len(found) == 1


@pytest.mark.parametrize("engine", ["serial", "parallel", "tape"])
def test_every_engine_lists_the_same_leaves(engine):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with mg.Tape() as tape:
        y = (w * x).sum()
    found = gradients(y, engine=tape if engine == "tape" else engine)
    assert [id(t) for t in found] == [id(x), id(w)]
