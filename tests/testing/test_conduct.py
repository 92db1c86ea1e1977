"""gradcheck of a user's function: what its rules may look at, and what they must leave alone."""

import gc
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.tensor_api.tensor import Tensor
from minigrad.testing import GradcheckError, gradcheck, jvpcheck
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
        (lambda: np.setbufsize(4096), lambda: np.setbufsize(8192), "buffer"),
        (lambda: sys.setrecursionlimit(2345), lambda: sys.setrecursionlimit(1000), "nested calls"),
        (lambda: gc.set_threshold(600), lambda: gc.set_threshold(700, 10, 10), "thresholds"),
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
        assert np.getbufsize() == 8192
        assert sys.getrecursionlimit() != 2345 and gc.get_threshold()[0] != 600
    finally:
        undo()


def test_a_function_may_set_the_seed_of_what_it_draws():
    def noisy(x):
        np.random.seed(0)
        return x * np.random.rand(*x.shape)

    assert gradcheck(noisy, X)


@pytest.mark.parametrize("seed", range(3))
def test_a_correlation_passes_whose_gradient_cancels_where_both_arguments_are_one(seed):
    def correlation(a, b):
        size = mg.sqrt(((a - a.mean()) ** 2).sum() * ((b - b.mean()) ** 2).sum())
        return ((a - a.mean()) * (b - b.mean())).sum() / size

    a, b = np.random.default_rng(seed).standard_normal((2, 3, 4))
    assert gradcheck(correlation, (a, b))


def array_of(x):
    while isinstance(x, Tensor):
        x = x._data
    return x


def writing_into(which):
    """The sine's jvp rule, which doubles its tangent or its argument in place."""

    def rule(x_t, x):
        y = x_t * np.cos(x)
        array = array_of(x_t if which == "tangent" else x)
        np.multiply(array, 2, out=array)
        return y

    return rule


def off_where(wrong):
    """The sine's jvp rule, twice as large where wrong(tangent, argument) says so of the arrays."""

    def rule(x_t, x):
        return x_t * np.cos(x) * (2.0 if wrong(array_of(x_t), array_of(x)) else 1.0)

    return rule


@pytest.mark.parametrize(
    "rule, message",
    [
        (writing_into("tangent"), "changes the tangent of argument 0"),
        (writing_into("argument"), "changes argument 0"),
        (lambda x_t, x: np.minimum(np.maximum(x_t, -100), 100) * np.cos(x), "not linear"),
        (off_where(lambda t, x: bool((t == 1).all())), "not linear"),
        (off_where(lambda t, x: not t.flags.c_contiguous), "for a tangent in memory Fortran"),
        (off_where(lambda t, x: t.strides[0] == 0), "for a tangent in memory stride 0"),
        (off_where(lambda t, x: not x.flags.c_contiguous), "for argument 0 .* in memory Fortran"),
    ],
)
def test_a_jvp_rule_that_looks_at_what_it_may_not_is_caught(rule, message):
    op = sine(lambda g, x: g * np.cos(x))
    op.jvp(rule)
    with pytest.raises(GradcheckError, match=message):
        jvpcheck(op, X)


def test_a_right_jvp_rule_passes():
    op = sine(lambda g, x: g * np.cos(x))
    op.jvp(lambda x_t, x: x_t * np.cos(x))
    assert jvpcheck(op, X)
    assert jvpcheck(lambda a, b: (mg.softmax(a) @ mg.transpose(b), a.sum()), (X, X + 0.1))


@pytest.mark.parametrize("seed", range(3))
def test_the_tangent_of_a_constant_is_rounding_and_passes(seed):
    assert jvpcheck(lambda x: np.sin(x) ** 2 + np.cos(x) ** 2, X, seed=seed)
    assert jvpcheck(lambda x: (x - x.mean()).sum(), X, seed=seed)
