"""array[i] = x of a tracked tensor, into an array of NumPy's: the value goes there, no history."""

import warnings
from array import array

import numpy as np
import pytest

import minigrad as mg

X = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
STORED = r"array\[i\] = x takes the value of a tracked tensor and drops its history.*mg.stack"


def filled(x, out):
    for i in range(len(x)):
        out[i] = x[i] ** 2
    return out


@pytest.mark.parametrize("out", [np.zeros(3), np.zeros(3, np.float32), array("d", [0, 0, 0])])
def test_a_loop_that_fills_an_array_is_warned_that_no_gradient_comes_back(out):
    with pytest.warns(UserWarning, match=STORED) as caught:
        assert list(filled(X, out)) == [1.0, 4.0, 9.0]
    assert caught[0].filename == __file__


def test_the_warning_comes_in_transforms_too():
    for derivative in (mg.func.grad, lambda f: lambda x: mg.func.jvp(f, (x,), (x,))[1]):
        with pytest.warns(UserWarning, match=STORED):
            derivative(lambda x: x.sum() * filled(x, np.zeros(3)).sum())(X.detach())


def test_adding_to_an_entry_is_warned_of():
    total = np.zeros(1)
    with pytest.warns(UserWarning, match=STORED):
        total[0] += X.sum()


def test_no_warning_comes_where_the_value_is_asked_for_or_no_history_is_lost():
    values, names = np.zeros(3), {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values[0] = X[0].item()
        values[1] = float(X[1])
        names["x"] = X[0]
        filled(X, [0, 0, 0])
        filled(X.detach(), values)
        filled(X, mg.zeros(3))
        with mg.no_grad():
            filled(X, values)
    assert values.tolist() == [1.0, 4.0, 9.0]
