"""Initialisers draw from the distributions that their papers give."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import init


def weight(*shape):
    return mg.zeros(shape, dtype="float32")


def std(tensor):
    return tensor.numpy().std()


def test_fans_count_the_kernel():
    assert init.fans(weight(6, 4, 3, 5)) == (60, 90)


def test_fans_need_two_axes():
    with pytest.raises(ValueError, match=r"at least two axes \(out, in, ...\), got shape \(3,\)"):
        init.fans(weight(3))


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), (2 / 200) ** 0.5),
        (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), (2 / 300) ** 0.5),
        (lambda w: init.kaiming_uniform_(w, a=5**0.5), (1 / 600) ** 0.5),
        (lambda w: init.xavier_uniform_(w, gain=2.0), 2 * (2 / 500) ** 0.5),
        (init.xavier_normal_, (2 / 500) ** 0.5),
        (lambda w: init.normal_(w, 0.0, 0.7), 0.7),
        (lambda w: init.uniform_(w, -1, 1), 3**-0.5),
    ],
)
def test_standard_deviations_are_the_formulas(fill, expected):
    mg.manual_seed(0)
    w = fill(weight(300, 200))
    assert std(w) == pytest.approx(expected, rel=0.02)  # 60,000 draws: error 0.3 %
    assert w.dtype == np.float32


@pytest.mark.parametrize("name", ["linear", "sigmoid", "tanh", "relu", "leaky_relu"])
def test_gains_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def test_an_unknown_gain_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no gain is known for 'snake'; choose of \['linear'"):
        init.calculate_gain("snake")


def test_a_given_generator_is_the_one_that_is_used():
    one = init.uniform_(weight(4), generator=np.random.default_rng(5)).numpy()
    two = init.uniform_(weight(4), generator=np.random.default_rng(5)).numpy()
    assert np.array_equal(one, two)


def test_constants_fill():
    assert (init.ones_(weight(2)).numpy() == 1).all()
    assert (init.zeros_(init.ones_(weight(2))).numpy() == 0).all()
