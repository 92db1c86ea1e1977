"""A checkpoint computes again no more than the backward needs."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes

pytestmark = pytest.mark.promise(
    "checkpointing frees memory, repeats random numbers (with other threads running too),"
    " and stops when it has the needed values"
)

checkpoint, set_checkpoint_early_stop = mg.checkpoint, mg.set_checkpoint_early_stop


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_computing_again_stops_when_all_that_is_needed_is_there():
    x, reached, left = leaf([0.5, 2.0]), [], []

    def fn(x):
        try:
            a = np.exp(x)
            b = np.sin(a)
            reached.append("b")
            return a, b
        finally:
            left.append(len(reached))

    a, b = checkpoint(fn, x)
    a.sum().backward(retain_graph=True)
    assert reached == ["b"] and left == [1, 1] and modes.active == 0
    np.testing.assert_array_equal(x.grad.data, np.exp(x.data))
    b.sum().backward()  # what was left out is computed now
    np.testing.assert_array_equal(
        x.grad.data, np.exp(x.data) * np.cos(np.exp(x.data)) + np.exp(x.data)
    )


def test_nothing_runs_again_where_the_rules_need_nothing():
    runs = []

    def shifted(x):
        runs.append(1)
        return (x + 1).reshape(2, 1).sum()

    x = leaf([1.0, 2.0])
    checkpoint(shifted, x).backward()
    assert x.grad.tolist() == [1, 1] and len(runs) == 1


def test_computing_again_ends_with_the_last_op_that_has_saved_something():
    log = []

    def shifted(x):
        y = np.exp(x)
        log.append("exp")
        y = y + 1
        log.append("add")
        return y

    checkpoint(shifted, leaf([1.0])).sum().backward()
    assert log == ["exp", "add"]


def test_what_comes_after_the_last_op_does_not_run_again():
    x, ends = leaf([2.0]), []

    def fn(x):
        y = x * x
        ends.append(1)
        return y

    checkpoint(fn, x).backward()
    assert len(ends) == 1 and x.grad.item() == 4.0
    with set_checkpoint_early_stop(False):
        y = checkpoint(fn, x)
    y.backward()
    assert len(ends) == 3


def test_stopping_early_leaves_the_random_generators_alone():
    x = leaf(np.ones(8))

    def fn(x):
        y = mg.dropout(x, 0.5) * x
        np.random.rand(3)
        mg.rand(3)
        return y

    y = checkpoint(fn, x).sum()
    before = np.random.get_state()[2], mg.generator().bit_generator.state
    y.backward()
    assert before == (np.random.get_state()[2], mg.generator().bit_generator.state)


def test_an_inner_checkpoint_that_stops_early_does_not_stop_the_outer():
    x = leaf([0.3, 0.7])

    def inner(x):
        return np.exp(np.sin(x) * x)

    def outer(x, *, power):
        return checkpoint(inner, checkpoint(inner, x) ** power) * np.cos(x)

    plain = mg.grad((inner(inner(x) ** 2) * np.cos(x)).sum(), x)
    for create_graph in (False, True):
        kept = mg.grad(checkpoint(outer, x, power=2).sum(), x, create_graph=create_graph)
        np.testing.assert_array_equal(plain.data, kept.detach().data)
    with mg.Tape() as tape:
        y = checkpoint(outer, x, power=2).sum()
    np.testing.assert_array_equal(plain.data, tape.grad(y, x).data)
