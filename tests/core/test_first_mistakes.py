"""What newcomers get wrong first: each message says what was given and the next step."""

import subprocess
import sys

import pytest

import minigrad as mg
from minigrad import nn

X = mg.tensor([1.0, 2.0, 3.0])


def message(call, kind):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: mg.relu(nn.Linear(3, 2)), TypeError, "x is a module itself: call it"),
        (lambda: mg.linear(X, nn.Linear(3, 2)), ValueError, "w is a module itself: call it"),
        (lambda: X - X.grad, TypeError, "b is None, as a .grad is before a backward"),
        (lambda: mg.concatenate([X, None]), ValueError, r"arrays[1] is None, as a .grad is"),
        (lambda: "loss " + X, TypeError, "a is text, and an op computes with tensors"),
    ],
)
def test_what_is_nothing_to_compute_with_is_named(call, kind, step):
    assert step in message(call, kind)


def test_a_bias_that_is_left_out_is_no_mistake():
    assert "None, as a" not in message(lambda: mg.linear(X, mg.ones(2, 4)), ValueError)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: mg.softmax(X, axs=0), "'axs'; its arguments are x, axis"),
        (lambda: X.sum(axs=0), "'axs'; its arguments are axis, dtype, out, keepdims"),
    ],
)
def test_a_misspelt_argument_shows_those_there_are(call, names):
    assert names in message(call, TypeError)


def test_a_misspelt_function_is_answered_with_the_one_that_is_meant():
    program = "import minigrad as mg; mg.sofmax"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith("has no attribute 'sofmax'. Did you mean: 'softmax'?\n")
