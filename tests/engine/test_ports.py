"""Each output of an op with several is one vertex of the graph, also when its rule reads it."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive

pytestmark = pytest.mark.promise("an output is one vertex of the graph, also in double backward")


def matrix():
    return mg.tensor(np.array([[2.0, 0.3], [0.1, 1.0]]), requires_grad=True)


def second_order(x, hook=None, engine="serial"):
    """The gradients of Σ (dL/dx)² for x and u, where the rule of svd reads u, s and vt."""
    with mg.Tape():
        u, s, vt = mg.linalg.svd(x)
        if hook is not None:
            u.register_hook(hook)
        y = (u * s).sum() + vt[0, 0] * s[1]
        g = mg.grad(y, x, create_graph=True, engine=engine)
        return mg.grad((g * g).sum(), [x, u], engine=engine)


def test_a_hook_on_an_output_hears_the_total_in_double_backward_too():
    heard = []
    x = matrix()
    _, gu = second_order(x, lambda g: heard.append(g.detach().numpy().copy()))
    assert len(heard) == 2
    np.testing.assert_array_equal(heard[1], gu.data)


def test_a_hook_may_change_what_flows_in_double_backward():
    x, calls = matrix(), []

    def second_to_zero(g):
        calls.append(1)
        return g * 0 if len(calls) == 2 else None

    changed, plain = second_order(x, second_to_zero)[0], second_order(matrix())[0]
    assert len(calls) == 2 and not np.allclose(changed.data, plain.data)


def test_the_gradient_of_an_output_counts_what_the_rule_has_read():
    pair = Primitive(lambda x: (x * x, x + 1), "pair", ["x"], outputs=2)
    pair.vjp("x")(lambda g, y: g[0] * y[0])  # no derivative, but one that reads the output
    x = mg.tensor([2.0, 3.0], requires_grad=True)
    y, _ = pair(x)
    g = mg.grad((3 * y).sum(), x, create_graph=True)  # 3 y
    assert mg.grad(g.sum(), y).tolist() == [3.0, 3.0]


def test_serial_and_tape_agree_in_double_backward():
    a, u = second_order(matrix())
    b, v = second_order(matrix(), engine="tape")
    assert a.data.tobytes() == b.data.tobytes() and u.data.tobytes() == v.data.tobytes()


def test_an_output_that_nobody_holds_any_more_comes_back_when_a_rule_reads_it():
    x = matrix()
    s = mg.linalg.svd(x)[1]
    gc.collect()
    g = mg.grad(s.sum(), x, create_graph=True)
    h = mg.grad((g * g * mg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), x)
    assert np.isfinite(h.data).all() and np.abs(h.data).max() > 0


def test_outputs_are_in_no_reference_cycle():
    x = matrix()
    u, s, vt = mg.linalg.svd(x)
    node = weakref.ref(u.node.parents[0])
    gc.disable()
    try:
        del u, s, vt
        assert node() is None
    finally:
        gc.enable()
