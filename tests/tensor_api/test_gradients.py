"""mg.gradients, the map from tensors to gradients."""

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import minigrad as mg
from minigrad.tensor_api.gradients import gradients

pytestmark = pytest.mark.promise(
    "a store of gradients adds, copies and detaches; a call's own hook hears each leaf's "
    "gradient in every engine"
)


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


ENGINES = ["serial", "parallel", "tape"]


def of_engine(engine, scale=1.0):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with mg.Tape() as tape:
        h = x * w
        y = (h * scale).sum()
    return x, w, h, gradients(y, engine=tape if engine == "tape" else engine)


def test_an_empty_store_is_filled():
    x, h = leaf([1.0, 2.0]), leaf([1.0]) * 2
    store = mg.GradStore()
    assert len(store) == 0 and not store and x not in store
    store[h] = mg.tensor([5.0])
    store[x] = np.array([1.0, 1.0])
    store.add(x, mg.tensor([1.0, 2.0]))
    assert store[x].tolist() == [2, 3] and store[h].tolist() == [5]
    assert [id(t) for t in store] == [id(x), id(h)]
    assert {id(t) for t in mg.GradStore(store)} == {id(x), id(h)}
    assert mg.GradStore([(x, np.ones(2))])[x].tolist() == [1, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_is_made_empty(engine):
    x, w, h, store = of_engine(engine)
    del store[w]
    assert w not in store and store.pop(x).tolist() == [3, 4] and h in store and len(store) == 0
    store.clear()
    assert h not in store
    with pytest.raises(KeyError, match="had no part"):
        del store[x]


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_are_added(engine):
    x, w, h, one = of_engine(engine)
    other = gradients((x * 10).sum())
    both = one + other
    assert (
        both[x].tolist() == [13, 14] and both[w].tolist() == [1, 2] and both[h].tolist() == [1, 1]
    )
    assert one[x].tolist() == [3, 4] and other[x].tolist() == [10, 10]
    same = one
    one += other
    assert one is same and one[x].tolist() == [13, 14] and one[h].tolist() == [1, 1]
    assert sum([other, other], mg.GradStore())[x].tolist() == [20, 20]
    assert (
        (other + {x: mg.ones(2)})[x].tolist() == ({x: mg.ones(2)} + other)[x].tolist() == [11, 11]
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_micro_batches_add_up_to_the_batch(engine):
    rng = np.random.default_rng(0)
    w, data = leaf(rng.normal(size=3)), rng.normal(size=(8, 3))

    def loss(rows):
        with mg.Tape() as tape:
            y = mg.tanh(mg.tensor(rows) @ w).mean()
        return gradients(y, engine=tape if engine == "tape" else engine)

    store = mg.GradStore()
    for rows in np.split(data, 4):
        store += loss(rows)
    np.testing.assert_allclose((store / 4)[w].data, loss(data)[w].data, rtol=1e-12)


@pytest.mark.parametrize("factor", [2, 2.0, np.float64(2), np.int64(2)])
def test_a_store_is_scaled_in_its_own_dtype(factor):
    x = mg.tensor(np.ones(2, "float32"), requires_grad=True)
    store = gradients((x * 3).sum())
    for scaled in (store * factor, factor * store):
        assert scaled[x].tolist() == [6, 6] and scaled[x].dtype == np.float32
    assert (store / factor)[x].dtype == np.float32 and store[x].tolist() == [3, 3]
    with pytest.raises(TypeError):
        store * "2"


def test_sums_and_copies_share_no_memory():
    x, w, _, store = of_engine("serial")
    other = gradients((w * 2).sum())
    for new in (store.copy(), copy.copy(store), store + other, other + store, 1 * store):
        arrays = [g.data for s in (store, other, new) for g in s._found.values()]
        assert not any(np.shares_memory(a, b) for a in arrays for b in arrays if a is not b)
    store.add(x, store[x])
    empty = mg.GradStore()
    empty += store
    assert not np.shares_memory(empty[x].data, store[x].data)


def test_a_recorded_store_is_made_constant():
    x = leaf([2.0])
    store = gradients((x**3).sum(), create_graph=True)
    constant = store.detach()
    assert constant[x].tolist() == store[x].tolist() == [12]
    assert store[x].requires_grad and not constant[x].requires_grad
    assert np.shares_memory(store[x].data, constant[x].data)
    doubled = store + store
    assert mg.grad(doubled[x].sum(), x, retain_graph=True).tolist() == [24]
    assert mg.grad(store.copy()[x].sum(), x).tolist() == [12]


def test_what_does_not_fit_is_refused():
    x, store = leaf([1.0, 2.0]), mg.GradStore()
    for wrong in (mg.ones(3), mg.tensor([1, 2]), np.ones(2, "float32")):
        with pytest.raises(ValueError, match="a gradient is like its tensor"):
            store[x] = wrong
        with pytest.raises(ValueError, match="a gradient is like its tensor"):
            store.add(x, wrong)
    with pytest.raises(TypeError, match="does not require a gradient"):
        store[mg.zeros(2)] = mg.zeros(2)
    with pytest.raises(TypeError, match="the keys are tensors"):
        store["x"] = mg.zeros(2)
    with pytest.raises(TypeError):
        store + 1
    assert len(store) == 0


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_store_is_copied_with_its_leaves(again):
    x, w, _, store = of_engine("serial")
    (y, v), other = again(([x, w], store))
    assert y is not x and other[y].tolist() == [3, 4] and other[v].tolist() == [1, 2]
    assert x not in other and len(other) == 2


def test_the_gradients_of_a_store_are_set_for_an_optimizer():
    x, w, _, store = of_engine("serial")
    for t, g in store.items():
        t.grad = g
    mg.optim.SGD([x, w], lr=1.0).step()
    assert x.tolist() == [-2, -2] and w.tolist() == [2, 2]
