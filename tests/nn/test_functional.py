"""mg.nn.functional has PyTorch's names, argument order and answers."""

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F, T = mg.nn.functional, torch.nn.functional
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4, 6))
SIGNS = np.where(rng.random((3, 4, 6)) < 0.5, 1.0, -1.0)

CALLS = {
    "softmax": ((X, 1), {}),
    "log_softmax": ((X,), {"dim": 0}),
    "softmin": ((X, 2), {}),
    "glu": ((X, 1), {}),
    "normalize": ((X,), {"p": 3.0, "dim": -1}),
    "cosine_similarity": ((X[:1], Y), {"dim": 1}),
    "pairwise_distance": ((X, Y), {"p": 2.0, "keepdim": True}),
    "pad": ((X, (1, 2, 0, 3)), {"value": 2.0}),
    "tanhshrink": ((X,), {}),
    "softshrink": ((X, 0.3), {}),
    "hardshrink": ((X, 0.3), {}),
    "threshold": ((X, 0.1, -2.0), {}),
    "kl_div": ((X, np.exp(Y)), {"reduction": "batchmean"}),
    "smooth_l1_loss": ((X, Y), {"beta": 0.5}),
    "hinge_embedding_loss": ((X, SIGNS), {"margin": 0.7}),
    "mse_loss": ((X, Y), {"reduction": "sum"}),
    "l1_loss": ((X, Y), {}),
    "huber_loss": ((X, Y), {"delta": 0.4}),
    "binary_cross_entropy_with_logits": ((X, np.abs(SIGNS)), {}),
    "triplet_margin_loss": ((X, Y, Y[::-1].copy()), {"margin": 0.5}),
    "pixel_shuffle": ((X.reshape(1, 8, 3, 3), 2), {}),
    "pixel_unshuffle": ((X.reshape(1, 2, 6, 6), 2), {}),
    "leaky_relu": ((X, 0.2), {}),
    "avg_pool1d": ((X, 3), {"stride": 1, "padding": 1}),
    "layer_norm": ((X, (6,)), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_and_its_gradient_are_pytorchs(name):
    args, options = CALLS[name]
    ours = [mg.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    theirs = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    x, t = ours[0].requires_grad_(), theirs[0].requires_grad_()
    y, expected = getattr(F, name)(*ours, **options), getattr(T, name)(*theirs, **options)
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    g = rng.standard_normal(y.shape)
    (grad,) = torch.autograd.grad(expected, t, torch.tensor(g))
    np.testing.assert_allclose(mg.grad(y, x, g).numpy(), grad.numpy(), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes_are_pytorchs(mode):
    expected = T.pad(torch.tensor(X), (1, 2), mode=mode).numpy()
    np.testing.assert_array_equal(F.pad(mg.tensor(X), (1, 2), mode=mode).numpy(), expected)


def test_one_hot_counts_its_classes_and_refuses_numbers_beyond_them():
    index = np.array([[0, 2], [1, 1]])
    np.testing.assert_array_equal(F.one_hot(index).numpy(), T.one_hot(torch.tensor(index)).numpy())
    assert F.one_hot(mg.tensor(index), 5).shape == (2, 2, 5)
    with pytest.raises(ValueError, match=r"from 0 to 2 do not lie in 0\.\.1"):
        F.one_hot(index, 2)
    with pytest.raises(TypeError, match="class numbers"):
        F.one_hot(X)


def test_every_name_is_one_of_pytorchs():
    assert [name for name in F.__all__ if not hasattr(T, name)] == []
