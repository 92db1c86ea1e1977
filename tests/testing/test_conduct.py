"""gradcheck of a user's function: what its rules may look at, and what they must leave alone."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import GradcheckError, gradcheck
from minigrad.testing.plant import make

X = np.array([[0.3, -1.2, 0.7], [2.1, 0.4, -0.6]])


def sine(rule):
    return make("sine", np.sin, {"x": rule}, {})


def test_a_rule_that_takes_one_row_in_memory_for_a_single_element_is_caught():
    def rule(g, x):
        repeats = isinstance(g, np.ndarray) and 0 in g.strides
        return g * np.cos(x) * (2.0 if repeats else 1.0)

    with pytest.raises(GradcheckError, match="in memory stride 0"):
        gradcheck(sine(rule), X)


@pytest.mark.parametrize(
    "change, undo, what",
    [
        (lambda: mg.set_grad_enabled(False), lambda: mg.set_grad_enabled(True), "recorded"),
        (lambda: np.seterr(over="raise"), lambda: np.seterr(over="warn"), "error handling"),
        (lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8),
         "print options"),
    ],
)  # fmt: skip
def test_a_rule_that_leaves_a_mode_changed_is_caught_and_the_mode_put_back(change, undo, what):
    def rule(g, x):
        change()
        return g * np.cos(x)

    try:
        with pytest.raises(GradcheckError, match=what):
            gradcheck(sine(rule), X)
        assert mg.is_grad_enabled()
        assert np.geterr()["over"] == "warn"
        assert np.get_printoptions()["precision"] == 8
    finally:
        undo()


def test_a_function_may_set_the_seed_of_what_it_draws():
    def noisy(x):
        np.random.seed(0)
        return x * np.random.rand(*x.shape)

    assert gradcheck(noisy, X)
