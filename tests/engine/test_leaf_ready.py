"""leaf_ready=, a hook of one call: each leaf with this backward's gradient, in the middle of it."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import HookError
from minigrad.modes import hooks

pytestmark = pytest.mark.promise(
    "a store of gradients adds, copies and detaches; a call's own hook hears each leaf's "
    "gradient in every engine"
)

ENGINES = {
    "serial": {"engine": "serial"},
    "parallel": {"engine": "parallel", "workers": 2, "min_work": 0},
    "tape": {"engine": "tape"},
}


def leaf(values):
    return mg.tensor(values, requires_grad=True)


@pytest.fixture(params=ENGINES)
def engine(request):
    with mg.Tape() as tape:
        yield {**ENGINES[request.param], "tape": tape}


def options(engine):
    return {key: value for key, value in engine.items() if key != "tape"}


def test_backward_hands_over_this_gradient_and_not_the_sum(engine):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    w.grad = mg.tensor([100.0, 100.0])
    seen = {}
    mg.backward((x * w).sum(), leaf_ready=lambda t, g: seen.update({t: g}), **options(engine))
    assert seen[x].tolist() == [3, 4] and seen[w].tolist() == [1, 2]
    assert x.grad.tolist() == [3, 4] and w.grad.tolist() == [101, 102]


def test_grad_and_gradients_have_it_too(engine):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    h = x * w
    seen = []
    hear = lambda t, g: seen.append((t, g.tolist()))
    found = mg.gradients(h.sum(), retain_graph=True, leaf_ready=hear, **options(engine))
    assert sorted(g for _, g in seen) == sorted(found[t].tolist() for t in (x, w))
    seen.clear()
    mg.grad(h.sum(), [w, h], leaf_ready=hear, **options(engine))
    assert [(t is w, g) for t, g in seen] == [(True, [1, 2])]
    assert x.grad is None and w.grad is None


def test_it_comes_as_soon_as_the_gradient_is_complete(engine):
    first, last = leaf([2.0]), leaf([5.0])
    old = mg.exp(first)
    order = []
    old.register_hook(lambda g: order.append("old"))
    y = (old * last).sum()
    mg.gradients(y, leaf_ready=lambda t, _: order.append("last" if t is last else "first"),
                 **options(engine))  # fmt: skip
    assert order[-1] == "first" and set(order) == {"last", "old", "first"}
    if engine["engine"] == "serial":
        assert order == ["last", "old", "first"]


def test_the_gradient_is_the_hooks_own(engine):
    x = leaf([1.0, 2.0])

    def spoil(t, g):
        g[:] = 7

    found = mg.gradients((x * x).sum(), retain_graph=True, leaf_ready=spoil, **options(engine))
    assert found[x].tolist() == [2, 4]
    mg.backward((x * x).sum(), leaf_ready=spoil, **options(engine))
    assert x.grad.tolist() == [2, 4]


def test_it_is_what_tensor_hooks_have_made_of_it(engine):
    x, seen = leaf([1.0]), []
    x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward(leaf_ready=lambda t, g: seen.append(g.item()), **options(engine))
    assert seen == [20] and x.grad.item() == 20


def test_each_leaf_comes_once_however_often_it_is_used(engine):
    x, seen = leaf([1.0]), []
    y = sum(x * k for k in range(1, 5))
    mg.backward(y.sum(), leaf_ready=lambda t, g: seen.append(g.item()), **options(engine))
    assert seen == [10]


def test_it_is_of_this_call_alone(engine):
    x, seen = leaf([1.0]), []
    y = (x * 2).sum()
    y.backward(retain_graph=True, leaf_ready=lambda t, g: seen.append(g), **options(engine))
    y.backward(**options(engine))
    assert len(seen) == 1


def test_only_leaves_that_are_asked_for_come(engine):
    x, w, seen = leaf([1.0]), leaf([2.0]), []
    hear = lambda t, g: seen.append(t)
    mg.backward((x * w).sum(), inputs=[w], leaf_ready=hear, **options(engine))
    assert [t is w for t in seen] == [True]


def test_it_comes_before_the_registered_leaf_ready_hooks_and_after_the_sum(engine):
    x, order = leaf([1.0]), []
    x.register_leaf_ready_hook(lambda t: order.append("registered"))
    x.register_post_accumulate_grad_hook(lambda t: order.append("accumulated"))
    call = lambda t, g: order.append(("call", t.grad.item()))
    (x * 3).sum().backward(leaf_ready=call, **options(engine))
    assert order == ["accumulated", ("call", 3.0), "registered"]


def test_it_may_ask_for_the_end_of_the_backward(engine):
    x, w, order = leaf([1.0]), leaf([1.0]), []

    def hear(t, g):
        order.append("leaf")
        hooks.call_after_backward(done)

    def done():
        order.append("end")

    mg.gradients((x * w).sum(), leaf_ready=hear, **options(engine))
    assert order == ["leaf", "leaf", "end"]


def test_an_error_of_it_ends_the_backward(engine):
    x = leaf([1.0])

    def fail(t, g):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        mg.backward((x * 2).sum(), leaf_ready=fail, **options(engine))

    def stop(t, g):
        raise StopIteration

    with pytest.raises(HookError, match="StopIteration"):
        mg.backward((x * 2).sum(), leaf_ready=stop, **options(engine))


def test_recorded_gradients_can_be_differentiated_again():
    x, seen = leaf([3.0]), []
    mg.gradients((x**3).sum(), create_graph=True, leaf_ready=lambda t, g: seen.append(g))
    assert mg.grad(seen[0].sum(), x).tolist() == [18]


def test_a_parallel_backward_calls_it_in_one_thread_at_a_time():
    leaves = [leaf(np.ones(4)) for _ in range(30)]
    busy, seen = threading.Lock(), []

    def hear(t, g):
        assert busy.acquire(blocking=False)
        seen.append(t)
        busy.release()

    y = sum((x * x).sum() for x in leaves)
    mg.backward(y, leaf_ready=hear, engine="parallel", workers=4, min_work=0)
    assert {id(t) for t in seen} == {id(x) for x in leaves} and len(seen) == 30


def test_a_tape_takes_it():
    x, seen = leaf([1.0]), []
    hear = lambda t, g: seen.append(g.item())
    with mg.Tape() as tape:
        y = (x * 2).sum()
    tape.grad(y, x, retain_graph=True, leaf_ready=hear)
    tape.backward(y, leaf_ready=hear)
    assert seen == [2, 2]


def test_a_leaf_that_is_frozen_meanwhile_is_left_out():
    x, w, seen = leaf([1.0]), leaf([2.0]), []

    def hear(t, g):
        seen.append(t)
        x.requires_grad = False

    (mg.exp(x) * w).sum().backward(leaf_ready=hear)
    assert [t is w for t in seen] == [True] and x.grad is None


def test_what_is_no_function_is_refused_before_anything_runs():
    x = leaf([1.0])
    y = (x * 2).sum()
    for call in (mg.backward, mg.gradients, lambda y, **k: mg.grad(y, x, **k)):
        with pytest.raises(TypeError, match="a hook is a function"):
            call(y, leaf_ready=3)
    y.backward()
