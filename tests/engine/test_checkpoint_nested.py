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


@pytest.mark.parametrize(("outer", "middle", "inner"), itertools.product(WAYS, repeat=3))
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
