"""Threads: shared leaves lose no update; one graph is used up by one backward only."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import GraphInUseError

pytestmark = pytest.mark.promise(
    "two threads lose no update; two backwards on one graph are one error"
)


def in_threads(count, work):
    """Run work(i) in threads that start together; the exceptions they raised."""
    gate, errors = threading.Barrier(count), []

    def body(i):
        gate.wait()
        try:
            work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_on_separate_graphs_lose_no_update_of_a_shared_leaf():
    x = mg.tensor(np.zeros(3), requires_grad=True)

    def work(i):
        for _ in range(200):
            (x * 1.0).sum().backward()

    assert not in_threads(4, work)
    assert x.grad.tolist() == [800] * 3


def test_of_two_backwards_on_one_graph_exactly_one_fails_and_nothing_is_counted_twice():
    for _ in range(30):
        x = mg.tensor([1.0], requires_grad=True)
        y = x
        for _ in range(20):
            y = y * 1.0
        root = y.sum()
        errors = in_threads(2, lambda i, root=root: root.backward())
        assert len(errors) == 1
        assert isinstance(errors[0], GraphInUseError | mg.errors.GraphReleasedError)
        assert x.grad.tolist() == [1]


def test_a_second_thread_is_refused_while_the_first_is_inside_the_graph():
    x = mg.tensor([1.0], requires_grad=True)
    trunk = x * 2
    first, second = (trunk * 3).sum(), (trunk * 4).sum()
    errors = []

    def meanwhile(g):
        errors.extend(in_threads(1, lambda i: second.backward()))

    trunk.register_hook(meanwhile)
    first.backward()
    assert len(errors) == 1 and isinstance(errors[0], GraphInUseError)
    assert "retain_graph=True" in str(errors[0]) and x.grad.tolist() == [6]


def test_two_threads_may_share_a_graph_that_both_retain():
    x = mg.tensor([1.0], requires_grad=True)
    y = (x * 2).sum()
    assert not in_threads(2, lambda i: y.backward(retain_graph=True))
    assert x.grad.tolist() == [4]


def test_after_an_error_the_graph_is_no_longer_claimed():
    x = mg.tensor([1.0], requires_grad=True)
    y = x * 2
    handle = y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward(retain_graph=True)
    handle.remove()
    assert not in_threads(1, lambda i: y.backward())
