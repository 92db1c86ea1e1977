"""np.linspace, np.logspace and np.geomspace of tensors."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck


@pytest.mark.parametrize("dtype", [int, np.float32])
@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
def test_evenly_spaced_numbers_have_the_dtype_that_is_asked_for(name, dtype):
    for start, stop in ((1.0, 2.5), (-1.5, -4.0)):
        expected = getattr(np, name)(start, stop, 5, dtype=dtype)
        y = getattr(np, name)(mg.tensor(start), mg.tensor(stop), 5, dtype=dtype)
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
def test_a_negative_number_of_samples_is_an_error_as_in_numpy(name):
    with pytest.raises(ValueError, match="num is how many samples, 0 or more, got -1"):
        getattr(np, name)(mg.tensor(1.0), mg.tensor(2.0), -1)
    with pytest.raises(ValueError, match="must be non-negative"):
        mg.linspace(0, 1, -1)


def test_a_geometric_sequence_has_no_zero_and_one_sign():
    with pytest.raises(ValueError, match="np.geomspace: start and stop must not be 0"):
        np.geomspace(mg.tensor(0.0), mg.tensor(8.0), 4)
    with np.errstate(invalid="ignore"):
        y, expected = np.geomspace(mg.tensor(-1.0), mg.tensor(8.0), 4), np.geomspace(-1.0, 8.0, 4)
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("f", [np.linspace, np.logspace, np.geomspace])
def test_between_the_ends_numbers_of_python_are_weak(f):
    for dtype in (mg.bfloat16, np.float16, np.float32, np.complex64):
        x = mg.tensor([1.0, 2.0], dtype=dtype)
        assert f(x, 3, 4).dtype == f(3.0, x, 4).dtype == f(x, x, 4).dtype == dtype
    small = np.array([1, 2], np.int8)
    assert f(mg.tensor(small), 3, 4).dtype == np.float64


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shapes", [((4,), (4,)), ((3, 1), (4,)), ((), (4, 4))])
@pytest.mark.parametrize("f", [np.linspace, np.logspace, np.geomspace])
def test_the_new_axis_stands_where_numpys_does(f, shapes, axis):
    start, stop = (np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes)
    y, expected = (
        f(mg.tensor(start), mg.tensor(stop + 1), 4, axis=axis),
        f(start, stop + 1, 4, axis=axis),
    )
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("base", [2.0, [2.0, 3.0, 4.0], [[2.0], [3.0]]])
def test_a_base_broadcasts_with_the_ends(base, axis):
    base = np.array(base)
    for start in (0, 1.5, np.array([0.0, 1.0, 2.0])):
        y = np.logspace(start, 2, 4, base=mg.tensor(base), axis=axis)
        np.testing.assert_allclose(y.numpy(), np.logspace(start, 2, 4, base=base, axis=axis))
    gradcheck(lambda b, s: np.logspace(s, 2.0, 3, base=b, axis=axis), (base, np.array(0.5)))


def test_a_geometric_sequence_ends_exactly_at_its_ends():
    start, stop = np.array([1.0, 3.0, -0.7]), np.array([1000.0, 7.0, -0.3])
    y = np.geomspace(mg.tensor(start), mg.tensor(stop), 5, axis=-1).numpy()
    assert y[:, 0].tolist() == start.tolist() and y[:, -1].tolist() == stop.tolist()
    gradcheck(lambda a, b: np.geomspace(a, b, 5), (start, stop))


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_the_step_between_small_integers_does_not_wrap_round(dtype):
    start, stop = np.array([5, 0], dtype), np.array([1, 1], dtype)
    _, step = np.linspace(mg.tensor(start), mg.tensor(stop), 5, retstep=True)
    expected = np.linspace(start, stop, 5, retstep=True)[1]
    np.testing.assert_array_equal(step.numpy(), expected)
