"""x[True], x[False] and their mixtures with index arrays: NumPy's meaning, in every derivative."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, hessian, jvp, vmap

X = np.arange(1.0, 13.0).reshape(3, 4)
KEYS = [
    True, False, (True, [0, 2]), ([0, 2], True), (..., True), (True, 0), (0, True), np.array(True),
    np.array(False), np.True_, (True, np.array([True, False, True])), (True, slice(1)),
    (True, True), (True, None, [0, 1]), ([0, 1], None, True), (slice(None), True, [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_values_and_derivatives_are_those_of_the_same_places(key):
    x = mg.tensor(X, requires_grad=True)
    y = x[key]
    weights = np.arange(1.0, y.size + 1).reshape(y.shape)
    (y * weights).sum().backward()
    expected = np.zeros_like(X)
    np.add.at(expected, key, weights)
    np.testing.assert_array_equal(y.detach().data, X[key])
    np.testing.assert_array_equal(x.grad.data, expected)
    cubes = lambda x: (x[key] ** 3).sum()
    counts = np.zeros_like(X)
    np.add.at(counts, key, 1.0)
    np.testing.assert_allclose(grad(cubes)(mg.tensor(X)).data, 3 * X**2 * counts)
    h = hessian(cubes)(mg.tensor(X)).data.reshape(12, 12)
    np.testing.assert_allclose(h, np.diag((6 * X * counts).ravel()))
    np.testing.assert_array_equal(jvp(lambda x: x[key], (x,), (X,))[1].detach().data, X[key])
    whole = vmap(lambda x: x[key])(np.stack([X, 2 * X])).data
    np.testing.assert_array_equal(whole, np.stack([X[key], 2 * X[key]]))


def test_the_gradient_of_distinct_values_goes_to_the_first_of_equal_ones():
    x = mg.tensor([3.0, 1.0, 2.0, 1.0], requires_grad=True)
    values, counts = np.unique(x, return_counts=True)
    (values * np.array([10.0, 20.0, 30.0])).sum().backward()
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [2, 1, 1]
    assert x.grad.tolist() == [30, 10, 20, 0]


def test_truths_choose_between_two():
    x = mg.tensor([1.0, -2.0], requires_grad=True)
    y = mg.choose(mg.tensor([True, False]), [-x, x])
    assert y.tolist() == [1, 2]


def test_a_real_tensor_is_not_filled_with_the_real_part_of_a_complex_value():
    x, z = mg.tensor([1.0, 2.0]), mg.tensor(3 + 4j)
    with pytest.raises(TypeError, match="masked_fill: x, float64, has no place for the imag"):
        mg.masked_fill(x, x > 1, z)
    assert mg.masked_fill(x.astype(np.complex64), x > 1, z).tolist() == [1, 3 + 4j]


def test_a_fill_takes_one_value_and_says_what_takes_several():
    x = mg.ones(3)
    with pytest.raises(ValueError, match=r"masked_fill: value .* got shape \(2, 3\).*mg.where"):
        mg.masked_fill(x, x > 0, mg.ones((2, 3)))
    with pytest.raises(ValueError, match=r"index_fill: value .* got shape \(2,\).*index_copy"):
        mg.index_fill(x, 0, [0, 2], [1.0, 2.0])
    each = mg.func.vmap(lambda x, value: mg.masked_fill(x, x > 1, value))
    assert each(mg.tensor([[1.0, 2.0], [3.0, 1.0]]), mg.tensor([7.0, 8.0])).tolist() == [
        [1, 7],
        [8, 1],
    ]


def test_diag_embed_of_a_number_says_that_it_takes_vectors():
    with pytest.raises(ValueError, match="diag_embed: x must be vectors .* got a number"):
        mg.diag_embed(mg.tensor(1.0))
