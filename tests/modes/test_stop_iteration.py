"""StopIteration of a user's function is named, whichever engine's loop it would have ended."""

import pytest

import minigrad as mg
from minigrad.errors import HookError

ENGINES = [{}, {"engine": "parallel", "workers": 2, "min_work": 0}]


def stops(*_):
    raise StopIteration("no more")


def on_the_leaf(x, y):
    x.register_hook(stops)


def on_an_inner_tensor(x, y):
    y.register_hook(stops)


def before_the_node(x, y):
    y.grad_fn.register_prehook(stops)


def after_the_node(x, y):
    y.grad_fn.register_hook(stops)


def of_several(x, y):
    mg.register_multi_grad_hook([x], stops)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "put",
    [
        on_the_leaf, on_an_inner_tensor, before_the_node, after_the_node,
        of_several,
    ],
)  # fmt: skip
def test_of_a_hook(put, engine):
    x = mg.ones(3, requires_grad=True)
    y = x * 2
    put(x, y)
    with pytest.raises(HookError, match="the hook stops raised StopIteration") as caught:
        (y + x).sum().backward(**engine)
    assert isinstance(caught.value.__cause__, StopIteration)


@pytest.mark.parametrize("engine", ENGINES)
def test_of_an_unpack(engine):
    x = mg.ones(3, requires_grad=True)
    with mg.saved_tensors_hooks(lambda x: x, stops):
        y = (x * x).sum()
    with pytest.raises(HookError, match="unpack raised StopIteration for the saved '[ab]' of mul"):
        y.backward(**engine)
