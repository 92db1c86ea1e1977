"""What an error adds to NumPy's or Python's words: the mistake behind it, and the next step."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

X = mg.tensor([1.0, 2.0, 3.0])
P = mg.ones(2, requires_grad=True)


def message(call, kind):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "sign"),
    [(lambda: X > 0 & X < 3, "&"), (lambda: X > 0 | X, "|"), (lambda: (X > 0) ^ X, "^")],
)
def test_a_comparison_after_a_sign_that_binds_first_is_shown_with_its_brackets(call, sign):
    assert f"binds first: write (x > 0) {sign} (x < 3)" in message(call, TypeError)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (lambda: nn.Linear(2, 3)(nn.LSTM(2, 2)(mg.ones(4, 1, 2))), "linear(x: [float64 (4, 1, 2),"),
        (
            lambda: mg.tanh((P * 1, P)),
            "x is a tuple that holds tensors: pass one of them, as in x[0]",
        ),
        (lambda: mg.mul(P, [P]), "mul(a: float64 (2,), b: [float64 (2,)]): NumPy asks for a plain"),
    ],
)
def test_several_tensors_where_one_is_wanted_are_named_with_their_op(call, step):
    said = message(call, TypeError)
    assert step in said and "that holds tensors: pass one of them" in said


def test_images_that_a_layer_wants_flat_are_shown_the_step():
    said = message(lambda: nn.Linear(64, 10)(mg.ones(32, 1, 8, 8)), ValueError)
    assert said.endswith("; nn.Flatten(), or x.reshape(32, 64), would fit")
    assert "Flatten" not in message(lambda: nn.Linear(6, 2)(mg.ones(3, 8)), ValueError)


def test_images_with_their_channels_last_are_shown_the_step():
    x = mg.ones(2, 9, 8, 3)
    said = message(lambda: nn.Conv2d(3, 4, 3)(x), ValueError)
    assert said.endswith("channels come before positions: np.moveaxis(x, -1, 1)")
    assert nn.Conv2d(3, 4, 3)(np.moveaxis(x, -1, 1)).shape == (2, 4, 7, 6)


@pytest.mark.parametrize("index", [mg.tensor([1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0])])
def test_floats_as_an_index_are_shown_how_masks_and_row_numbers_are_made(index):
    assert "a mask is made by `mask != 0`" in message(lambda: X[index], IndexError)
    assert X[index != 0].tolist() == [1.0, 3.0]
