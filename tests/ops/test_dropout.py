"""Dropout: what is dropped, how often, from which generator, and what the gradient is."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.func import grad, vmap


def test_about_p_of_the_elements_are_dropped_and_the_mean_stays():
    mg.manual_seed(0)
    y = mg.dropout(mg.ones(200, 500), p=0.3).numpy()
    assert set(np.unique(y)) == {0.0, 1 / 0.7}
    assert (y == 0).mean() == pytest.approx(0.3, abs=0.01)
    assert y.mean() == pytest.approx(1, abs=0.02)


def test_the_gradient_goes_where_the_value_went():
    x = mg.ones(50, requires_grad=True)
    y = mg.dropout(x, p=0.4)
    y.backward(np.full(50, 2.0))
    np.testing.assert_array_equal(x.grad.numpy(), 2 * y.numpy())


def test_the_same_seed_gives_the_same_mask_and_the_next_call_another():
    mg.manual_seed(7)
    first, second = (mg.dropout(mg.ones(100)).numpy() for _ in range(2))
    mg.manual_seed(7)
    np.testing.assert_array_equal(mg.dropout(mg.ones(100)).numpy(), first)
    assert (first != second).any()


def test_a_generator_of_its_own_leaves_the_library_s_alone():
    state = mg.generator().bit_generator.state
    mg.dropout(mg.ones(100), generator=np.random.default_rng(0))
    assert mg.generator().bit_generator.state == state


@pytest.mark.parametrize("params", [{"p": 0.0}, {"training": False}])
def test_nothing_to_drop_gives_x_itself(params):
    x = mg.ones(3)
    assert mg.dropout(x, **params) is x


def test_p_of_1_drops_everything_infinities_too():
    x = mg.tensor([1.0, np.inf], requires_grad=True)
    y = mg.dropout(x, p=1)
    y.backward(np.ones(2))
    assert y.tolist() == [0, 0] and x.grad.tolist() == [0, 0]


def test_an_infinity_that_is_dropped_leaves_no_nan():
    y = mg.dropout(mg.full((1000,), np.inf), p=0.5).numpy()
    assert not np.isnan(y).any() and (y == 0).any()


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize(
    "name", ["dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout"]
)
def test_p_outside_0_to_1_is_refused(name, p):
    with pytest.raises(ValueError, match=rf"{name}: p is the probability of 0, from 0 to 1.*p="):
        getattr(mg, name)(mg.ones(2, 2, 2), p, True)


def test_dropout2d_drops_whole_channels():
    y = mg.dropout2d(mg.ones(20, 8, 3, 3), p=0.5).numpy().reshape(160, 9)
    assert (y == y[:, :1]).all() and 0 < (y[:, 0] == 0).sum() < 160


def test_feature_alpha_dropout_drops_whole_channels_and_keeps_mean_0_and_variance_1():
    x = mg.tensor(np.random.default_rng(0).standard_normal((100, 400, 2, 2)))
    rng = np.random.default_rng(1)
    y = mg.feature_alpha_dropout(x, p=0.2, training=True, generator=rng).numpy()
    first, *others = y.reshape(40_000, 4).T
    dropped = first == others[0]  # those that are kept differ from place to place
    assert dropped.mean() == pytest.approx(0.2, abs=0.01) and len(set(first[dropped])) == 1
    assert all((dropped == (first == other)).all() for other in others)
    assert y.mean() == pytest.approx(0, abs=0.02) and y.var() == pytest.approx(1, abs=0.02)


def test_alpha_dropout_keeps_mean_0_and_variance_1():
    x = mg.tensor(np.random.default_rng(0).standard_normal(200_000))
    y = mg.alpha_dropout(x, p=0.2, training=True, generator=np.random.default_rng(1)).numpy()
    assert y.mean() == pytest.approx(0, abs=0.02) and y.var() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_the_dtype_stays(dtype):
    if dtype == "bfloat16" and not hasattr(mg, "bfloat16"):
        pytest.skip("ml_dtypes is not installed")
    assert mg.dropout(mg.ones(4, dtype=dtype), p=0.3).dtype == mg.ones(1, dtype=dtype).dtype


@pytest.mark.filterwarnings("error")
def test_vmap_drops_from_every_example_by_itself():
    y = vmap(lambda x: mg.dropout(x, p=0.5), randomness="different")(mg.ones(4, 200)).numpy()
    assert all((y[i] != y[j]).any() for i in range(4) for j in range(i))


def test_a_transform_sees_the_mask_that_the_value_had():
    g = grad(lambda x: mg.sum(mg.dropout(x, generator=np.random.default_rng(3))))(mg.ones(50))
    y = mg.dropout(mg.ones(50), generator=np.random.default_rng(3))
    np.testing.assert_array_equal(g.numpy(), y.numpy())


def test_the_layer_drops_in_training_alone():
    layer, x = nn.Dropout(0.5, generator=np.random.default_rng(0)), mg.ones(100)
    expected = mg.dropout(x, 0.5, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(layer(x).numpy(), expected.numpy())
    assert layer.eval()(x) is x
