"""Softmax with and without the largest of each row taken off: the numbers of float64 either way."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.softmax import HIGHEST

pytestmark = pytest.mark.promise(
    "softmax with and without the maxima of rows; blocks of them and of cross entropy are the"
    " formulas"
)


def exact(x, axis):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rows(highest: float, lowest: float, count: int = 50) -> np.ndarray:
    x = np.random.default_rng(0).uniform(lowest, highest, (count, 30)).astype(np.float32)
    x[0, 0] = highest
    return x


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("highest", "lowest"),
    [(3, -3), (HIGHEST, -HIGHEST), (HIGHEST + 1, 0), (1e30, -1e30), (-200, -300), (5, -100)],
)
def test_values_of_any_size_give_the_shares_of_float64(highest, lowest, axis):
    x = rows(highest, lowest)
    y = mg.softmax(x, axis=axis)
    np.testing.assert_allclose(y, exact(x, axis), rtol=1e-5, atol=1e-37)


def test_a_row_far_below_0_beside_others_keeps_its_shares():
    x = rows(3, -3)
    x[7] -= 150
    np.testing.assert_allclose(mg.softmax(x, axis=1), exact(x, 1), rtol=1e-5)


def test_small_values_round_less_than_their_distances_to_the_largest():
    x = rows(40, -40)
    np.testing.assert_allclose(mg.softmax(x, axis=1), exact(x, 1), rtol=6e-7)


def test_a_row_with_nan_is_nan_and_no_other_row_is():
    x = rows(3, -3)
    x[4, 2] = np.nan
    bad = np.isnan(mg.softmax(x, axis=1)).any(1)
    assert bad[4] and bad.sum() == 1


def test_a_row_with_infinities_is_its_limit_and_no_other_row_is_touched():
    x = rows(3, -3)
    expected = mg.softmax(x, axis=1)
    x[4, [2, 7]] = np.inf
    y = mg.softmax(x, axis=1)
    assert y[4, 2] == y[4, 7] == 0.5 and y[4].sum() == 1
    np.testing.assert_allclose(np.delete(y, 4, 0), np.delete(expected, 4, 0), rtol=1e-6)


def test_what_is_masked_has_no_share_and_a_row_of_it_is_0():
    x = rows(3, -3)
    x[:, ::2] = -np.inf
    x[9] = -np.inf
    y = mg.softmax(x, axis=1)
    assert not y[:, ::2].any() and not y[9].any()
    np.testing.assert_allclose(np.delete(y, 9, 0).sum(1), 1, rtol=1e-6)


def test_whole_numbers_and_no_numbers_have_a_softmax_too():
    np.testing.assert_allclose(mg.softmax(np.array([1, 2, 2])), exact(np.array([1, 2, 2]), 0))
    assert mg.softmax(np.empty((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("shape", [(8, 1024), (3, 23_512), (8, 100)])
def test_many_complex_values_have_the_quotients_and_slopes_of_few(shape):
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for _ in range(2))
    e = np.exp(x)
    y = e / e.sum(-1, keepdims=True)
    xs = mg.tensor(x, requires_grad=True)
    np.testing.assert_allclose(mg.softmax(xs).numpy(), y, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(np.exp(mg.log_softmax(xs).numpy()), y, rtol=1e-11, atol=1e-15)
    p = y.conj()  # gx = p̄ (g − Σ p̄ g)
    expected = p * (g - (p * g).sum(-1, keepdims=True))
    np.testing.assert_allclose(mg.grad(mg.softmax(xs), xs, g).numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint32, np.int64])
def test_both_take_integers_to_the_same_floats(dtype):
    x = np.array([[0, 1, 1], [1, 0, 0]], dtype)
    p, log_p = mg.softmax(x), mg.log_softmax(x)
    assert p.dtype == log_p.dtype == np.result_type(dtype, np.float32)
    np.testing.assert_allclose(np.exp(log_p), p, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("apart", [5, 12, 20, 60])
def test_the_logarithm_of_a_share_near_1_has_its_digits(apart, axis):
    x = np.random.default_rng(0).uniform(-1, 1, (40, 9)).astype(np.float32)
    x[3] = x[:, 3] = 1 + apart
    x[3, 3] += apart
    x[7, 7] = np.nan
    wide = x.astype(np.longdouble)
    others = np.exp(wide - wide.max(axis, keepdims=True))
    others[others == 1] = 0
    exact = wide - wide.max(axis, keepdims=True) - np.log1p(others.sum(axis, keepdims=True))
    y = mg.log_softmax(x, axis=axis)
    seen = ~np.isnan(exact) & (
        (exact == exact.max(axis, keepdims=True)).sum(axis, keepdims=True) == 1
    )
    np.testing.assert_allclose(y[seen], exact[seen], rtol=1e-5)
