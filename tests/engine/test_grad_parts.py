"""mg.grad runs only the rules that lead to what is asked for."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.tape.tape import Tape
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise("mg.grad runs no rule that leads to nothing asked for")


def leaf(value):
    return mg.tensor(value, requires_grad=True)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def product(ran):
    """a · b by rules that note in `ran` that they did."""
    op = Primitive(lambda a, b: a * b, "noted_product", ["a", "b"])
    op.vjp("a")(lambda g, b: (ran.append("a"), g * b)[1])
    op.vjp("b")(lambda g, a: (ran.append("b"), g * a)[1])
    return op


@pytest.fixture
def total(ran):
    """Σ of its arguments, by a joint rule that notes which gradients it was to give."""
    op = Primitive(lambda *xs: sum(xs), "noted_total", ["xs"], variadic=True)

    @op.vjp
    def of_all(g, needs):
        ran.append([*needs])
        return [g if need else None for need in needs]

    return op


@pytest.mark.parametrize("engine", ["serial", "parallel"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_rule_of_an_input_that_nobody_asked_for_does_not_run(
    product, ran, engine, create_graph
):
    a, b = leaf([2.0]), leaf([3.0])
    ga = mg.grad(product(a, b), a, engine=engine, create_graph=create_graph)
    assert (ga.tolist(), ran) == ([3.0], ["a"])


def test_nor_does_it_where_an_inner_tensor_is_asked_for(product, ran):
    a, b = leaf([2.0]), leaf([3.0])
    inner = product(a, b)
    outer = product(inner, b)
    assert mg.grad(outer, inner).tolist() == [3.0] and ran == ["a"]


def test_a_backward_into_some_inputs_runs_their_rules_alone(product, ran):
    a, b = leaf([2.0]), leaf([3.0])
    product(a, b).backward(inputs=[b])
    assert (a.grad, b.grad.tolist(), ran) == (None, [2.0], ["b"])


def test_a_node_on_the_way_to_two_inputs_runs_all_of_its_rules(product, ran):
    a, b, c = leaf([2.0]), leaf([3.0]), leaf([5.0])
    ga, gb = mg.grad(product(product(a, b), c), [a, b])
    assert (ga.tolist(), gb.tolist(), sorted(ran)) == ([15.0], [10.0], ["a", "a", "b"])


def test_a_rule_for_all_inputs_is_told_that_fewer_are_needed(total, ran):
    a, b, c = leaf([2.0]), mg.tensor([4.0]), leaf([3.0])
    y = total(a, b, c)
    assert mg.grad(y, c, retain_graph=True).tolist() == [1.0]
    assert mg.grad(y, a, create_graph=True).tolist() == [1.0]
    assert ran == [[False, False, True], [True, False, False]]


def test_the_same_graph_serves_each_input_in_turn_and_all_at_once(product, ran):
    a, b = leaf([2.0]), leaf([3.0])
    y = product(a, b)
    gs = [mg.grad(y, inputs, retain_graph=True)[0].item() for inputs in ([a], [b], [a, b])]
    assert (gs, ran) == ([3.0, 2.0, 3.0], ["a", "b", "a", "b"])


def test_an_array_that_nobody_asked_for_is_not_made():
    x, w = leaf(np.ones((1500, 1500))), leaf(np.ones((1500, 1500)))
    y = x * w  # large: its contributions are made in blocks
    gx = mg.grad(y, x, np.full(y.shape, 2.0))
    assert gx.shape == x.shape and (gx.numpy() == 2).all()


def test_a_large_gradient_is_added_to_what_has_arrived_by_the_rules_asked_for():
    x, w = leaf(np.ones((1500, 1500))), leaf(np.full((1500, 1500), 3.0))
    gx = mg.grad(x * w + x * w, x, np.ones(x.shape))
    assert (gx.numpy() == 6).all() and w.grad is None


def test_a_hook_of_a_node_sees_none_for_a_gradient_that_was_not_asked_for(product):
    a, b, seen = leaf([2.0]), leaf([3.0]), []
    y = product(a, b)
    y.node.register_hook(lambda inputs, outputs: seen.append(inputs))
    mg.grad(y, b)
    ((ga, gb),) = seen
    assert ga is None and gb.tolist() == [2.0]


def test_a_tape_runs_the_rules_asked_for(product, ran):
    a, b = leaf([2.0]), leaf([3.0])
    with Tape() as tape:
        y = product(a, b)
    assert mg.grad(y, a, engine=tape).tolist() == [3.0] and ran == ["a"]


def test_the_convolution_of_a_penalty_needs_no_gradient_of_its_weights():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 6, 6)), rng.normal(0, 0.2, (4, 3, 3, 3))

    def penalty(w):
        images = leaf(x)
        g = mg.grad(mg.conv2d(images, w).tanh().sum(), images, create_graph=True)
        return (g * g).sum()

    assert gradcheck(penalty, [w])


def test_checkpoints_and_functions_give_what_is_asked_for():
    class Doubled(mg.Function):
        @staticmethod
        def forward(ctx, a, b):
            return 2 * a * b

        @staticmethod
        def backward(ctx, g):
            return g, 3 * g

    a, b = leaf([2.0]), leaf([3.0])
    assert mg.grad(Doubled.apply(a, b), b).tolist() == [3.0]
    y = mg.checkpoint(lambda a, b: a * b, a, b)
    assert mg.grad(y, b).tolist() == [2.0]
