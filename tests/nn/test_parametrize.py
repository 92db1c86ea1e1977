"""Tensors of a module that are computed from what is learned: nn.utils.parametrize."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn.utils import parametrize

pytestmark = pytest.mark.promise(
    "computed parameters learn, are saved, copied and removed; pruned ones stay pruned"
)

X = mg.tensor(np.random.default_rng(0).standard_normal((2, 3)), dtype=mg.float32)


class Symmetric(nn.Module):
    def forward(self, x):
        return mg.triu(x) + mg.triu(x, 1).T

    def right_inverse(self, x):
        return mg.triu(x)


class Scaled(nn.Module):
    def __init__(self):
        self.factor = nn.Parameter(np.float32(2))

    def forward(self, x):
        return x * self.factor


class Product(nn.Module):
    def forward(self, a, b):
        return mg.outer(a, b)

    def right_inverse(self, x):
        return x[:, 0] / x[0, 0], x[0]


def symmetric():
    return parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())


def test_the_tensor_is_computed_from_the_parameter_that_was_there():
    layer = nn.Linear(3, 3)
    learned, before = layer.weight, layer.weight.numpy().copy()
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert layer.parametrizations.weight.original is learned
    np.testing.assert_array_equal(layer.weight.numpy(), np.triu(before) + np.triu(before, 1).T)
    layer(X).sum().backward()
    assert learned.grad.numpy()[0, 2] != 0 and learned.grad.numpy()[2, 0] == 0


def test_paths_and_training_are_pytorchs():
    torch = pytest.importorskip("torch")

    class Theirs(torch.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    theirs = torch.nn.Linear(3, 3)
    torch.nn.utils.parametrize.register_parametrization(theirs, "weight", Theirs())
    ours = symmetric()
    assert set(ours.state_dict()) == set(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    steps = optim.SGD(ours.parameters(), 0.1), torch.optim.SGD(theirs.parameters(), 0.1)
    for _ in range(3):
        for optimizer in steps:
            optimizer.zero_grad()
        (ours(X) ** 2).sum().backward()
        (theirs(torch.tensor(X.numpy())) ** 2).sum().backward()
        for optimizer in steps:
            optimizer.step()
    np.testing.assert_allclose(ours.weight.numpy(), theirs.weight.detach().numpy(), rtol=1e-5)


def test_an_assignment_goes_through_the_right_inverses():
    layer = symmetric()
    layer.weight = mg.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]], dtype=mg.float32)
    assert layer.parametrizations.weight.original.tolist() == [[1, 2, 3], [0, 4, 5], [0, 0, 6]]
    assert layer.weight.tolist() == [[1, 2, 3], [2, 4, 5], [3, 5, 6]]
    parametrize.register_parametrization(layer, "bias", nn.Tanh())
    with pytest.raises(
        RuntimeError, match="Tanh has no right_inverse, so its result cannot be assigned"
    ):
        layer.bias = mg.zeros(3)


def test_a_further_parametrization_is_called_on_the_result_of_those_before():
    layer = symmetric()
    before = layer.weight.numpy()
    parametrize.register_parametrization(layer, "weight", Scaled())
    np.testing.assert_array_equal(layer.weight.numpy(), 2 * before)
    assert "parametrizations.weight.1.factor" in layer.state_dict()


def test_several_tensors_may_be_learned_for_one():
    layer = nn.Linear(3, 2)
    parametrize.register_parametrization(layer, "weight", Product())
    paths = {"bias", "parametrizations.weight.original0", "parametrizations.weight.original1"}
    assert set(layer.state_dict()) == paths
    layer.weight = mg.tensor([[1.0, 2, 3], [2, 4, 6]], dtype=mg.float32)
    assert layer.weight.tolist() == [[1, 2, 3], [2, 4, 6]]
    with pytest.raises(ValueError, match="computed from 2 tensors, none of which could take its"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.tolist()[1] == [2, 4, 6]


@pytest.mark.parametrize("stays", [True, False])
def test_what_is_removed_leaves_the_parameter_that_an_optimizer_knows(stays):
    layer = symmetric()
    learned, first = layer.parametrizations.weight.original, layer.weight.numpy()
    kept = first if stays else learned.numpy().copy()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=stays)
    assert layer.weight is learned and type(layer) is nn.Linear
    assert set(layer.state_dict()) == {"weight", "bias"}
    np.testing.assert_array_equal(layer.weight.numpy(), kept)
    with pytest.raises(ValueError, match="'weight' of Linear has no parametrization"):
        parametrize.remove_parametrizations(layer, "weight")


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("make", [symmetric, lambda: nn.utils.weight_norm(nn.Linear(3, 3))])
def test_copies_and_pickles_compute_from_tensors_of_their_own(twin_of, make):
    layer = make()
    twin = twin_of(layer)
    assert type(twin) is type(layer)
    assert twin.weight.tolist() == layer.weight.tolist()
    next(x for path, x in twin.named_parameters() if path != "bias").data[...] = 5
    assert twin.weight.tolist() != layer.weight.tolist()


def test_inside_cached_a_tensor_is_computed_once():
    layer = symmetric()
    with parametrize.cached(), parametrize.cached():
        assert layer.weight is layer.weight
        layer.weight = mg.zeros((3, 3), dtype=mg.float32)
        assert not layer.weight.any()
    assert layer.weight is not layer.weight


def test_what_cached_has_computed_without_a_history_is_not_what_is_learned_from():
    layer = symmetric()
    with parametrize.cached():
        with mg.no_grad():
            assert not layer.weight.requires_grad
        layer(X).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None


def test_an_array_may_be_assigned_and_takes_the_dtype_of_what_is_learned():
    layer = symmetric()
    layer.weight = np.ones((3, 3), np.float64)
    assert layer.weight.dtype == np.float32
    assert layer.weight.tolist() == np.ones((3, 3)).tolist()


def test_other_modules_of_the_class_are_as_they_were():
    layer, other = symmetric(), nn.Linear(3, 3)
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias") and not parametrize.is_parametrized(other)
    assert isinstance(layer, nn.Linear) and type(layer).__name__ == "Linear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear is type(other)
    assert isinstance(other.weight, nn.Parameter)


def test_a_buffer_may_be_computed_too():
    layer = nn.BatchNorm1d(3)
    parametrize.register_parametrization(layer, "running_var", nn.Softplus())
    assert "parametrizations.running_var.original" in dict(layer.named_buffers())
    parametrize.remove_parametrizations(layer, "running_var")
    np.testing.assert_allclose(layer.running_var.numpy(), np.log1p(np.exp(np.ones(3))), rtol=1e-6)
    assert "running_var" in dict(layer.named_buffers())


def test_a_function_of_the_parameters_takes_what_is_learned():
    layer = symmetric()
    path = "parametrizations.weight.original"
    y = mg.func.functional_call(layer, {path: mg.zeros((3, 3), dtype=mg.float32)}, X)
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(layer.bias.numpy(), (2, 3)))


def test_a_parametrization_that_changes_the_shape_is_refused_and_leaves_all_as_it_was():
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    with pytest.raises(
        ValueError, match=r"makes float32 \(2, 1\) of float32 \(2, 3\); keep shape and"
    ):
        parametrize.register_parametrization(layer, "weight", nn.Linear(3, 1))
    assert type(layer) is nn.Linear and layer.weight.tolist() == before
    with pytest.raises(ValueError, match="no parameter or buffer 'w'; its parameters are .'weight"):
        parametrize.register_parametrization(layer, "w", Symmetric())
    parametrize.register_parametrization(layer, "weight", nn.Linear(3, 1), unsafe=True)
    assert layer.weight.shape == (2, 1)


def test_a_function_in_place_of_a_parametrization_is_refused():
    with pytest.raises(TypeError, match="a parametrization is a module, whose forward"):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", np.tanh)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda x: (x, x), TypeError, "right_inverse of Wrong must give a tensor, got "),
        (lambda x: x > 0, ValueError, "right_inverse of Wrong makes bool "),
        (lambda x: x[0], ValueError, r"right_inverse of Wrong makes float32 \(3,\) of "),
    ],
)
def test_a_further_parametrization_whose_inverse_is_another_tensor_is_refused(
    given, error, message
):
    class Wrong(nn.Identity):
        def right_inverse(self, x):
            return given(x)

    layer = symmetric()
    with pytest.raises(error, match=message):
        parametrize.register_parametrization(layer, "weight", Wrong())
    assert len(layer.parametrizations.weight) == 1
