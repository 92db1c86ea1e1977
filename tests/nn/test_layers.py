"""Layers compute and start as PyTorch's do; where PyTorch is not installed, its part is skipped."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)


def same(ours, theirs, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


PAIRS = [
    ("Linear", (5, 3), {}, (4, 5)),
    ("Linear", (5, 3, False), {}, (2, 4, 5)),
    ("Conv2d", (2, 3, 3), {}, (2, 2, 7, 6)),
    ("Conv2d", (2, 3, (3, 2), (2, 1), (1, 0)), {"bias": False}, (2, 2, 7, 6)),
    ("Conv2d", (4, 6, 3, 1, 0, 2, 2), {}, (2, 4, 7, 6)),
    ("MaxPool2d", (2,), {}, (2, 3, 6, 4)),
    ("MaxPool2d", (3, 2, 1), {}, (2, 3, 7, 7)),
    ("MaxPool2d", (2,), {"ceil_mode": True, "dilation": 2}, (2, 3, 8, 7)),
    ("Flatten", (), {}, (2, 3, 4)),
    ("Flatten", (0, 1), {}, (2, 3, 4)),
    ("ReLU", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", ("tanh",), {}, (3, 4)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), PAIRS)
def test_values_and_gradients_equal_pytorchs_on_the_same_weights(name, args, options, shape):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(*args, **options)
    ours = getattr(nn, name)(*args, **options)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    data = rng.standard_normal(shape).astype(np.float32)
    x, x_torch = mg.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    y, y_torch = ours(x), theirs(x_torch)
    g = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(mg.tensor(g))
    y_torch.backward(torch.tensor(g))
    assert y.dtype == np.float32
    same(y, y_torch)
    same(x.grad, x_torch.grad)
    for p, p_torch in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, p_torch.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.Linear(50, 400), nn.Conv2d(2, 400, 5)])
def test_weights_start_uniform_within_one_over_the_root_of_fan_in(layer):
    w = layer.weight.detach().numpy()
    bound = 50**-0.5
    assert w.dtype == np.float32
    assert 0.99 * bound < np.abs(w).max() <= bound * (1 + 1e-6)
    assert abs(w.mean()) < 0.02 * bound  # 20,000 draws: standard error 0.004 bound
    assert abs(w.std() - bound / 3**0.5) < 0.02 * bound
    assert np.abs(layer.bias.detach().numpy()).max() <= bound * (1 + 1e-6)


def test_the_same_seed_gives_the_same_weights():
    mg.manual_seed(3)
    one = nn.Linear(3, 2).weight.detach().numpy()
    mg.manual_seed(3)
    assert np.array_equal(one, nn.Linear(3, 2).weight.detach().numpy())


def test_layers_take_a_dtype():
    assert nn.Linear(2, 2, dtype=np.float64).weight.dtype == np.float64


def test_dropout_drops_a_share_p_and_keeps_the_mean():
    n, p = 100_000, 0.3
    layer = nn.Dropout(p, generator=np.random.default_rng(1))
    y = layer(mg.ones(n, dtype="float32")).numpy()
    kept = y != 0
    assert y.dtype == np.float32
    assert np.allclose(y[kept], 1 / (1 - p))
    assert abs(kept.mean() - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5


def test_dropouts_gradient_has_the_mask_of_its_forward():
    x = mg.ones(1000, requires_grad=True)
    y = nn.Dropout(0.5)(x)
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), y.detach().numpy())


def test_dropout_is_the_identity_in_evaluation():
    x = mg.ones(5)
    assert nn.Dropout(0.5).eval()(x) is x


def test_dropout_of_everything_gives_zeros_even_for_infinities():
    y = nn.Dropout(1.0)(mg.full((3,), np.inf))
    assert np.array_equal(y.numpy(), np.zeros(3))


def test_dropout_draws_from_its_own_generator_alone():
    mg.manual_seed(0)
    before = mg.generator().bit_generator.state
    layer = nn.Dropout(0.5, generator=np.random.default_rng(0))
    layer(mg.ones(10))
    assert mg.generator().bit_generator.state == before


def test_dropout_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match="probability from 0 to 1, got 1.5"):
        nn.Dropout(1.5)


def test_sequential_indexes_appends_and_counts():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    assert len(net.append(nn.Linear(3, 1))) == 3
    assert net[-1].out_features == 1
    assert net(mg.ones(4, 2, dtype="float32")).shape == (4, 1)


def test_sequential_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="argument 1 is a function"):
        nn.Sequential(nn.ReLU(), lambda x: x)
