"""What checkpoint is given: containers that the function changes, PyTorch's options, mistakes."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import checkpoint, nn

X = np.array([0.5, 2.0])


def in_a_dict(d):
    d["x"] = d["x"] * d["x"]
    return np.sin(d["x"]).sum()


def popped(d):
    x = d.pop("x")
    return np.sin(x * x).sum()


def in_a_list(rows):
    rows[0]["x"] = rows[0]["x"] * rows[0]["x"]
    return np.sin(rows.pop()["x"]).sum()


@pytest.mark.parametrize(
    ("f", "held_in"),
    [
        (in_a_dict, lambda x: {"x": x}),
        (popped, lambda x: {"x": x}),
        (in_a_list, lambda x: [{"x": x}]),
        (lambda rows: in_a_list(rows[0]), lambda x: ([{"x": x}],)),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_function_may_change_the_containers_that_it_is_given(f, held_in, times):
    x = mg.tensor(X, requires_grad=True)
    y = checkpoint(f, held_in(x))
    for _ in range(times):  # each backward computes the function again
        (g,) = mg.grad(y, [x], retain_graph=True)
        np.testing.assert_allclose(g.numpy(), 2 * X * np.cos(X * X))


def test_a_keyword_argument_may_be_a_container_that_is_changed():
    x = mg.tensor(X, requires_grad=True)
    checkpoint(lambda *, d: in_a_dict(d), d={"x": x}).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X * np.cos(X * X))


def test_a_container_may_hold_itself():
    x = mg.tensor(X, requires_grad=True)
    d = {"x": x}
    d["self"] = d
    checkpoint(lambda d: np.sin(d["x"]).sum(), d).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


@pytest.mark.parametrize("option", ["use_reentrant", "preserve_rng_state"])
@pytest.mark.parametrize("value", [True, False])
def test_options_that_programs_for_pytorch_pass_are_taken(option, value):
    layer = nn.Linear(2, 2)
    x = mg.ones((1, 2), dtype="float32")
    y = checkpoint(layer, x, **{option: value})
    z = mg.checkpoint_sequential([layer, layer], 2, x, **{option: value})
    assert y.tolist() == layer(x).tolist() and z.tolist() == layer(layer(x)).tolist()


def test_what_is_no_function_is_refused_with_the_right_call():
    with pytest.raises(TypeError, match=r"checkpoint\(f, x\), got float64 \(2,\)"):
        checkpoint(mg.ones(2))
