"""Hooks: what they see, what they may change, in which order, and that they leave no trace."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import graph, modes
from minigrad.errors import HookError
from minigrad.modes import hooks

pytestmark = pytest.mark.promise(
    "hooks see the total once, in a stated order; the leaf-ready hook fires early"
)

multi_grad = hooks.register_multi_grad_hook


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_a_tensor_hook_sees_the_total_once():
    x, seen = leaf([1.0, 2.0]), []
    h = x * 1
    h.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: seen.append(g.tolist()))
    (h * 2 + h * 3).sum().backward()
    assert seen == [[5, 5], [5, 5]]


def test_a_tensor_hook_may_replace_the_gradient():
    x = leaf([1.0])
    h = x * 2
    h.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    h.sum().backward()
    assert x.grad.tolist() == [21]
    assert mg.grad((x * 2).sum(), x).tolist() == [3]


@pytest.mark.parametrize("bad", [np.ones(3), 1.0, 1j * np.ones(2)])
def test_a_replacement_that_does_not_fit_is_refused(bad):
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: bad)
    with pytest.raises(HookError, match=r"in place of a gradient float64 \(2,\)"):
        x.sum().backward()


def test_a_hook_cannot_write_into_the_gradient_it_is_shown():
    a, b = leaf([1.0]), leaf([1.0])
    y = a + b
    y.register_hook(lambda g: g.zero_())
    with pytest.raises(ValueError, match="read-only"):
        y.sum().backward()


def test_a_hook_may_keep_the_gradient():
    x, kept = leaf([1.0, 2.0]), []
    h = x * 1
    h.register_hook(kept.append)
    (h + h).sum().backward()
    (h.detach() * x).sum().backward()
    assert kept[0].tolist() == [2, 2]


def test_the_order_is_the_stated_one():
    x, order = leaf([1.0]), []
    h = x * 2
    x.register_leaf_ready_hook(lambda leaf: order.append("ready"))
    x.register_post_accumulate_grad_hook(lambda leaf: order.append("accumulated"))
    multi_grad([x], lambda gs: order.append("multi"))
    x.register_hook(lambda g: order.append("first"))
    x.register_hook(lambda g: order.append("second"))
    h.grad_fn.register_hook(lambda inputs, outputs: order.append("node"))
    h.grad_fn.register_prehook(lambda outputs: order.append("prenode"))
    h.register_hook(lambda g: order.append("inner"))
    for _ in range(2):
        order.clear()
        h.sum().backward(retain_graph=True)
        assert order == [
            "inner", "prenode", "node", "first", "second", "multi", "accumulated", "ready",
        ]  # fmt: skip


def test_retain_grad_keeps_what_the_hooks_have_made_of_it():
    x = leaf([1.0])
    h = x * 2
    h.retain_grad()
    h.retain_grad()
    h.register_hook(lambda g: g * 3)
    assert h.retains_grad and not x.retains_grad
    h.sum().backward(retain_graph=True)
    assert h.grad.tolist() == [3]
    h.sum().backward()
    assert h.grad.tolist() == [6]


def test_post_accumulate_sees_the_updated_gradient_and_may_step():
    x = leaf([1.0])

    def step(leaf):
        with mg.no_grad():
            leaf -= leaf.grad
        leaf.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 0.25).sum().backward()
    assert x.tolist() == [0.75] and x.grad is None


@pytest.mark.parametrize("engine", ["serial", "parallel"])
def test_what_a_post_accumulate_hook_returns_is_refused_rather_than_lost(engine):
    x = leaf([1.0, 2.0])
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad * 2)
    with pytest.raises(HookError, match=r"change the leaf's \.grad, or give register_hook"):
        (x * 2).sum().backward(engine=engine)


def test_node_hooks_see_and_replace_both_sides():
    a, b = leaf([1.0]), leaf(np.ones((3, 1)))
    y = a * b
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + outputs[0].sum(), None))
    y.backward(np.ones((3, 1)))
    assert a.grad.tolist() == [12] and b.grad.tolist() == [[2], [2], [2]]


def test_node_hooks_of_one_output_see_none_for_the_unused_one():
    x, seen = leaf([1.0, 2.0, 3.0, 4.0]), []
    op = mg.primitive(lambda x: (x[:2] * 1, x[2:] * 1), name="two_halves", outputs=2)
    op.vjp("x")(lambda g, x: np.concatenate([g[0], 0 * x[2:]]))
    a, _ = op(x)
    a.grad_fn.register_prehook(lambda outputs: seen.append([g is None for g in outputs]))
    a.sum().backward()
    assert seen == [[False, True]]


def test_a_multi_grad_hook_runs_once_when_all_are_there():
    x, w, other, seen = leaf([1.0]), leaf([2.0]), leaf([3.0]), []
    multi_grad([x, w, other], lambda gs: seen.append([g and g.item() for g in gs]))
    for _ in range(2):
        (x * w).sum().backward()
    assert seen == [[2, 1, None]] * 2


def test_a_multi_grad_hook_of_any_takes_the_first():
    x, seen = leaf([1.0]), []
    h = x * 2
    multi_grad([x, h], lambda g: seen.append(g.item()), mode="any")
    h.sum().backward()
    assert seen == [1]


def test_a_leaf_is_ready_before_older_nodes_run():
    order = []
    early, late = leaf([1.0]), leaf([2.0])
    h = early * 3
    h.grad_fn.register_prehook(lambda outputs: order.append("older node"))
    y = h * late
    late.register_leaf_ready_hook(lambda leaf: order.append(leaf.grad.item()))
    y.sum().backward()
    assert order == [3, "older node"]


def test_a_leaf_without_a_gradient_is_ready_too():
    x, seen = leaf([1.0]), []
    op = mg.primitive(lambda x: x * 0, name="gives_no_gradient")
    op.vjp("x")(lambda g: None)
    x.register_leaf_ready_hook(lambda leaf: seen.append(leaf.grad))
    op(x).sum().backward()
    assert seen == [None]


def test_handles_remove_also_as_context_managers():
    x, seen = leaf([1.0]), []
    before = graph.hook_count
    with x.register_hook(seen.append):
        x.sum().backward()
    handle = x.register_hook(seen.append)
    handle.remove()
    handle.remove()
    x.sum().backward()
    assert len(seen) == 1 and graph.hook_count == before


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_the_handle_of_a_copied_tensor_has_nothing_to_remove(clone):
    layer = mg.nn.Linear(2, 1)
    layer.handle = layer.weight.register_hook(lambda g: 10 * g)
    registered = graph.hook_count
    twin = clone(layer)
    twin.handle.remove()
    assert graph.hook_count == registered  # else backwards would no longer look for hooks
    for model, factor in ((layer, 10), (twin, 1)):
        model(mg.ones(2, dtype="float32")).sum().backward()
        assert model.weight.grad.tolist() == [[factor, factor]]


def test_a_shallow_copy_of_a_handle_removes_the_same_hook_once():
    x, registered = leaf([1.0]), graph.hook_count
    handle = x.register_hook(lambda g: 10 * g)
    for one in (handle, copy.copy(handle)):
        one.remove()
    x.sum().backward()
    assert graph.hook_count == registered and x.grad.tolist() == [1]


def test_a_hook_may_remove_itself_and_add_others():
    x, seen = leaf([1.0]), []

    def first(g):
        seen.append("first")
        handle.remove()
        x.register_hook(lambda g: seen.append("added"))

    handle = x.register_hook(first)
    x.register_hook(lambda g: seen.append("second"))
    x.sum().backward()
    assert seen == ["first", "second"]
    x.sum().backward()
    assert seen == ["first", "second", "second", "added"]


def test_hooks_are_part_of_a_recorded_backward():
    x = leaf([2.0])
    y = x**2
    y.register_hook(lambda g: g * x)  # dL/dx = 2x·x
    g = mg.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [8]
    assert mg.grad(g.sum(), x).tolist() == [8]


def test_hooks_run_only_where_a_gradient_is_computed():
    x, w, seen = leaf([1.0]), leaf([2.0]), []
    x.register_hook(lambda g: seen.append("x"))
    w.register_hook(lambda g: seen.append("w"))
    w.register_leaf_ready_hook(lambda leaf: seen.append("ready"))
    mg.grad((x * w).sum(), w)
    assert seen == ["w"]


def test_a_constant_and_an_inner_tensor_are_told_what_to_do():
    with pytest.raises(HookError, match="does not require a gradient"):
        mg.zeros(2).register_hook(print)
    with pytest.raises(HookError, match="is for leaves"):
        (leaf([1.0]) * 2).register_leaf_ready_hook(print)


def test_a_tensor_that_is_frozen_for_a_while_keeps_its_hooks():
    x, seen = leaf([1.0, 2.0]), []
    handle = x.register_hook(lambda g: seen.append("total"))
    x.register_leaf_ready_hook(lambda leaf: seen.append("ready"))
    x.requires_grad = False
    (x * leaf([3.0, 4.0])).sum().backward()
    assert seen == []
    x.requires_grad = True
    (x * 2).sum().backward()
    assert seen == ["total", "ready"]
    handle.remove()
    (x * 2).sum().backward()
    assert seen == ["total", "ready", "ready"]


def test_a_graph_from_before_a_tensor_was_frozen_knows_it_again():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    x.requires_grad_(False).requires_grad_(True)
    assert mg.grad(y, x).tolist() == [2, 4]


def test_what_is_kept_of_a_frozen_tensor_goes_with_it():
    x = leaf([1.0, 2.0])
    seen = weakref.ref(x.node)
    x.requires_grad = False
    assert seen() is not None
    del x
    assert seen() is None


def test_hooks_make_no_reference_cycles():
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0])
        h = x * 2
        h.retain_grad()
        handle = h.register_hook(lambda g: g * 2)
        multi_grad([x, h], lambda gs: None)
        h.grad_fn.register_hook(lambda inputs, outputs: None)
        h.sum().backward()
        node, vertex = weakref.ref(h.node), weakref.ref(x.node)
        del x, h
        assert node() is None and vertex() is None
        handle.remove()
    finally:
        gc.enable()


def test_what_a_hook_changes_in_place_is_noticed_in_the_same_backward():
    x, w = leaf([1.0]), mg.tensor([3.0])
    h = x * w
    y = h * 2
    y.register_hook(lambda g: w.fill_(5))
    with pytest.raises(mg.errors.InPlaceError, match="mul"):
        y.sum().backward()
    assert x.grad is None


def test_a_hook_that_is_no_function_is_refused_at_once():
    x = leaf([1.0])
    before = graph.hook_count
    for register in (x.register_hook, x.register_leaf_ready_hook, (x * 2).grad_fn.register_hook):
        with pytest.raises(TypeError, match="a hook is a function"):
            register("no function")
    with pytest.raises(TypeError, match="a hook is a function"):
        multi_grad([x], None)
    assert graph.hook_count == before


def test_a_hook_may_remove_a_later_one_which_runs_this_time_still():
    x, seen = leaf([1.0]), []
    h = x * 2
    h.register_hook(lambda g: (seen.append("first"), second.remove()) and None)
    second = h.register_hook(lambda g: seen.append("second"))
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    assert seen == ["first", "second", "first"]


def test_a_hook_may_add_one_to_a_tensor_whose_gradient_is_still_to_come():
    x, seen = leaf([1.0]), []
    h = x * 2
    k = h * 3
    k.register_hook(lambda g: h.register_hook(lambda g: seen.append(g.item())) and None)
    k.sum().backward()
    assert seen == [3]


def test_a_hook_that_raises_leaves_every_mode_and_the_leaf_as_they_were():
    x, ready = leaf([1.0]), []
    x.register_leaf_ready_hook(ready.append)
    h = x * 2
    h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        h.sum().backward()
    assert x.grad is None and not ready and modes.active == 0 and mg.is_grad_enabled()


def test_a_backward_of_the_same_graph_from_a_hook_is_an_error():
    x = leaf([1.0])
    h = x * 1
    y = h.sum()
    h.register_hook(lambda g: y.backward())
    with pytest.raises(mg.errors.GraphReleasedError):
        y.backward()


def test_retain_grad_and_hooks_stay_with_the_value_when_the_tensor_is_changed():
    """As in PyTorch: a hook belongs to the value of the moment, retain_grad to the tensor."""
    x, seen = leaf([1.0, 2.0]), []
    h = x * 2
    h.register_hook(lambda g: seen.append(g.tolist()))
    h *= 3
    h.retain_grad()
    h[0] = x[1]
    (h * h).sum().backward()
    assert seen == [[0, 72]]
    assert h.retains_grad and h.grad.tolist() == [4, 24]


def test_a_tensor_changed_in_place_keeps_one_gradient_that_of_its_last_value():
    x = leaf([1.0, 2.0])
    h = x * 2
    h.retain_grad()
    h *= 3
    h.retain_grad()
    h += 1
    with mg.no_grad():
        h *= 2
    (h * 5).sum().backward()
    assert h.grad.tolist() == [5, 5] and x.grad.tolist() == [30, 30]


def test_a_tensor_that_is_changed_does_not_take_the_retain_grad_of_another_with_it():
    x = leaf([1.0, 2.0])
    h = x * 2
    h.retain_grad()
    k = h.detach().copy()
    k *= h
    k.sum().backward()
    assert h.retains_grad and not k.retains_grad and h.grad.tolist() == [2, 4]
