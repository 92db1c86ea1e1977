"""Layers whose parameters, buffers and inputs vmap batches compute what each of them does alone."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.errors import TransformError
from minigrad.func import functional_call, grad, stack_module_state, vmap
from minigrad.nn.utils import parametrizations

rng = np.random.default_rng(0)
WORDS = rng.integers(0, 6, (3, 4, 5))
numbers = rng.standard_normal
LAYERS = {
    "Embedding": (lambda: nn.Embedding(6, 2, padding_idx=1, scale_grad_by_freq=True), WORDS),
    "EmbeddingBag mean": (lambda: nn.EmbeddingBag(6, 2), WORDS),
    "EmbeddingBag sum": (lambda: nn.EmbeddingBag(6, 2, mode="sum", padding_idx=1), WORDS),
    "EmbeddingBag max": (lambda: nn.EmbeddingBag(6, 2, mode="max", padding_idx=1), WORDS),
    "BatchNorm": (lambda: nn.BatchNorm1d(2), numbers((3, 6, 2))),
    "BatchNorm with averages": (lambda: nn.BatchNorm1d(2, momentum=None), numbers((3, 6, 2))),
    "InstanceNorm": (
        lambda: nn.InstanceNorm1d(2, affine=True, track_running_stats=True), numbers((3, 4, 2, 5)),
    ),
    "spectral_norm": (
        lambda: parametrizations.spectral_norm(nn.Conv1d(2, 3, 2)), numbers((3, 1, 2, 4)),
    ),
    "older spectral_norm": (lambda: nn.utils.spectral_norm(nn.Linear(2, 3)), numbers((3, 4, 2))),
    "orthogonal": (lambda: parametrizations.orthogonal(nn.Linear(3, 3)), numbers((3, 4, 3))),
    "weight_norm": (lambda: parametrizations.weight_norm(nn.Linear(2, 3)), numbers((3, 4, 2))),
    "pruned": (lambda: nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", 0.5),
               numbers((3, 4, 2))),
    "LSTM": (lambda: nn.LSTM(2, 3, proj_size=1, bidirectional=True), numbers((3, 4, 2, 2))),
    "MultiheadAttention": (
        lambda: nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0), numbers((3, 4, 2, 2)),
    ),
}  # fmt: skip


def first(y):
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_each_example_has_its_own_layer(name, training):
    make, xs = LAYERS[name]
    xs = mg.tensor(xs)
    layers = [make().to(np.float64).train(training) for _ in range(3)]
    alone = copy.deepcopy(layers)
    one = layers[0]

    def loss(parameters, buffers, x):
        y = first(functional_call(one, (parameters, buffers), x))
        return (y**3).sum(), y

    parameters, buffers = stack_module_state(layers)
    gradients, ys = vmap(grad(loss, has_aux=True))(parameters, buffers, xs)
    for i, layer in enumerate(alone):
        y = first(layer(xs[i]))
        (y**3).sum().backward()
        np.testing.assert_allclose(ys[i].detach(), y.detach(), rtol=1e-9, atol=1e-12)
        for path, p in layer.named_parameters():
            np.testing.assert_allclose(gradients[path][i].detach(), p.grad, rtol=1e-9, atol=1e-10)
        for path, buffer in layer.named_buffers():
            np.testing.assert_allclose(buffers[path][i], buffer, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_examples_may_share_a_layer_that_writes_no_buffer(name):
    make, xs = LAYERS[name]
    layer, xs = make().to(np.float64).eval(), mg.tensor(xs)
    ys = first(vmap(layer)(xs))
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_allclose(y.detach(), first(layer(x)).detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_one_pair_of_singular_vectors_for_layers_that_differ_is_an_error(norm):
    layers = [norm(nn.Linear(2, 3)) for _ in range(2)]
    parameters, _ = stack_module_state(layers)
    with pytest.raises(TransformError, match="spectral_norm would write vectors of each example"):
        vmap(lambda p: functional_call(layers[0], p, mg.ones(1, 2)))(parameters)


def test_counts_of_batches_that_differ_give_no_one_average():
    layers = [nn.BatchNorm1d(2, momentum=None) for _ in range(2)]
    layers[0](mg.ones(3, 2))
    f = lambda p, b: functional_call(layers[0], (p, b), mg.ones(3, 2))
    with pytest.raises(TransformError, match=r"another number of batches .* \[1, 2\]|\[2, 1\]"):
        vmap(f)(*stack_module_state(layers))


def test_tables_that_are_cut_are_shared_and_so_are_the_ends_of_bags():
    layers = [nn.Embedding(6, 2, max_norm=0.5) for _ in range(2)]
    parameters, _ = stack_module_state(layers)
    with pytest.raises(TransformError, match="weight must be the same.*max_norm=None"):
        vmap(lambda p: functional_call(layers[0], p, mg.tensor([1, 2])))(parameters)
    words = mg.tensor([[1, 2], [3, 3]])
    y = vmap(copy.deepcopy(layers[0]))(words)
    np.testing.assert_array_equal(y.detach(), layers[0](words).detach())
    bag = nn.EmbeddingBag(6, 2)
    np.testing.assert_allclose(
        vmap(bag, (0, None))(words, mg.tensor([0, 1])).detach(),
        mg.stack([bag(row, mg.tensor([0, 1])) for row in words]).detach(),
    )
    with pytest.raises(TransformError, match="offsets must be the same for every example"):
        vmap(bag)(words, mg.tensor([[0, 1], [0, 2]]))


def test_adaptive_softmax_takes_classes_of_each_example_s_own():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6]).to(np.float64)
    xs, classes = mg.tensor(numbers((3, 5, 16))), mg.tensor(rng.integers(0, 10, (3, 5)))
    loss = lambda x, t: layer(x, t).loss
    for f in (loss, grad(loss), lambda x, t: layer(x, t).output):
        alone = mg.stack([f(x, t) for x, t in zip(xs, classes, strict=True)])
        np.testing.assert_allclose(vmap(f)(xs, classes).detach(), alone.detach(), rtol=1e-11)
    one = vmap(lambda x, t: layer(x, t).output)(xs[0], classes[0])
    np.testing.assert_allclose(one.detach(), layer(xs[0], classes[0]).output.detach(), rtol=1e-12)
    with pytest.raises(ValueError, match="class indices from 0 to 9"):
        vmap(loss)(xs, classes + 3)


def test_the_norm_of_gradients_is_of_one_example():
    with pytest.raises(TransformError, match="must be the same for every example.*vector_norm"):
        vmap(lambda g: nn.utils.get_total_norm([g]))(mg.ones(3, 4))
    assert vmap(lambda x: x * nn.utils.get_total_norm([mg.ones(4)]))(mg.ones(2)).tolist() == [2, 2]
