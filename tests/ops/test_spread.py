"""Standard deviations at the ends of the numbers."""

import warnings

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("dtype, size", [("float32", 1e-30), ("float32", 3e20), ("float32", 1e37),
                                         ("complex64", 1e25), ("float64", 1e-200),
                                         ("float64", 1e200)])  # fmt: skip
@pytest.mark.parametrize("axis, keepdims", [(None, False), (1, False), (0, True)])
def test_std_of_values_whose_squares_are_no_numbers_is_std_to_scale(dtype, size, axis, keepdims):
    values = np.random.default_rng(0).standard_normal((3, 5)) * (1 + 2j)
    values = (values if dtype == "complex64" else values.real).astype(dtype)
    x, unit = (mg.tensor(values * v, dtype=dtype, requires_grad=True) for v in (size, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, expected = (mg.std(v, axis=axis, keepdims=keepdims) for v in (x, unit))
    np.testing.assert_allclose(y.numpy() / size, expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        mg.grad(y.sum(), x).numpy(), mg.grad(expected.sum(), unit).numpy(), rtol=1e-4
    )


@pytest.mark.layer("courtesy")
def test_a_vector_norm_takes_its_options_by_name_as_numpy_does():
    # PyTorch's second argument is ord; taken as the axis it would give other numbers in silence.
    x = mg.tensor([[3.0, -1.0], [4.0, 9.0]])
    with pytest.raises(TypeError, match="axis, keepdims, ord by name"):
        mg.linalg.vector_norm(x, 1)
    assert mg.linalg.vector_norm(x, ord=1).item() == 17


def test_a_row_out_of_range_leaves_the_others_their_bits():
    rows = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    y = mg.std(mg.tensor(np.concatenate([rows, rows[:1] * np.float32(1e30)])), axis=1)
    assert np.array_equal(y.numpy()[:3], np.std(rows, axis=1))


def test_std_of_infinite_values_is_nan():
    with np.errstate(invalid="ignore"):
        assert np.isnan(mg.std(mg.tensor([np.inf, 1.0, 2.0])).item())


def test_the_gradient_of_a_deviation_next_to_0_is_that_of_the_same_numbers_scaled():
    x = np.array([3, -1, 2], "float32")
    leaves = [mg.tensor(x * np.float32(s), requires_grad=True) for s in (1, 2.0**-130)]
    expected, found = (mg.grad(mg.std(leaf), leaf).numpy() for leaf in leaves)
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # these have 20 bits


@pytest.mark.parametrize("p", [-1, -2])
def test_an_infinite_entry_does_not_move_a_norm_of_negative_order(p):
    x = mg.tensor([-np.inf, 1.0, 2.0], requires_grad=True)
    y = mg.linalg.norm(x, p)
    rest = mg.tensor([1.0, 2.0], requires_grad=True)
    assert y.item() == mg.linalg.norm(rest, p).item()
    expected = mg.grad(mg.linalg.norm(rest, p), rest).tolist()
    assert mg.grad(y, x).tolist() == [0, *expected]


def test_a_vectors_norm_of_no_order_is_the_euclidean_one():
    for axis in (None, 1):
        x = np.array([[3.0, 4.0], [0.0, 2.0]])
        y = np.linalg.vector_norm(mg.tensor(x), axis=axis, ord=None)
        np.testing.assert_allclose(y.numpy(), np.linalg.vector_norm(x, axis=axis), rtol=1e-15)


AXES = [None, 0, 1, -1, (0, 1), (1, 2), (2, 0), ()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_norm_of_many_elements_is_numpys_along_any_axes_and_in_any_layout(
    dtype, axis, keepdims
):
    a = np.random.default_rng(0).standard_normal((64, 32, 16)).astype(dtype)
    for x in (a, a.transpose(2, 0, 1), a[::2], a[:, :, ::-1]):
        y = mg.linalg.vector_norm(mg.tensor(x), axis=axis, keepdims=keepdims)
        expected = np.linalg.vector_norm(x, axis=axis, keepdims=keepdims)
        assert y.dtype == expected.dtype and y.shape == expected.shape
        np.testing.assert_allclose(y.numpy(), expected, rtol=2e-6)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_norm_of_many_elements_whose_squares_have_no_place_in_the_dtype_is_right(size):
    x = mg.full((3, 9_000), np.float32(size))
    np.testing.assert_allclose(mg.linalg.norm(x).item(), size * 27_000**0.5, rtol=1e-6)
    y = mg.linalg.vector_norm(x, axis=1).numpy()
    np.testing.assert_allclose(y, [size * 9_000**0.5] * 3, rtol=1e-6)
