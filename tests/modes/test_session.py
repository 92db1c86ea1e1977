"""Sessions group leaves weakly and refuse to be mixed."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine import modes
from minigrad.errors import SessionMismatch
from minigrad.modes import session

pytestmark = pytest.mark.promise("tensors of two sessions do not mix")


@pytest.fixture
def two():
    a, b = mg.Session(), mg.Session()
    yield a, b
    a.close()
    b.close()


def test_members_are_tensors_made_by_it_tracked_or_made_inside(two):
    a, b = two
    w = a.tensor([1.0, 2.0], requires_grad=True)
    x = a.track(mg.tensor([3.0]))
    with a:
        y = mg.tensor([4.0], requires_grad=True)
        layer = mg.nn.Linear(2, 3)
        with b:
            z = mg.ones(2, requires_grad=True)
    assert a.leaves() == [w, x, y, *layer.parameters()] and b.leaves() == [z]
    assert len(a) == 5 and w in a and z not in a
    assert a.id != b.id and repr(a) == f"<Session {a.id} on cpu, 5 leaves>"


def test_a_copied_session_is_the_session(two):
    a, _ = two
    for twin in (copy.copy(a), copy.deepcopy({"session": a})["session"]):
        assert twin is a


def test_members_are_known_weakly(two):
    a, _ = two
    x = a.tensor([1.0], requires_grad=True)
    alive = weakref.ref(x)
    gc.disable()
    try:
        del x
        assert alive() is None and len(a) == 0
    finally:
        gc.enable()


def test_clear_grads_clears_those_of_members_alone(two):
    a, b = two
    x, y = a.tensor([1.0], requires_grad=True), b.tensor([1.0], requires_grad=True)
    (x * 2).backward()
    (y * 2).backward()
    a.clear_grads()
    assert x.grad is None and y.grad is not None
    mg.clear_grads([y])
    assert y.grad is None
    with pytest.raises(TypeError, match="clear_grads takes tensors, got 3"):
        mg.clear_grads([3])


def test_tensors_of_two_sessions_in_one_op_are_an_error_that_names_all(two):
    a, b = two
    x, y = a.tensor([1.0], requires_grad=True), b.tensor([1.0], requires_grad=True)
    message = rf"mul\(.*mixes two sessions: argument 'a' .*Session {a.id} .*'b' .*Session {b.id} "
    with pytest.raises(SessionMismatch, match=message):
        x * y
    with pytest.raises(SessionMismatch, match=r"'arrays\[0\]'|\[0\]"):
        mg.concatenate([x, y])


def test_results_belong_to_the_session_of_their_inputs(two):
    a, b = two
    x, y = a.tensor([1.0], requires_grad=True), b.tensor([1.0], requires_grad=True)
    free = mg.tensor([2.0], requires_grad=True)
    deep = x
    for _ in range(50):
        deep = np.tanh(deep * free)
    assert deep in a and free not in a
    with pytest.raises(SessionMismatch):
        deep + y
    first, _ = mg.split(mg.concatenate([y, y]), 2)
    with pytest.raises(SessionMismatch):
        deep + first
    (deep + x.detach() + y.detach()).backward()  # what is detached belongs to nobody
    assert x.grad is not None and y.grad is None


def test_results_outlive_their_leaf(two):
    a, b = two
    y = a.tensor([1.0], requires_grad=True) * 2
    with pytest.raises(SessionMismatch):
        y + b.tensor([1.0], requires_grad=True)


def test_results_older_than_the_sessions_are_known_too():
    x = mg.tensor([1.0], requires_grad=True)
    deep = x
    for _ in range(20_000):  # a recursion would fail
        deep = deep + 1
    a, b = mg.Session(), mg.Session()
    a.track(x)
    with pytest.raises(SessionMismatch):
        deep * b.tensor([1.0])
    a.close()
    b.close()


def test_inside_transforms_sessions_are_told_apart_too(two):
    a, b = two
    x, y = a.tensor([1.0], requires_grad=True), b.tensor([1.0], requires_grad=True)
    with pytest.raises(SessionMismatch):
        func.grad(lambda x: (x * y).sum())(x)
    assert func.grad(lambda x: (x * x).sum())(x).tolist() == [2]


def test_gradients_are_not_members(two):
    a, b = two
    x = a.tensor([1.0], requires_grad=True)
    with b:
        (x * 3).backward()
        x.grad = x.grad + x.detach()
    assert len(b) == 0 and x.grad.tolist() == [4]


def test_one_session_alone_costs_ops_nothing():
    before = modes.active
    a = mg.Session()
    assert modes.active == before and not session.checked
    b = mg.Session()
    assert modes.active == before + 1 and session.checked
    b.close()
    b.close()
    assert modes.active == before
    c = mg.Session()
    del c  # a session that is dropped is closed
    gc.collect()
    assert modes.active == before and not session.checked
    a.close()


def test_a_closed_session_lets_its_members_go(two):
    a, b = two
    x, y = a.tensor([1.0], requires_grad=True), b.tensor([1.0], requires_grad=True)
    z = x * 1
    c = mg.Session()
    a.close()
    assert (z * y).item() == 1 and len(a) == 0
    c.track(x)
    assert x in c
    with pytest.raises(RuntimeError, match="is closed; make another"):
        a.tensor([1.0])
    c.close()


def test_what_cannot_join_is_refused(two):
    a, b = two
    x = a.tensor([1.0], requires_grad=True)
    with pytest.raises(SessionMismatch, match="belongs to <Session .* already and cannot join"):
        b.track(x)
    with pytest.raises(TypeError, match="takes leaves, got float64"):
        a.track(x * 2)
    with pytest.raises(TypeError, match="takes leaves, got 3"):
        a.track(3)
    with pytest.raises(ValueError, match="there is no device 'tpu'"):
        mg.Session(device="tpu")


def test_caches_of_a_session_are_counted_and_cleared_by_it(two):
    a, b = two
    kept = a.cache("plans", max_entries=1)
    kept.put(1, np.zeros(2))
    name = f"session {a.id}: plans"
    assert a.cache_stats()[name]["bytes"] == 16 and name not in b.cache_stats()
    assert "einsum orders" in b.cache_stats()
    b.clear_caches()
    assert len(kept) == 1
    a.clear_caches()
    assert len(kept) == 0
    a.synchronize()


def test_the_session_of_a_with_block_is_that_of_its_thread(two):
    a, _ = two
    made = []
    with a:
        thread = threading.Thread(target=lambda: made.append(mg.ones(1, requires_grad=True)))
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), a:
            raise ZeroDivisionError
        made.append(mg.ones(1, requires_grad=True))
    made.append(mg.ones(1, requires_grad=True))
    assert [x in a for x in made] == [False, True, False]


def test_a_tensor_tells_its_session():
    a = mg.Session()
    x, w = a.tensor([1.0, 2.0], requires_grad=True), mg.ones(2, requires_grad=True)
    assert x.session is a and w.session is None and mg.ones(2).session is None
    y = mg.exp(w * 3 + x)
    assert y.session is a and y.sum().session is a and y.detach().session is None
    assert y.session is a, "asked again"
    with a:
        layer = mg.nn.Linear(2, 1)
    assert layer.weight.session is a and layer(mg.ones(1, 2, dtype="float32")).session is a
    with pytest.raises(AttributeError):
        x.session = None
    a.close()
    assert x.session is None and y.session is None


def test_a_tensor_tells_its_session_inside_a_transform():
    a = mg.Session()
    x, seen = a.tensor([1.0, 2.0]), []

    def f(t):
        seen.append((t * 2).session)
        return (t * x).sum()

    mg.func.grad(f)(x)
    assert x.session is a and seen == [None]
