"""Checkpoints, hooks on saved tensors and early stops inside each other: the same bits."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad import func

X = np.array([[0.3, -1.2], [0.7, 0.1]])


def base(x):
    return mg.exp(mg.sin(x) * x).sum()


def hooked(f):
    def run(x):
        with mg.saved_tensors_hooks(lambda saved: saved.numpy().copy(), mg.tensor):
            return f(x)

    return run


def computed_whole(f):
    def run(x):
        with mg.set_checkpoint_early_stop(False):
            return f(x)

    return run


def checkpointed(f):
    return lambda x: mg.checkpoint(f, x)


WAYS = (hooked, computed_whole, checkpointed)


@pytest.mark.parametrize(("outer", "middle", "inner"), [*itertools.product(WAYS, repeat=3)])
@pytest.mark.parametrize(
    "options", [{}, {"engine": "parallel", "workers": 2, "min_work": 0}], ids=["serial", "parallel"]
)
def test_they_nest_in_any_order(outer, middle, inner, options):
    f = outer(middle(inner(base)))
    x = mg.tensor(X, requires_grad=True)
    expected = mg.grad(base(x), x)
    y = f(x)
    for retain_graph in (True, False):
        g = mg.grad(y, x, retain_graph=retain_graph, **options)
        np.testing.assert_array_equal(g.numpy(), expected.numpy())
    first = mg.grad(f(x), x, create_graph=True)
    again = mg.grad((first**2).sum(), x, **options)
    plain = mg.grad(base(x), x, create_graph=True)
    np.testing.assert_allclose(again.numpy(), mg.grad((plain**2).sum(), x).numpy(), rtol=1e-13)
    np.testing.assert_array_equal(func.grad(f)(mg.tensor(X)).numpy(), expected.numpy())


def gradient(f, create_graph=True):
    """The function whose value is f's gradient, by a backward of its own."""
    return lambda x: mg.grad(f(x).sum(), x, create_graph=create_graph)


GRADIENTS_INSIDE = {
    "of the checkpointed function": lambda f: checkpointed(gradient(f)),
    "of a checkpoint in it": lambda f: checkpointed(gradient(checkpointed(f))),
    "of a gradient in it": lambda f: checkpointed(gradient(gradient(f))),
    "of a gradient of checkpoints": lambda f: checkpointed(
        gradient(checkpointed(gradient(checkpointed(f))))
    ),
    "with hooks on what it saves": lambda f: checkpointed(gradient(hooked(f))),
    "inside such hooks": lambda f: hooked(checkpointed(gradient(f))),
}


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("inside", GRADIENTS_INSIDE)
def test_a_checkpointed_function_may_compute_gradients(inside, early_stop):
    orders = 2 if "gradient" in inside else 1
    plain = base
    for _ in range(orders):
        plain = gradient(plain)
    x = mg.tensor(X, requires_grad=True)
    expected = mg.grad(plain(x).sum(), x)
    with mg.set_checkpoint_early_stop(early_stop):
        y = GRADIENTS_INSIDE[inside](base)(x)
        np.testing.assert_allclose(y.numpy(), plain(x).numpy(), rtol=1e-13)
        for retain_graph in (True, False):
            g = mg.grad(y.sum(), x, retain_graph=retain_graph)
            np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_gradient_inside_that_is_not_recorded_is_a_constant_of_the_function(early_stop):
    def f(x):
        return (x * x * gradient(mg.exp, create_graph=False)(x)).sum()

    x = mg.tensor(X, requires_grad=True)
    with mg.set_checkpoint_early_stop(early_stop):
        g = mg.grad(mg.checkpoint(f, x), x)
    np.testing.assert_allclose(g.numpy(), 2 * X * np.exp(X), rtol=1e-13)
