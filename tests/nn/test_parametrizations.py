"""Weights that stay orthogonal: nn.utils.parametrizations.orthogonal."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn.utils import parametrize
from minigrad.nn.utils.parametrizations import orthogonal

MAPS = ["matrix_exp", "cayley"]
SIZES = [(4, 4), (5, 3), (3, 5)]


def layer_of(rows, columns, *args, **kwargs):
    return orthogonal(nn.Linear(columns, rows).double(), "weight", *args, **kwargs)


def distance_from_orthogonal(w):
    w = w.numpy() if w.shape[-2] >= w.shape[-1] else np.swapaxes(w.numpy(), -1, -2)
    return np.abs(np.swapaxes(w, -1, -2) @ w - np.eye(w.shape[-1])).max()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", MAPS)
@pytest.mark.parametrize("from_base", [True, False])
def test_a_weight_is_orthogonal_and_stays_so_while_it_is_learned(size, how, from_base):
    layer = layer_of(*size, how, use_trivialization=from_base)
    x, first = mg.ones((2, size[1])), layer.weight.numpy()
    steps = optim.SGD(layer.parameters(), 0.01)
    for _ in range(3):
        assert distance_from_orthogonal(layer.weight) < 1e-12
        steps.zero_grad()
        (layer(x) ** 4).sum().backward()
        steps.step()
    assert np.abs(layer.weight.numpy() - first).max() > 1e-3


@pytest.mark.parametrize("size", SIZES)
def test_it_begins_with_an_orthogonal_weight_as_it_was_and_takes_another(size):
    layer = nn.Linear(size[1], size[0]).double()
    nn.init.orthogonal_(layer.weight)
    before = layer.weight.numpy().copy()
    orthogonal(layer)
    np.testing.assert_allclose(layer.weight.numpy(), before, atol=1e-12)
    layer.weight = -before
    np.testing.assert_allclose(layer.weight.numpy(), -before, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", MAPS)
def test_states_and_gradients_are_pytorchs(size, how):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(size[1], size[0]).double()
    torch.nn.utils.parametrizations.orthogonal(theirs, orthogonal_map=how)
    with torch.no_grad():
        theirs.parametrizations.weight.original.normal_()
    ours = layer_of(*size, how)
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(ours.weight.numpy(), theirs.weight.detach().numpy(), atol=1e-12)
    x = np.arange(2.0 * size[1]).reshape(2, -1)
    (ours(mg.tensor(x)) ** 3).sum().backward()
    (theirs(torch.tensor(x)) ** 3).sum().backward()
    grads = (rows.parametrizations.weight.original.grad for rows in (ours, theirs))
    np.testing.assert_allclose(*(g.numpy() for g in grads), rtol=1e-9, atol=1e-9)


def test_without_a_base_nothing_can_be_assigned():
    layer = layer_of(3, 3, use_trivialization=False)
    with pytest.raises(RuntimeError, match="has no right_inverse, so nothing can be assigned"):
        layer.weight = np.eye(3)


def test_complex_matrices_and_batches_of_them_are_made_orthogonal():
    class Holder(nn.Module):
        def __init__(self, value):
            self.w = nn.Parameter(value)

    draw = np.random.default_rng(0).standard_normal
    w = orthogonal(Holder(mg.tensor(draw((2, 4, 3)))), "w").w
    assert w.shape == (2, 4, 3) and distance_from_orthogonal(w) < 1e-12
    w = orthogonal(Holder(mg.tensor(draw((3, 3)) + 1j * draw((3, 3)))), "w").w.numpy()
    np.testing.assert_allclose(w.conj().T @ w, np.eye(3), atol=1e-12)


def test_a_copy_is_learned_by_itself_and_a_removed_one_keeps_its_value():
    layer = layer_of(3, 3)
    twin = copy.deepcopy(layer)
    twin.weight = -layer.weight.detach()
    kept = layer.weight.numpy()
    np.testing.assert_allclose(twin.weight.numpy(), -kept, atol=1e-12)
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_array_equal(layer.weight.numpy(), kept)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("bias",), r"orthogonal: needs a matrix, .* got shape \(3,\)"),
        (("w",), "orthogonal: Linear has no parameter 'w'"),
        (
            ("weight", "householder"),
            "orthogonal_map is 'matrix_exp' or 'cayley', got 'householder'",
        ),
    ],
)
def test_what_cannot_be_orthogonal_is_refused(args, said):
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=said):
        orthogonal(layer, *args)
    assert type(layer) is nn.Linear
