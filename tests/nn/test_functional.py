"""mg.nn.functional has PyTorch's names, argument order and answers."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise("nn.functional is PyTorch's")

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
    "avg_pool2d": ((X, 2), {"divisor_override": 3}),
    "relu": ((X,), {}),
    "elu": ((X, 0.5), {}),
    "hardtanh": ((X, -0.3, 0.4), {}),
    "softplus": ((X, 2.0, 0.7), {}),
    "rrelu": ((X,), {}),
    "dropout3d": ((X[None], 0.5, False), {}),
    "gaussian_nll_loss": ((X, Y, np.abs(Y) + 0.1), {}),
    "poisson_nll_loss": ((X, np.floor(np.abs(Y))), {"full": True}),
    "soft_margin_loss": ((X, SIGNS), {"reduction": "sum"}),
    "margin_ranking_loss": ((X, Y, SIGNS, 0.2), {}),
    "multilabel_soft_margin_loss": ((X[0], np.abs(SIGNS[0])), {}),
    "triplet_margin_with_distance_loss": ((X, Y, Y[::-1].copy()), {"margin": 2.0}),
    "local_response_norm": ((X, 3), {"k": 2.0}),
    "channel_shuffle": ((X, 2), {}),
    "bilinear": ((X[0], Y[0], rng.standard_normal((2, 6, 6)), np.ones(2)), {}),
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


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_softmax_in_a_dtype_of_its_own_is_pytorchs(name):
    x = X.astype("float32")
    y = getattr(F, name)(mg.tensor(x), dim=1, dtype=mg.float64)
    expected = getattr(T, name)(torch.tensor(x), dim=1, dtype=torch.float64)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-12)


def test_negative_padding_cuts_off_as_pytorchs_does():
    for width in ((-1, 2), (1, -2, -1, 0), (-1, -1, -1, -1)):
        expected = T.pad(torch.tensor(X), width, value=2.0).numpy()
        np.testing.assert_array_equal(F.pad(mg.tensor(X), width, value=2.0).numpy(), expected)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("width", [(-3, 3), (2, -4), (-1, 2), (-2, -1), (3, -3), (-3, 2, 1, -2)])
def test_what_negative_padding_cuts_off_is_still_mirrored_and_repeated_as_pytorchs(mode, width):
    x = np.arange(24.0).reshape(2, 3, 4)
    a, b = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, z = F.pad(a, width, mode=mode), T.pad(b, width, mode=mode)
    np.testing.assert_array_equal(y.detach().numpy(), z.detach().numpy())
    (y * y).sum().backward(), (z * z).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_a_padding_that_is_no_row_of_pairs_is_refused():
    with pytest.raises(ValueError, match="pad: 1 must be pairs .left, right. for"):
        F.pad(mg.tensor(X), 1)


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
    with pytest.raises(TypeError, match="class indices"):
        F.one_hot(X)


def test_inplace_is_taken_and_leaves_x_as_it_is():
    x = mg.tensor(X)
    assert F.relu(x, inplace=True).min() >= 0 and F.dropout(x, 0.5, True, True).shape == x.shape
    np.testing.assert_array_equal(x.numpy(), X)
    with pytest.raises(TypeError):
        F.relu(x, True, 3)


def test_one_hot_of_each_example_is_a_row_of_the_batchs():
    index = np.array([2, 0, 1])
    rows = mg.func.vmap(lambda i: F.one_hot(i, 3))(mg.tensor(index))
    np.testing.assert_array_equal(rows.numpy(), np.eye(3, dtype=np.int64)[index])


def test_a_hard_gumbel_draw_is_one_hot_and_has_the_soft_draws_gradient():
    mg.manual_seed(0)
    x = mg.tensor(X, requires_grad=True)
    y = F.gumbel_softmax(x, tau=0.7, hard=True)
    np.testing.assert_allclose(np.sort(y.detach().numpy(), -1)[..., :-1], 0, atol=1e-15)
    (y * Y).sum().backward()
    mg.manual_seed(0)
    again = mg.tensor(X, requires_grad=True)
    (F.gumbel_softmax(again, tau=0.7) * Y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy())


def test_threshold_lets_a_nan_through_as_every_activation_does():
    x = mg.tensor([np.nan, 0.0, 1.0])
    np.testing.assert_array_equal(F.threshold(x, 0.1, 20.0).numpy(), [np.nan, 20, 1])


def test_gumbel_noise_is_finite_in_half_precision():
    mg.manual_seed(0)
    y = F.gumbel_softmax(mg.zeros(200, 200, dtype=np.float16))
    assert y.dtype == np.float16 and np.isfinite(y.numpy()).all()


def test_bags_of_rows_are_pytorchs():
    weight, rows, offsets = rng.standard_normal((5, 3)), np.array([0, 4, 4, 1]), np.array([0, 3])
    for mode in ("sum", "mean", "max"):
        ours = F.embedding_bag(rows, mg.tensor(weight), offsets, mode=mode)
        theirs = T.embedding_bag(
            torch.tensor(rows), torch.tensor(weight), torch.tensor(offsets), mode=mode
        )
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_every_name_is_one_of_pytorchs():
    assert [name for name in F.__all__ if not hasattr(T, name)] == []


def test_what_is_made_of_layers_takes_lists_too():
    image = [[[[1.0, 2.0], [3.0, 4.0]]] * 4]
    for f, *args in (
        (F.dropout3d, [image], 0.5, False),
        (F.rrelu, [1.0, -1.0]),
        (F.glu, [1.0, -1.0]),
        (F.softmin, [1.0, 2.0]),
        (F.pad, [1.0, 2.0], (1, 0)),
        (F.pixel_shuffle, image, 2),
        (F.pixel_unshuffle, image, 2),
        (F.channel_shuffle, image, 2),
        (F.threshold, [1.0, 2.0], 1.5, 0.0),
        (F.local_response_norm, image, 2),
        (F.pairwise_distance, [3.0, 4.0], [1.0, 2.0]),
        (F.hinge_embedding_loss, [0.5, 3.0], [1, -1]),
        (F.embedding_bag, [[0, 1]], [[1.0], [2.0]]),
        (F.triplet_margin_with_distance_loss, [[3.0]], [[1.0]], [[2.0]]),
    ):
        arrays = [np.array(x) if isinstance(x, list) else x for x in args]
        np.testing.assert_array_equal(np.asarray(f(*args)), np.asarray(f(*arrays)), f.__name__)


@pytest.mark.parametrize("drop", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_as_a_function_drops_in_training_alone(drop):
    x = mg.ones(10, 100)
    assert (drop(x).numpy() == 1).all()
    assert not (drop(x, training=True).numpy() == 1).all()


def test_one_hot_refuses_a_negative_number_of_classes():
    with pytest.raises(ValueError, match="num_classes is a number of classes, or -1; got -5"):
        mg.nn.functional.one_hot(mg.tensor([1]), -5)
