"""Tracing keeps what a function does: what a list of NumPy calls cannot stand for is one call."""

import operator

import numpy as np
import pytest

from minigrad.backends import random
from minigrad.tape.trace import Trace

pytestmark = pytest.mark.promise(
    "a replay has the eager bits and makes no tensor, or refuses (K13)"
)


def traced(fn, *arrays):
    """(steps of fn, its result) on fixed values."""
    trace = Trace()
    result = trace.follow(fn, [trace.value(x, True) for x in arrays], "fn", True)
    return trace.steps, result


X = np.arange(1.0, 7.0).reshape(2, 3)


def test_arithmetic_becomes_ufuncs_that_may_write_into_buffers():
    steps, _ = traced(lambda x: 1 - x * x, X)
    assert [(step.kind, step.fn) for step in steps] == [
        ("ufunc", np.multiply),
        ("ufunc", np.subtract),
    ]


def branch(x):
    return x * 2 if x[0, 0] > 0 else x


def in_place(x):
    y = x.copy()
    y += 1
    return y


def without_warnings(x):
    with np.errstate(divide="ignore"):
        return 1 / x


@pytest.mark.parametrize(
    "fn",
    [
        branch,
        in_place,
        without_warnings,
        lambda x: x * random.generator().random(),
        lambda x: x * np.ones(3),
        lambda x: np.asarray(x) * 2,
        lambda x: np.multiply(x, 2, out=np.empty((2, 3))),
        lambda x: x * 2 if type(x) is np.ndarray else x * 3,
        lambda x: x * float(x.sum()),
    ],
)
def test_what_cannot_be_followed_is_one_call_of_the_function(fn):
    steps, result = traced(fn, X.copy())
    assert [(step.kind, step.fn) for step in steps] == [("call", fn)]
    assert result.shape == (2, 3)


def test_a_view_is_one_for_ever_only_if_no_value_chooses_it():
    steps, _ = traced(lambda x: x.T[1], X)
    assert [step.kind for step in steps] == ["view", "view"]
    steps, _ = traced(lambda x, i: x[i], X, np.array(1))
    assert [step.kind for step in steps] == ["call"]


def test_a_copy_of_a_transposed_array_has_its_own_layout():
    steps, y = traced(lambda x: x.T.copy(), X)
    assert y.array.strides == X.T.copy().strides and steps[-1].name == "copy"


def test_numpy_scalars_keep_their_own_arithmetic():
    steps, _ = traced(lambda x: x.sum() * x.max(), X)
    assert steps[-1].kind == "call" and steps[-1].fn is operator.mul
