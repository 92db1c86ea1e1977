"""NumPy's functions on tensors are recorded; what has no rule is refused by name."""

import numpy as np
import pytest

import minigrad as mg


@pytest.fixture
def x():
    return mg.tensor([[0.5, 1.0], [2.0, 3.0]], requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        np.exp, np.tanh, np.sum, np.mean, np.transpose, np.negative, np.max,
        lambda t: np.sum(t, axis=0), lambda t: np.sum(t, 1, keepdims=True),
        lambda t: np.add(t, 1.0), lambda t: np.multiply(np.ones((2, 2)), t),
        lambda t: np.concatenate([t, t], axis=1), lambda t: np.stack((t, t)),
        lambda t: np.reshape(t, (4,)), lambda t: np.matmul(t, t),
        lambda t: np.where(t.data > 1, t, 0),
        lambda t: np.add.reduce(t, axis=1), lambda t: np.clip(t, 0.6, 2.5),
    ],
)  # fmt: skip
def test_numpy_functions_are_recorded_and_agree_with_numpy(x, call):
    y = call(x)
    assert isinstance(y, mg.Tensor) and y.requires_grad
    np.testing.assert_array_equal(y.detach().numpy(), call(x.detach()).numpy())


def test_an_array_on_the_left_gives_a_tensor(x):
    y = np.ones((2, 2)) * x
    assert isinstance(y, mg.Tensor) and y.requires_grad
    assert isinstance(np.float64(2.0) * x, mg.Tensor)


def test_an_unknown_function_is_named(x):
    with pytest.raises(TypeError, match=r"np\.linalg\.cond has no derivative rule"):
        np.linalg.cond(x)
    with pytest.raises(TypeError, match=r"np\.spacing has no derivative rule"):
        np.spacing(x)


def test_out_and_where_and_in_place_array_updates_are_refused(x):
    with pytest.raises(TypeError, match="out="):
        np.exp(x, out=np.empty((2, 2)))
    with pytest.raises(TypeError, match="out="):
        array = np.ones((2, 2))
        array += x
    with pytest.raises(TypeError, match=r"mg\.where"):
        np.exp(x, where=np.ones((2, 2), bool))


def test_never_an_object_array(x):
    with pytest.raises(TypeError):
        np.array([x, x])


def test_questions_about_shape_are_answered(x):
    assert np.shape(x) == (2, 2) and np.ndim(x) == 2 and np.size(x) == 4
